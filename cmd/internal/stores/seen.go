package stores

import (
	"errors"
	"path/filepath"

	"github.com/holdfast-go/holdfast/internal/safefile"
)

// The command remembers something in these directories, which are below the directory of
// this user's locks. It ignores files there that another user could have written. Such a
// file could make it take the lock of a living holder, or trust a server that ignores
// conditions.
const (
	SeenDir   = "seen"   // sightings of locks
	ProbedDir = "probed" // stores that passed their probe
)

// WarnUntrustedState warns once if the command does not use what it remembered for stores of this kind.
func (a *Access) WarnUntrustedState(scheme string) {
	a.reportedState.Do(func() {
		base, err := DefaultDir()
		if err != nil {
			return
		}
		names := []string{SeenDir, ProbedDir}
		if scheme == "file" {
			names = names[:1] // a directory passes no probe
		}
		for _, name := range names {
			dir, err := safefile.OpenPrivateDir(filepath.Join(base, name))
			var not *safefile.PrivateError
			switch {
			case err == nil:
				dir.Close()
			case errors.As(err, &not):
				a.Notef("holdfast ignores the results that it saved in this directory: %v", err)
			}
		}
	})
}
