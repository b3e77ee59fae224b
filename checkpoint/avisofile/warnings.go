package avisofile

import (
	"log/slog"
	"sync"
)

// warner warns of changes by other programs, once for each kind.
type warner struct {
	log           *slog.Logger
	owner, fences sync.Once
}

func newWarner(log *slog.Logger) *warner {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &warner{log: log}
}

// ownerChanged warns that a file could not keep the owner that another program gave it.
func (t *warner) ownerChanged(file, changed string) {
	t.owner.Do(func() {
		t.log.Warn("another user's program replaced the state file; this user cannot keep its owner, and writes on with one that both can use", "file", file, "changed", changed)
	})
}

// fencesWentBack warns that keys have lower tokens or epochs than before.
func (t *warner) fencesWentBack(file string, keys int) {
	t.fences.Do(func() {
		t.log.Warn("fencing tokens or epochs went back: workers that they refused can write again; did a program put a file in the place of a link, or was the fence file removed or replaced?",
			"file", file, "keys", keys)
	})
}
