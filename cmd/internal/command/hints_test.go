package command

import (
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

// The advice about a store that does not answer fits the cause.
func TestHintsOfUnavailableStore(t *testing.T) {
	a := &app{}
	a.Opened, a.Again = "file:/locks", "file:/locks"
	for cause, want := range map[error]string{
		syscall.ENOSPC:       "free some space, then: holdfast --store file:/locks doctor",
		syscall.EDQUOT:       "free some space, then: holdfast --store file:/locks doctor",
		syscall.ECONNREFUSED: "check the server and the network, then: holdfast --store file:/locks doctor",
	} {
		if got := a.hints(fmt.Errorf("%w: %w", store.ErrUnavailable, cause)); !slices.Equal(got, []string{want}) {
			t.Errorf("%v: hints %q, want %q", cause, got, want)
		}
	}
}
