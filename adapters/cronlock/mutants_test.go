package cronlock_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutanttest"
)

func TestMutants(t *testing.T) {
	mutanttest.Run(t, []mutanttest.Mutant{
		{"an early tick does not wait for its period", "locker.go",
			"time.Until(next) <= l.early\n",
			"time.Until(next) < 0\n",
			"TestEarlyAndLateTicks"},
		{"no interval separates runs", "locker.go",
			"leases.MinInterval = cmp.Or(leases.MinInterval, 2*l.early)",
			"leases.MinInterval = 0",
			"TestEarlyAndLateTicks"},
		{"jobs of two namespaces share a lock", "locker.go",
			`"%", "%25", "/", "%2F"`,
			`"%", "%25"`,
			"TestNamespaces"},
	})
}
