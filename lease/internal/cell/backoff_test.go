package cell

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// After a conflict, a writer pauses for longer than a holder takes that renews the record. If none does,
// and the store is on this machine, a slow request makes no pause long.
func TestPausesAfterConflicts(t *testing.T) {
	plain, session := &lockrec.Record{State: lockrec.Held}, &lockrec.Record{State: lockrec.Held, Session: "S"}
	for _, c := range []struct {
		name        string
		local       bool
		rec         *lockrec.Record
		least, most time.Duration // of ten pauses
	}{
		{"a plain lease", true, plain, 4 * time.Second, time.Hour},
		{"a session, far away", false, session, 4 * time.Second, time.Hour},
		{"a session on this machine", true, session, 10 * time.Millisecond, 10 * 2 * mostPause},
		{"no record", true, nil, 10 * time.Millisecond, 10 * 2 * mostPause},
	} {
		synctest.Test(t, func(t *testing.T) {
			set := &Settings{KeyPrefix: "lock", TTL: time.Minute, MaxPoll: 5 * time.Second, Traits: store.Traits{Local: c.local}}
			s := NewSpace(t.Context(), &memstore.Store{}, set, nil)
			began := time.Now()
			others := (&Cell{Space: s, Key: "lock/job"}).Contention(FreeConflicts)
			for range FreeConflicts {
				if _, err := others.Conflict(t.Context(), c.rec); err != nil || time.Since(began) > 0 {
					t.Errorf("%s: the first conflicts took %v, %v", c.name, time.Since(began), err)
				}
			}
			for range 10 {
				s.noteTime(time.Second)
				if _, err := others.Conflict(t.Context(), c.rec); err != nil {
					t.Error(err)
				}
			}
			if took := time.Since(began); took < c.least || took > c.most {
				t.Errorf("%s: ten conflicts took %v; want from %v to %v", c.name, took, c.least, c.most)
			}
		})
	}
}
