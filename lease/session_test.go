package lease_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// expiry is how long a waiter watches a record with the default TTL.
const expiry = ttl + ttl/40

func open(t *testing.T, c *lease.Client) *lease.Session {
	t.Helper()
	s, err := c.OpenSession(t.Context())
	if err != nil {
		t.Fatalf("OpenSession: %v", err)
	}
	return s
}

// sessionKey is where the record of a session is.
func sessionKey(s *lease.Session) string { return "lock.session/" + s.ID() }

func TestSessionRequests(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		want := func(what string, n int) {
			t.Helper()
			if got := w.requests(); got != n {
				t.Errorf("%s took %d requests; want %d", what, got, n)
			}
		}
		c := client(t, w, nil)
		s := open(t, c)
		want("opening a session", 1)
		const locks = 20
		var guards []*lease.Guard
		for i := range locks {
			name := fmt.Sprint("lock-", i)
			plain := mustTry(t, c, name)
			acquired := w.requests()
			mustRelease(t, plain)
			released := w.requests()
			remove(t, st, "lock/"+name)
			g := mustTry(t, s, name)
			want("acquiring under a session", acquired)
			mustRelease(t, g)
			want("releasing under a session", released)
			h := handle(t, s, name)
			g = mustTake(t, h)
			guards = append(guards, g)
			w.requests()
		}
		for range 3 {
			time.Sleep(ttl / 3 * 11 / 10)
			synctest.Wait()
			want("a beat of a session with 20 locks", 1)
		}
		report(t, guards[0].Renew(t.Context()))
		want("Renew of a guard", 1)
		before := guards[1].Deadline()
		time.Sleep(time.Second)
		report(t, guards[1].SetData(t.Context(), []byte("data")))
		want("SetData of a guard", 1)
		if after := guards[1].Deadline(); !after.Equal(before) {
			t.Errorf("SetData moved the deadline from %v to %v", before, after)
		}
		mustRelease(t, guards[0])
		w.requests()
		report(t, s.Close(t.Context()))
		want("closing a session with 19 locks", 1+19)
		if info, err := c.InspectSession(t.Context(), s.ID()); err != nil || info.Record.State != lease.Free {
			t.Errorf("the record of a closed session: %q, %v", info.Record.State, err)
		}
		for i := range locks {
			rec := wantState(t, c, fmt.Sprint("lock-", i), lease.Free)
			if rec.Session != "" {
				t.Errorf("a free lock names the session %s", rec.Session)
			}
			if i == 1 && string(rec.Data) != "data" {
				t.Errorf("the data is %q", rec.Data)
			}
		}
	})
}

// Rule (a): a lock is believed until the session's deadline, whenever its own write was sent.
func TestSessionLockIsHeldUntilTheSessionsDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		s := open(t, client(t, w, nil))
		opened := time.Now()
		w.set(on(sessionKey(s), drop)) // no beat arrives; locks are written
		time.Sleep(ttl / 4)
		g := mustTry(t, s, "job")
		if trust := g.Remaining(); trust != s.Remaining() {
			t.Errorf("the lock is trusted for %v, the session for %v", trust, s.Remaining())
		}
		must(t, g.SetData(t.Context(), []byte("x")))
		<-g.Context().Done()
		if took := time.Since(opened); took > ttl-lease.MaxDefaultGrace {
			t.Errorf("the lock was believed for %v after the session's last renewal", took)
		}
		wantLost(t, g, lease.ErrExpired)
		var lost *lease.LostError
		if err := g.Err(); !errors.As(err, &lost) || lost.Name != "job" || lost.Session != s.ID() || lost.Token != g.Token() {
			t.Errorf("the lock was lost with %#v", lost)
		}
		if err := s.Err(); !errors.As(err, &lost) || lost.Name != "" || lost.Session != s.ID() || !strings.Contains(err.Error(), "session "+s.ID()) {
			t.Errorf("the session was lost with %v", err)
		}
		if cause := context.Cause(s.Context()); cause != s.Err() {
			t.Errorf("the session's context ended with %v", cause)
		}
	})
}

// Rule (b): the session is revoked, by one conditional write, before a lock of it is taken.
func TestSessionIsRevokedBeforeItsLockIsTaken(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		s := open(t, client(t, w, nil))
		const locks = 10
		for i := range locks {
			mustTry(t, s, fmt.Sprint("lock-", i))
		}
		w.set(everything(drop))
		began := time.Now()
		other := newWire(st)
		var writes []string
		other.set(func(op *store.Op) fault {
			if op.Kind.Write() {
				writes = append(writes, op.Key)
			}
			return pass
		})
		var heard events
		c := client(t, other, &lease.Options{OnEvent: heard.add})
		h := handle(t, c, "lock-0")
		wantHeldBy(t, h)
		writes = nil // the first was a guess that there is no record
		g := acquired(t, h)
		if took := time.Since(began); took < expiry-ttl/3 || took > expiry+ttl/3 {
			t.Errorf("taken over after %v", took)
		}
		if want := []string{sessionKey(s), "lock/lock-0"}; !slices.Equal(writes, want) {
			t.Errorf("the takeover wrote %q; want %q", writes, want)
		}
		// The others cost a look, as every lock does, and one request each.
		other.requests()
		for i := range locks - 1 {
			mustTry(t, c, fmt.Sprint("lock-", i+1))
		}
		if n := other.requests(); n != 2*(locks-1) {
			t.Errorf("the other %d locks took %d requests", locks-1, n)
		}
		info, err := c.InspectSession(t.Context(), s.ID())
		if err != nil || info.Record.State != lease.Revoked {
			t.Errorf("the session is %q, %v", info.Record.State, err)
		}
		mustRelease(t, g)
		told := heard.of(lease.EventRevoked, lease.EventTakenOver)
		if len(told) != locks+1 || told[0].Kind != lease.EventRevoked || told[0].Session != s.ID() || told[0].Reason == "" || told[1].Kind != lease.EventTakenOver {
			t.Errorf("events: %v", told)
		}
	})
}

// A revocation is a conditional write: a renewal that arrives before it makes it fail.
func TestRenewalDefeatsARevocation(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		s := open(t, client(t, st, &lease.Options{ManualRenewal: true}))
		mustTry(t, s, "job")
		other := newWire(st)
		c := client(t, other, nil)
		wantHeld(t, c, "job")
		time.Sleep(expiry)
		beats := 0
		other.set(func(op *store.Op) fault {
			if op.Kind.Write() && op.Key == sessionKey(s) && beats == 0 {
				beats++
				replace(t, st, sessionKey(s), `"nonce":"`, `"nonce":"X`)
			}
			return pass
		})
		wantHeld(t, c, "job")
		if info, err := c.InspectSession(t.Context(), s.ID()); err != nil || info.Record.State != lease.Held || beats != 1 {
			t.Errorf("after %d beats the session is %q, %v", beats, info.Record.State, err)
		}
		time.Sleep(expiry - time.Second)
		wantHeld(t, c, "job")
		time.Sleep(time.Second)
		mustTry(t, c, "job")
	})
}

// Two waiters find a session dead at the same time: one of them revokes it, and both continue.
func TestTwoWaitersRevokeASessionOnce(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		s := open(t, client(t, w, nil))
		mustTry(t, s, "a")
		mustTry(t, s, "b")
		w.set(everything(drop))
		var heard events
		var wg sync.WaitGroup
		for _, name := range []string{"a", "b"} {
			c := client(t, st, &lease.Options{OnEvent: heard.add})
			wg.Go(func() { report(t, errOf(c.Acquire(t.Context(), name, nil))) })
		}
		wg.Wait()
		if n := len(heard.of(lease.EventRevoked)); n != 1 {
			t.Errorf("%d have revoked the session", n)
		}
	})
}

// The reply of a revocation is lost: no lock is taken until the outcome is known.
func TestNoLockIsTakenDuringAnUnknownRevocation(t *testing.T) {
	for _, f := range []fault{lose, drop, repeat} {
		t.Run(string(f), func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				w := newWire(st)
				s := open(t, client(t, w, nil))
				mustTry(t, s, "job")
				w.set(everything(drop))
				other := newWire(st)
				c := client(t, other, nil)
				wantHeld(t, c, "job")
				time.Sleep(2 * ttl)
				unread := false
				other.set(func(op *store.Op) fault {
					switch {
					case op.Key == sessionKey(s) && op.Kind.Write() && !unread:
						unread = f != repeat
						return f
					case op.Key == sessionKey(s) && unread:
						return drop
					case op.Key == "lock/job" && op.Kind.Write() && unread:
						t.Error("the lock was taken while the outcome of the revocation was unknown")
					}
					return pass
				})
				ctx, cancel := context.WithTimeout(t.Context(), ttl/10)
				defer cancel()
				_, err := c.TryAcquire(ctx, "job", nil)
				if (err == nil) != (f == repeat) {
					t.Errorf("TryAcquire: %v", err)
				}
				other.set(nil)
				if err != nil {
					mustTry(t, c, "job")
				}
			})
		})
	}
}

// Rule (c): an absent session is not a dead one.
func TestAbsentSessionIsNotDead(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		s := open(t, client(t, st, &lease.Options{ManualRenewal: true}))
		g := mustTry(t, s, "job")
		remove(t, st, sessionKey(s))
		removed := time.Now()
		c := client(t, st, nil)
		wantHeld(t, c, "job")
		must(t, g.Err())
		// Another one that sees what the first has made is not faster.
		time.Sleep(ttl / 2)
		late := client(t, st, nil)
		wantHeld(t, late, "job")
		mustAcquire(t, c, "job")
		if took := time.Since(removed); took < expiry-ttl/100 || took > expiry+ttl/3 {
			t.Errorf("taken over %v after the removal", took)
		}
		wantLost(t, g, lease.ErrExpired)
	})
}

// A session whose record was removed learns it with its next renewal.
func TestSessionRemoved(t *testing.T) {
	for _, standIn := range []bool{false, true} {
		bubble(t, func(t *testing.T, st store.Store) {
			s := open(t, client(t, st, nil))
			g := mustTry(t, s, "job")
			remove(t, st, sessionKey(s))
			if standIn {
				wantHeld(t, client(t, st, nil), "job")
			}
			time.Sleep(ttl / 2)
			wantLost(t, g, lease.ErrRemoved)
		})
	}
}

// A lock whose session was closed and removed between two reads is read again.
func TestLockOfAClosedSessionIsReadAgain(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		s := open(t, client(t, st, nil))
		mustTry(t, s, "job")
		w := newWire(st)
		c := client(t, w, nil)
		closed := false
		w.set(func(op *store.Op) fault {
			if op.Key == sessionKey(s) && !closed {
				closed = true
				report(t, s.Close(context.Background()))
				remove(t, st, sessionKey(s))
			}
			return pass
		})
		mustTry(t, c, "job")
		if _, err := c.InspectSession(t.Context(), s.ID()); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the record of the session was made again: %v", err)
		}
	})
}

// A session learns only by the conflict of its last write that it was revoked. Close then says so, and
// names no other holder: there is none.
func TestSessionCloseAfterItWasRevoked(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		s := open(t, client(t, st, &lease.Options{ManualRenewal: true}))
		replace(t, st, sessionKey(s), `"open"`, `"fenced"`)
		var lost *lease.LostError
		if err := s.Close(t.Context()); !errors.As(err, &lost) || lost.Reason != lease.ErrRevoked || lost.NewHolder != "" {
			t.Errorf("Close: %v; want ErrRevoked without a new holder", err)
		} else if lost.Name != "" || lost.Session != s.ID() {
			t.Errorf("Close: the loss of lock %q and session %q; want session %q alone", lost.Name, lost.Session, s.ID())
		}
	})
}

// Rule (d): a revoked session never returns, and takes nothing any more.
func TestRevokedSessionNeverReturns(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		c := client(t, st, nil)
		s := open(t, c)
		g := mustTry(t, s, "job")
		replace(t, st, sessionKey(s), `"open"`, `"fenced"`)
		<-g.Context().Done()
		wantLost(t, g, lease.ErrRevoked)
		if _, err := s.TryAcquire(t.Context(), "other", nil); !errors.Is(err, lease.ErrRevoked) {
			t.Errorf("TryAcquire under a revoked session: %v", err)
		}
		if _, err := s.Acquire(t.Context(), "other", nil); !errors.Is(err, lease.ErrRevoked) {
			t.Errorf("Acquire under a revoked session: %v", err)
		}
		if err := g.Release(t.Context()); !errors.Is(err, lease.ErrRevoked) {
			t.Errorf("Release: %v", err)
		}
		if err := s.Close(t.Context()); !errors.Is(err, lease.ErrRevoked) {
			t.Errorf("Close: %v", err)
		}
		if again := open(t, c); again.ID() == s.ID() {
			t.Error("two sessions have one id")
		}
	})
}

// Rule (d): a session whose opening has no known outcome is not handed out; and while the
// outcome of the last renewal is not known, nothing is acquired.
func TestSessionInDoubtTakesNoLock(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		c := client(t, w, nil)
		var keys []string
		w.set(func(op *store.Op) fault {
			if op.Kind.Write() && !slices.Contains(keys, op.Key) {
				keys = append(keys, op.Key)
			}
			if len(keys) == 1 {
				return drop
			}
			return pass
		})
		s := open(t, c)
		if len(keys) != 2 || keys[1] != sessionKey(s) {
			t.Errorf("openings wrote %q; the session is %s", keys, s.ID())
		}
		w.set(only(keyed(sessionKey(s)), drop))
		time.Sleep(ttl / 2)
		if s.Err() != nil {
			t.Fatal(s.Err())
		}
		w.requests()
		_, err := s.TryAcquire(t.Context(), "job", nil)
		if !errors.Is(err, lease.ErrSessionInDoubt) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("TryAcquire in doubt: %v", err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := s.Acquire(t.Context(), "job", nil); err != nil {
				t.Errorf("Acquire in doubt: %v", err)
			}
		})
		time.Sleep(time.Second)
		if _, err := c.Inspect(t.Context(), "job"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("acquired in doubt: %v", err)
		}
		w.set(nil)
		wg.Wait()
	})
}

// Rule (e): Close ends all contexts, then writes `closed`, then frees the locks.
func TestSessionCloseEndsContextsFirst(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		s := open(t, client(t, w, nil))
		var guards []*lease.Guard
		contexts := map[*lease.Guard]context.Context{}
		for i := range 40 {
			g := mustTry(t, s, fmt.Sprint(i))
			guards = append(guards, g)
			contexts[g] = g.Context()
		}
		var order []string
		w.set(func(op *store.Op) fault {
			for _, g := range guards {
				select {
				case <-contexts[g].Done():
				default:
					t.Errorf("the context of a lock goes on while %s is written", op.Key)
				}
			}
			order = append(order, op.Key)
			return pass
		})
		must(t, s.Close(t.Context()))
		if len(order) != 41 || order[0] != sessionKey(s) {
			t.Errorf("requests: %q", order)
		}
		if err := guards[0].Err(); err != lease.ErrClosed {
			t.Errorf("after Close: %v", err)
		}
		if err := guards[0].Release(t.Context()); err != nil {
			t.Errorf("Release after Close: %v", err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Errorf("second Close: %v", err)
		}
		if _, err := s.TryAcquire(t.Context(), "x", nil); !errors.Is(err, lease.ErrClosed) {
			t.Errorf("TryAcquire after Close: %v", err)
		}
	})
}

// One write frees all locks of a session, even where the locks' own records cannot be written.
func TestSessionCloseIsOneWrite(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		s := open(t, client(t, w, nil))
		for i := range 100 {
			mustTry(t, s, fmt.Sprint(i))
		}
		w.set(only(func(op *store.Op) bool { return op.Key != sessionKey(s) }, hang))
		began := time.Now()
		if err := s.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
		if took := time.Since(began); took > lease.DefaultReleaseTimeout+time.Second {
			t.Errorf("Close took %v", took)
		}
		c := client(t, st, nil)
		for i := range 100 {
			mustTry(t, c, fmt.Sprint(i))
		}
		if info, err := c.InspectSession(t.Context(), s.ID()); err != nil || info.Record.State != lease.Free {
			t.Errorf("locks name the session, whose record is %q, %v", info.Record.State, err)
		}
	})
}

// A session closed while its locks are being acquired leaves no lock that is held.
func TestSessionClosedWhileAcquiring(t *testing.T) {
	for _, f := range []fault{pass, hang, hangLate, lose} {
		t.Run("with "+string(f), func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				w := newWire(st)
				c := client(t, w, nil)
				s := open(t, c)
				other := client(t, st, nil)
				held := mustTry(t, other, "held")
				struck := false
				w.set(func(op *store.Op) fault {
					if op.Kind.Write() && op.Key == "lock/free" && !struck {
						struck = true
						return f
					}
					return pass
				})
				var wg sync.WaitGroup
				for _, name := range []string{"held", "free"} {
					wg.Go(func() {
						g, err := s.Acquire(t.Context(), name, nil)
						if err == nil && g.Err() == nil && s.Err() != nil {
							t.Errorf("a guard that is trusted under a session that is closed")
						}
						if err != nil && !errors.Is(err, lease.ErrClosed) {
							t.Errorf("Acquire: %v", err)
						}
					})
				}
				time.Sleep(10 * time.Millisecond)
				report(t, s.Close(t.Context()))
				wg.Wait()
				time.Sleep(3 * time.Second)
				mustRelease(t, held)
				mustTry(t, other, "free")
				mustTry(t, other, "held")
			})
		})
	}
}

// A claim and a release of unknown outcome are freed in the end although the session lives on.
func TestSessionFreesLeftovers(t *testing.T) {
	freesLeftovers(t, []leftover{
		{what: "claim", first: lose, writes: drop, reads: drop},
		{what: "late claim", first: hangLate, writes: drop, reads: drop},
		{what: "release", first: drop, writes: drop, reads: drop},
	})
}

// leftover is a claim, or a release, of which a session cannot hear what became: these happen
// to the first write of the lock, to the later ones, and to the reads after the first write.
type leftover struct {
	what                 string
	first, writes, reads fault
}

// freesLeftovers fails unless a session that lives on frees what is left, once it can.
func freesLeftovers(t *testing.T, all []leftover) {
	for _, l := range all {
		t.Run(l.what, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				w := newWire(st)
				c := client(t, w, nil)
				s := open(t, c)
				var g *lease.Guard
				if l.what == "release" {
					g = mustTry(t, s, "job")
				}
				written := false
				w.set(func(op *store.Op) fault {
					switch {
					case op.Key != "lock/job", !op.Kind.Write() && !written:
						return pass
					case !op.Kind.Write():
						return l.reads
					case written:
						return l.writes
					}
					written = true
					return l.first
				})
				if g != nil {
					if err := g.Release(t.Context()); err == nil || l.first != fail && !errors.Is(err, lease.ErrUnresolved) {
						t.Fatalf("Release: %v", err)
					}
				} else {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					if _, err := s.TryAcquire(ctx, "job", nil); !errors.Is(err, lease.ErrUnresolved) {
						t.Fatalf("TryAcquire: %v", err)
					}
				}
				time.Sleep(10 * ttl)
				wantState(t, client(t, st, nil), "job", lease.Held) // the control
				w.set(nil)
				time.Sleep(ttl / 2)
				must(t, s.Err())
				wantState(t, c, "job", lease.Free)
				mustTry(t, client(t, st, nil), "job")
			})
		})
	}
}

// A session whose record is unreadable, of the future or foreign is neither dead nor absent.
func TestSessionRecordUnreadable(t *testing.T) {
	for what, change := range map[string]func(string) string{
		"garbage": func(string) string { return "garbage" },
		"a later format": func(s string) string {
			return strings.Replace(s, `"holdfast":`, `"holdfast":9`, 1)
		},
		"a lock":          func(s string) string { return strings.Replace(s, `"kind":"session"`, `"kind":"lease"`, 1) },
		"another session": func(s string) string { return strings.Replace(s, `"name":"`, `"name":"X`, 1) },
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				s := open(t, client(t, st, nil))
				g := mustTry(t, s, "job")
				tamper(t, st, sessionKey(s), func(value []byte) []byte { return []byte(change(string(value))) })
				c := client(t, st, nil)
				if _, err := c.Acquire(t.Context(), "job", nil); !errors.Is(err, store.ErrCorrupt) {
					t.Errorf("Acquire: %v", err)
				}
				<-g.Context().Done()
				wantLost(t, g, lease.ErrExpired)
				time.Sleep(5 * ttl)
				if _, err := c.TryAcquire(t.Context(), "job", nil); !errors.Is(err, store.ErrCorrupt) {
					t.Errorf("TryAcquire: %v", err)
				}
				if _, err := c.Break(t.Context(), "job", g.Token(), &lease.BreakOptions{Immediate: true}); err != nil {
					t.Errorf("Break: %v", err)
				}
				mustTry(t, c, "job")
			})
		})
	}
}

// The goroutines of a session do not grow with its locks.
func TestSessionGoroutines(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		c := client(t, st, nil)
		before := goroutines()
		s := open(t, c)
		for i := range 100 {
			mustTry(t, s, fmt.Sprint(i))
		}
		time.Sleep(ttl) // the session has been renewed
		synctest.Wait()
		if n := goroutines() - before; n != 1 {
			t.Errorf("a session with 100 locks has %d goroutines", n)
		}
		report(t, s.Close(t.Context()))
		synctest.Wait()
		if n := goroutines() - before; n != 0 {
			t.Errorf("%d goroutines are left", n)
		}
	})
}

// goroutines counts those of the bubble that the caller is in. Those of other tests, and of the
// runtime, begin and end meanwhile.
func goroutines() int {
	header := func(stack string) string { return regexp.MustCompile(`synctest bubble \d+`).FindString(stack) }
	stack := make([]byte, 1<<20)
	stack = stack[:runtime.Stack(stack, true)]
	own, others, _ := strings.Cut(string(stack), "\n\n")
	n := 1
	for _, other := range strings.Split(others, "\n\n") {
		first, _, _ := strings.Cut(other, "\n")
		if header(first) == header(own) {
			n++
		}
	}
	return n
}

// A lost session ends all its guards, and the waits of its handles.
func TestSessionLost(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		s := open(t, client(t, w, nil))
		holder := client(t, st, nil)
		mustTry(t, holder, "held")
		var guards []*lease.Guard
		for i := range 50 {
			guards = append(guards, mustTry(t, s, fmt.Sprint(i)))
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := s.Acquire(t.Context(), "held", nil); !errors.Is(err, lease.ErrLost) {
				t.Errorf("Acquire: %v", err)
			}
		})
		time.Sleep(time.Second)
		deadline := s.Deadline()
		w.set(everything(drop))
		<-s.Context().Done()
		if time.Now().After(deadline) {
			t.Errorf("the session ended at %v, its deadline was %v", time.Now(), deadline)
		}
		for _, g := range guards {
			wantLost(t, g, lease.ErrExpired)
		}
		wg.Wait()
		w.set(nil)
		w.requests()
		for _, g := range guards {
			if err := g.Release(t.Context()); !errors.Is(err, lease.ErrExpired) {
				t.Errorf("Release: %v", err)
			}
		}
		if err := s.Close(t.Context()); !errors.Is(err, lease.ErrExpired) {
			t.Errorf("Close: %v", err)
		}
		if n := w.requests(); n != 0 {
			t.Errorf("%d requests for a session that is lost", n)
		}
	})
}

// Closing the client closes its sessions.
func TestSessionCloseOfTheClient(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		c := client(t, st, nil)
		s := open(t, c)
		g := mustTry(t, s, "job")
		report(t, c.Close(t.Context()))
		if g.Err() != lease.ErrClosed || s.Err() != lease.ErrClosed {
			t.Errorf("after Close: %v, %v", g.Err(), s.Err())
		}
		report(t, s.Close(t.Context()))
		mustTry(t, client(t, st, nil), "job")
		if _, err := c.OpenSession(t.Context()); !errors.Is(err, lease.ErrClosed) {
			t.Errorf("OpenSession of a closed client: %v", err)
		}
	})
}

// The wall clock in the record of a session says nothing: a dead session whose renewals are of the
// future, or long past, is fenced after one TTL, and no living one is.
func TestSessionWallClockDecidesNothing(t *testing.T) {
	for _, year := range []string{"0001", "1970", "2200"} {
		t.Run(year, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				dead := open(t, client(t, st, &lease.Options{ManualRenewal: true}))
				mustTry(t, dead, "job")
				changed := 0
				tamper(t, st, sessionKey(dead), func(value []byte) []byte {
					return regexp.MustCompile(`"(granted|renewed)":"[0-9]{4}`).ReplaceAllFunc(value, func(field []byte) []byte {
						changed++
						return append(field[:len(field)-4], year...)
					})
				})
				if changed == 0 {
					t.Fatal("the record has no time")
				}
				living := mustTry(t, open(t, client(t, st, nil)), "other")
				began := time.Now()
				mustRelease(t, mustAcquire(t, client(t, st, nil), "job"))
				if took := time.Since(began); took < expiry-soon || took > expiry+soon {
					t.Errorf("taken over after %v, want %v", took, expiry)
				}
				if living.Err() != nil {
					t.Error(living.Err())
				}
			})
		})
	}
}

// A session that was peeked at as fenced is not: what was peeked at may never take effect.
func TestUncommittedRevocationDoesNotCount(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		s := open(t, client(t, st, nil))
		mustTry(t, s, "job")
		value, _ := stored(t, st, sessionKey(s))
		p := &peekingAt{delayed{st}, sessionKey(s), []byte(strings.Replace(string(value), `"open"`, `"fenced"`, 1))}
		wantHeld(t, client(t, p, nil), "job")
	})
}

// peekingAt shows a value under a key, which does not stand there, at each peek.
type peekingAt struct {
	delayed
	key   string
	value []byte
}

func (p *peekingAt) GetUncommitted(ctx context.Context, key string) ([]byte, store.Version, error) {
	if key != p.key {
		return p.Get(ctx, key)
	}
	return p.value, "peeked", nil
}

// Those who wait for the locks of one session share the looks at its record.
func TestWaitersShareReadsOfASession(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		s := open(t, client(t, st, nil))
		w := newWire(hidden{st})
		c := client(t, w, nil)
		var looks atomic.Int32
		w.set(func(op *store.Op) fault {
			if op.Key == sessionKey(s) {
				looks.Add(1)
			}
			return pass
		})
		var wg sync.WaitGroup
		for i := range 50 {
			g := mustTry(t, s, fmt.Sprint(i))
			wg.Go(func() { _, _ = c.Acquire(t.Context(), fmt.Sprint(i), nil) })
			defer g.Release(t.Context())
		}
		const span = 10 * time.Minute
		time.Sleep(span)
		if n, most := int(looks.Load()), int(span/lease.DefaultMaxPoll)+2; n > most || n < most/3 {
			t.Errorf("%d looks at the session's record in %v; want at most %d", n, span, most)
		}
		report(t, s.Close(t.Context()))
		wg.Wait()
	})
}

// An earlier process of the same holder is reclaimed with its session.
func TestSessionReclaimOwn(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		s := open(t, client(t, st, &lease.Options{Holder: "me", ManualRenewal: true}))
		mustTry(t, s, "job")
		own := client(t, st, &lease.Options{Holder: "me", ReclaimOwn: true})
		wantHeld(t, own, "job") // it is this process's
		replace(t, st, sessionKey(s), `"process":"`, `"process":"X`)
		wantHeld(t, client(t, st, &lease.Options{Holder: "you", ReclaimOwn: true}), "job")
		mustTry(t, client(t, st, &lease.Options{Holder: "me", ReclaimOwn: true}), "job")
	})
}

// Collect removes the records of sessions that ended long ago, and of no other.
func TestSessionSweep(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		c := client(t, w, nil)
		living := open(t, c)
		mustTry(t, living, "job")
		ended := map[string]*lease.Session{"fenced": open(t, c), "closed": open(t, c), "silent": open(t, c)}
		dropped := map[string]bool{"lock/closed": true} // so that the session's record stays
		for name, s := range ended {
			mustTry(t, s, name)
			if name != "closed" {
				dropped[sessionKey(s)] = true
			}
		}
		w.set(only(func(op *store.Op) bool { return op.Kind.Write() && dropped[op.Key] }, drop))
		report(t, ended["closed"].Close(t.Context()))
		other := client(t, st, nil)
		mustRelease(t, mustAcquire(t, other, "fenced"))
		time.Sleep(2 * time.Hour)
		ended["recent"] = open(t, other)
		mustTry(t, ended["recent"], "recent")
		must(t, errOf(other.Sweep(t.Context(), &lease.SweepOptions{OlderThan: time.Hour, Prefix: "x"})))
		stands := func(s *lease.Session) bool {
			_, err := other.InspectSession(t.Context(), s.ID())
			return err == nil
		}
		if !stands(ended["fenced"]) || !stands(ended["closed"]) {
			t.Error("Collect with a prefix removed the record of a session")
		}
		must(t, errOf(other.Sweep(t.Context(), &lease.SweepOptions{OlderThan: time.Hour})))
		for name, want := range map[string]bool{"fenced": false, "closed": false, "silent": true, "recent": true} {
			if stands(ended[name]) != want {
				t.Errorf("the record of the session that is %s: %v; want %v", name, !want, want)
			}
		}
		if !stands(living) || living.Err() != nil {
			t.Errorf("the living session: %v", living.Err())
		}
		aged := client(t, &agedAbove{agedStore{Store: st, age: 2 * time.Hour}}, nil)
		must(t, errOf(aged.Sweep(t.Context(), &lease.SweepOptions{OlderThan: time.Hour})))
		if stands(ended["silent"]) || !stands(living) {
			t.Error("by the store's clock the silent session is dead, and the living one is not")
		}
		mustAcquire(t, aged, "closed") // which names a session that is absent
	})
}

// agedAbove is an agedStore with the abilities of the store below.
type agedAbove struct{ agedStore }

func (s *agedAbove) Unwrap() store.Store { return s.Store }

// Collect leaves nothing of an ended session where the store can do without a tombstone.
func TestSessionSweepLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	st, err := filestore.Open(dir, nil)
	must(t, err)
	defer st.Close()
	s := open(t, client(t, st, nil))
	must(t, s.Close(t.Context()))
	left := func() (n int) {
		_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, _ error) error {
			if strings.Contains(path, "session") {
				n++
			}
			return nil
		})
		return n
	}
	if left() == 0 {
		t.Fatal("nothing in the store is of a session")
	}
	later := client(t, st, nil)
	lease.SetClock(later, func() lease.Reading {
		now := time.Now().Add(2 * time.Hour)
		return lease.Reading{Mono: now, Wall: now}
	})
	must(t, errOf(later.Sweep(t.Context(), &lease.SweepOptions{OlderThan: time.Hour})))
	if n := left(); n != 0 {
		t.Errorf("%d files and directories of a session that was collected", n)
	}
}
