package reservation_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutanttest"
)

func TestMutants(t *testing.T) {
	mutanttest.Run(t, []mutanttest.Mutant{
		{"a take-over does not name the ttl", "table.go",
			"	also(attrTTL, ttlOf(seen))\n", "",
			"TestTakeOverNamesAllThatItHasSeen"},
		{"a take-over does not name the nonce", "table.go",
			"	also(attrNonce, nonce)\n", "	_ = nonce\n",
			"TestTakeOverNamesAllThatItHasSeen"},
		{"an item of another state counts", "table.go",
			"met.Row.Key != row.Key || met.Row.Version != row.Version", "met.Row.Key == \"\"",
			"TestTableOfAnotherShape"},
		{"a fraction is a generation", "item.go",
			"	n, err := strconv.ParseUint(s, 10, 64)\n", "	f, err := strconv.ParseFloat(s, 64)\n	n := uint64(f)\n",
			"TestItemThatIsNoReservation"},
	})
}
