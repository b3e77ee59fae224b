package lease_test

// A later process continues the watch of an earlier one where both read one clock: on Linux.

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// Many short tries, as of separate processes, take a dead holder's lock in the end.
func TestShortTriesOfManyProcessesTakeADeadLock(t *testing.T) {
	t.Parallel() // it waits in real time
	st := named(t)
	memory := lease.FileCache(filepath.Join(t.TempDir(), "seen"))
	dead := client(t, st, &lease.Options{ManualRenewal: true, TTL: 600 * time.Millisecond})
	mustTry(t, dead, "job")
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		c, err := lease.New(st, &lease.Options{Cache: memory})
		must(t, err)
		g, err := c.TryAcquire(t.Context(), "job", nil)
		if err == nil {
			if waited := time.Since(began); waited < 500*time.Millisecond {
				t.Errorf("taken over after %v", waited)
			}
			mustRelease(t, g)
			break
		}
		if !errors.Is(err, lease.ErrHeld) {
			t.Fatal(err)
		}
		if time.Since(began) > 30*time.Second {
			t.Fatal("none of the tries won")
		}
		_ = c.Close(t.Context())
	}
}

// Short tries in turns on two stores of one name, and on two parts of one store, keep their
// observations apart: together they find out that the holders are dead.
func TestObservationsOfTwoStoresOfOneName(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) [2]store.Store{
		"two stores": func(*testing.T) [2]store.Store { return [2]store.Store{&memstore.Store{}, &memstore.Store{}} },
		"two parts": func(t *testing.T) [2]store.Store {
			m := &memstore.Store{}
			return [2]store.Store{below(t, m, "a"), below(t, m, "b")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits in real time
			stores, memory := open(t), &sightings{}
			o := &lease.Options{TTL: lease.MinLocalTTL, Cache: memory}
			for _, st := range stores {
				dead := client(t, newWire(st), &lease.Options{TTL: lease.MinLocalTTL, ManualRenewal: true})
				mustTry(t, dead, "job")
			}
			taken := map[store.Store]bool{}
			for end := time.Now().Add(10 * lease.MinLocalTTL); len(taken) < len(stores); time.Sleep(20 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("the tries took %d locks of %d, all holders are dead", len(taken), len(stores))
				}
				for _, st := range stores {
					if taken[st] {
						continue
					}
					if g, err := client(t, newWire(st), o).TryAcquire(t.Context(), "job", nil); err == nil {
						defer g.Release(t.Context())
						taken[st] = true
					} else if !errors.Is(err, lease.ErrHeld) {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

// A process that reads the observation of an earlier one continues its watch over a request to
// yield. One that has seen only the request does not reset that.
func TestRequestDelaysNoTakeoverByALaterProcess(t *testing.T) {
	const ttl = 2 * time.Second
	for name, memory := range map[string]lease.Cache{"map": &sightings{}, "files": lease.FileCache(t.TempDir() + "/m")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits in real time
			st := named(t)
			mustTry(t, client(t, st, &lease.Options{TTL: ttl, ManualRenewal: true}), "job")
			o := &lease.Options{TTL: ttl, Cache: memory}
			began := time.Now()
			wantHeld(t, client(t, st, o), "job")
			time.Sleep(ttl * 2 / 3)
			mustAsk(t, client(t, st, o), "")
			wantHeld(t, client(t, st, o), "job")
			mustAcquire(t, client(t, st, o), "job")
			if took := time.Since(began); took < ttl || took > ttl*3/2 {
				t.Errorf("taken %v after the first read, want a TTL and the allowance", took)
			}
		})
	}
}

// So does a process that reads the observation of an earlier one.
func TestBreakDelaysNoTakeoverByALaterProcess(t *testing.T) {
	t.Parallel() // it waits in real time
	breakWatched(t, named(t), 2*time.Second, &sightings{})
}
