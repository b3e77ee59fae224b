package integration_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/proof/integration/faultproxy"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/store"
)

// Something happens to the request that takes a lock. It is held, with a
// deadline that counts from before the request was sent, or it is free: never is
// the lock blocked by the attempt itself. In the same way for a release
// and for the next acquire.
func TestAcquireUnderOneFault(t *testing.T) {
	t.Parallel()
	eachFault(t, func(t *testing.T, k kind, fault faultproxy.Fault) {
		s := newScene(t, k, lease.Options{})
		s.do(faultproxy.Writes(), 1, fault)
		sent := time.Now()
		g := s.acquire(s.client)
		// The write that is known to have been applied reached the proxy after it
		// was sent, and was not the last one for certain.
		calls := s.proxy.Calls()
		for i := len(calls) - 1; i >= 0; i-- {
			if faultproxy.Writes()(calls[i]) {
				if most := pitTrust - time.Since(calls[i].Start); g.Remaining() > most {
					t.Errorf("trusted for %v more, at most %v from the sending", g.Remaining(), most)
				}
				break
			}
		}
		if took := time.Since(sent); took > pitTTL {
			t.Errorf("it took %v, longer than a TTL: the attempt waited for itself", took)
		}
		s.wantHeld(s.other)
		if err := g.Release(t.Context()); err != nil {
			t.Errorf("release: %v", err)
		}
		g2 := s.acquire(s.other)
		if g2.Token() <= g.Token() {
			t.Errorf("token %d after %d", g2.Token(), g.Token())
		}
		if err := g2.Release(t.Context()); err != nil {
			t.Errorf("release: %v", err)
		}
	})
}

// Something happens to the request that frees a lock. Others get it at once, or
// after the write has settled, and long before the TTL is over.
func TestReleaseUnderOneFault(t *testing.T) {
	t.Parallel()
	eachFault(t, func(t *testing.T, k kind, fault faultproxy.Fault) {
		s := newScene(t, k, lease.Options{})
		g := s.acquire(s.client)
		s.do(faultproxy.Writes(), 1, fault)
		start := time.Now()
		if err := g.Release(t.Context()); err != nil {
			t.Errorf("release: %v", err)
		}
		g2 := s.acquire(s.other)
		if took := time.Since(start); took > pitTTL*3/4 {
			t.Errorf("free after %v", took)
		}
		// A late copy of the release must not touch the next grant.
		s.proxy.WaitIdle()
		if err := g2.Renew(t.Context()); err != nil {
			t.Errorf("renewal of the next holder: %v", err)
		}
		if err := g2.Release(t.Context()); err != nil {
			t.Errorf("release of the next holder: %v", err)
		}
	})
}

// Something happens to one renewal. The lease continues.
func TestRenewalUnderOneFault(t *testing.T) {
	t.Parallel()
	eachFault(t, func(t *testing.T, k kind, fault faultproxy.Fault) {
		s := newScene(t, k, lease.Options{
			OnEvent: func(e lease.Event) {
				if e.Kind == lease.EventLost {
					t.Errorf("lost: %v", e.Err)
				}
			},
			Tuning: lease.Tuning{RenewInterval: 500 * time.Millisecond},
		})
		g := s.acquire(s.client)
		s.proxy.Reset()
		s.do(faultproxy.Writes(), 1, fault)
		// Until three renewals after the fault were answered well.
		good := func(c *faultproxy.Call) bool {
			return faultproxy.Writes()(c) && c.Fault == "" && c.Status/100 == 2
		}
		for deadline := time.Now().Add(2 * pitTTL); s.proxy.Count(good) < 3 && g.Err() == nil; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("no three good renewals in %v", 2*pitTTL)
			}
		}
		if err := g.Err(); err != nil {
			t.Errorf("the lease is over: %v", err)
		}
		s.wantHeld(s.other)
		if err := g.Release(t.Context()); err != nil {
			t.Errorf("release: %v", err)
		}
	})
}

// The acquire conflicts, perhaps with itself, but by now another holds. That one
// is not adopted, and not disturbed.
func TestConflictWhileAnotherHolds(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, k kind) {
		s := newScene(t, k, lease.Options{})
		if err := s.acquire(s.other).Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		// The first copy of the write arrives late, and a second one after it.
		s.do(faultproxy.Writes(), 1, faultproxy.Late(600*time.Millisecond))
		s.proxy.Inject(&faultproxy.Rule{When: faultproxy.Writes(), Skip: 1, Times: 1, Do: faultproxy.Delay(time.Second)})
		result := make(chan error, 1)
		go func() {
			_, err := s.client.TryAcquire(t.Context(), "job", nil)
			result <- err
		}()
		for s.proxy.Count(faultproxy.Writes()) == 0 {
			time.Sleep(time.Millisecond)
		}
		g := s.acquire(s.other)
		if err := <-result; !errors.Is(err, lease.ErrHeld) {
			t.Errorf("the first acquire: got %v, want ErrHeld", err)
		}
		if err := g.Renew(t.Context()); err != nil {
			t.Errorf("the holder was disturbed: %v", err)
		}
	})
}

// What cannot be read is neither free nor absent.
func TestUnreadableIsNotAbsent(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, k kind) {
		s := newScene(t, k, lease.Options{})
		g := s.acquire(s.other)
		for _, fault := range []faultproxy.Fault{
			faultproxy.Refuse(500), faultproxy.Refuse(403), faultproxy.Refuse(503),
			faultproxy.Drop(), faultproxy.Truncate(), faultproxy.Lose(),
		} {
			s.do(faultproxy.Reads(), 0, fault)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if got, err := s.client.TryAcquire(ctx, "job", nil); err == nil {
				t.Errorf("%v: acquired with token %d what another holds with %d", fault, got.Token(), g.Token())
			}
			cancel()
			s.proxy.Heal()
		}
		if err := g.Renew(t.Context()); err != nil {
			t.Errorf("the holder was disturbed: %v", err)
		}
	})
}

// Something foreign is in the place of the record. It is not taken over, not
// overwritten, and reported.
func TestForeignRecord(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"empty": "", "torn": `{"holdfast":1,"ki`, "foreign": "hello", "large": string(make([]byte, 10<<20)),
	} {
		t.Run(name, func(t *testing.T) {
			eachKind(t, func(t *testing.T, k kind) {
				if k.name == "dynamodb" && len(body) > 400<<10 {
					t.Skip("an item of DynamoDB has at most 400 KB")
				}
				s := newScene(t, k, lease.Options{})
				check := s.foreign("lock/job", body)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				if _, err := s.client.Acquire(ctx, "job", nil); !errors.Is(err, store.ErrCorrupt) {
					t.Errorf("got %v, want ErrCorrupt", err)
				}
				check()
			})
		})
	}
}

// A lock whose record was removed by hand is lost to its holder at the next
// renewal, and can be taken by others with a higher token. On S3 the renewal meets
// 404 at If-Match.
func TestRemovedRecord(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, k kind) {
		s := newScene(t, k, lease.Options{ManualRenewal: true})
		g := s.acquire(s.client)
		s.remove("lock/job")
		if err := g.Renew(t.Context()); !errors.Is(err, lease.ErrLost) {
			t.Errorf("renewal: got %v, want ErrLost", err)
		}
		if g.Err() == nil {
			t.Error("the lease goes on")
		}
		if g2 := s.acquire(s.other); g2.Token() <= g.Token() {
			t.Errorf("token %d after %d", g2.Token(), g.Token())
		}
	})
}

// All replies take 0.9 TTL. What is trusted counts from the sending: the lease
// ends before its TTL has passed since the last write that was answered in time.
func TestSlowReplies(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, k kind) {
		s := newScene(t, k, lease.Options{})
		g := s.acquire(s.client)
		calls := s.proxy.Calls()
		arrived := calls[len(calls)-1].Start // the write, not before it was sent
		s.proxy.Inject(&faultproxy.Rule{Do: faultproxy.DelayReply(pitTTL * 9 / 10)})
		var believed time.Time
		for {
			at := time.Now()
			if g.Err() != nil {
				break
			}
			believed = at
			time.Sleep(10 * time.Millisecond)
		}
		// Renewals were applied but never known to be: that may not be counted.
		if lasted := believed.Sub(arrived); lasted > pitTrust {
			t.Errorf("trusted for %v after the sending, want at most %v", lasted, pitTrust)
		}
		if err := g.Err(); !errors.Is(err, lease.ErrExpired) {
			t.Errorf("got %v, want ErrExpired", err)
		}
	})
}

// The contract of a register: whatever happens to one request, a store never
// reports a conflict with the caller's own write, and what it reports is true.
func TestRegisterUnderOneFault(t *testing.T) {
	t.Parallel()
	eachFault(t, func(t *testing.T, k kind, fault faultproxy.Fault) {
		s := newScene(t, k, lease.Options{})
		var v store.Version
		for _, step := range []string{"create", "swap", "delete", "create after delete"} {
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			s.do(faultproxy.Writes(), 1, fault)
			value := []byte("value of " + step)
			prev, err := v, error(nil)
			if step == "delete" {
				err = s.st.Delete(ctx, "k", prev)
				v = ""
			} else {
				v, err = s.st.Put(ctx, "k", prev, value)
			}
			cancel()
			s.proxy.Heal()
			if errors.Is(err, store.ErrConflict) || permanent(err) {
				t.Errorf("%s: told of a passing fault: %v", step, err)
			}
			s.proxy.WaitIdle() // until what is late has been applied
			got, now, getErr := s.direct.Get(t.Context(), "k")
			if getErr != nil && !errors.Is(getErr, store.ErrNotFound) {
				t.Fatal(getErr)
			}
			applied := now != prev
			switch outcome := store.OutcomeOf(err); {
			case outcome == store.Applied && (now != v || step != "delete" && string(got) != string(value)):
				t.Errorf("%s: said to be applied as version %q, there is %q version %q", step, v, got, now)
			case outcome == store.NotApplied && applied:
				t.Errorf("%s: said not to be applied (%v), there is %q version %q", step, err, got, now)
			}
			if err != nil {
				t.Logf("%s: %v (%v)", step, err, store.OutcomeOf(err))
				v = s.force("k", step != "delete", value)
			}
		}
	})
}

// force brings a register into a state, whatever is still under way.
func (s *scene) force(key string, exists bool, value []byte) store.Version {
	s.t.Helper()
	for {
		got, v, err := s.direct.Get(s.t.Context(), key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			s.t.Fatal(err)
		}
		if exists == (v != "") && string(got) == string(value) || !exists && v == "" {
			return v
		}
		if exists {
			_, err = s.direct.Put(s.t.Context(), key, v, value)
		} else {
			err = s.direct.Delete(s.t.Context(), key, v)
		}
		if err != nil && !errors.Is(err, store.ErrConflict) {
			s.t.Fatal(err)
		}
	}
}

// permanent reports whether an error says that it is of no use to try again.
func permanent(err error) bool {
	for _, e := range []error{store.ErrUnsafe, store.ErrMisconfigured, store.ErrDenied, store.ErrCorrupt} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// A fault while a store finds out about an unknown server does not condemn the
// server: whatever request it hits, the store can be used, if not now then at the
// next try.
func TestFirstUseUnderOneFault(t *testing.T) {
	t.Parallel()
	const requests = 12 // of a first use, at the least
	eachKind(t, func(t *testing.T, k kind) {
		at := k.target(t)
		proxy := faultproxy.New(t, at.endpoint())
		for i, fault := range []faultproxy.Fault{
			faultproxy.Lose(), faultproxy.Drop(), faultproxy.Repeat(), faultproxy.Truncate(),
			faultproxy.Refuse(409), faultproxy.Refuse(500), faultproxy.Refuse(503), faultproxy.RefuseAfter(500),
		} {
			var when faultproxy.Match
			if fault.String() == faultproxy.Refuse(409).String() {
				when = faultproxy.Writes() // reads have no conflicts
			}
			for n := range requests {
				if !torture() && (n+i)%3 != 0 {
					continue
				}
				st, err := at.at(proxy.URL).open(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				key := servers.Unique("key")
				proxy.Inject(&faultproxy.Rule{When: when, Skip: n, Times: 1, Do: fault})
				_, err = st.Put(t.Context(), key, "", []byte("value"))
				proxy.Heal()
				if errors.Is(err, store.ErrConflict) || permanent(err) {
					t.Errorf("%v at request %d: %v", fault, n+1, err)
				}
				if err == nil {
					continue
				}
				if _, err = st.Put(t.Context(), key, "", []byte("value")); err != nil && !errors.Is(err, store.ErrConflict) {
					t.Errorf("%v at request %d: tried again: %v", fault, n+1, err)
				}
			}
		}
	})
}
