package avisofile

import (
	"cmp"
	"log/slog"
	"sync"
)

// warner warns of changes by other programs, once for each kind.
type warner struct {
	log           *slog.Logger
	owner, fences sync.Once
}

func newWarner(log *slog.Logger) *warner {
	return &warner{log: cmp.Or(log, slog.New(slog.DiscardHandler))}
}

// ownerChanged warns that a file could not keep the owner that another program gave it.
func (t *warner) ownerChanged(file, changed string) {
	t.owner.Do(func() {
		t.log.Warn("a program of another user replaced the state file. This program could not keep that owner, so it wrote a file that both users can read and write", "file", file, "changed", changed)
	})
}

// fencesWentBack warns that keys have lower tokens or epochs than before.
func (t *warner) fencesWentBack(file string, keys int) {
	t.fences.Do(func() {
		t.log.Warn("fencing tokens or epochs are lower than before, so workers with an old token can write again; find out which program replaced a link by a file, or removed or replaced the fence file",
			"file", file, "keys", keys)
	})
}
