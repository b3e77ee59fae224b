package gcsstore_test

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/gcp/gcsbucket"
	"github.com/holdfast-go/holdfast/gcp/gcsstore"
	"github.com/holdfast-go/holdfast/gcp/internal/gcstest"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func open(t testing.TB, s *gcstest.Server, prefix string) *gcsstore.Store {
	t.Helper()
	b, err := gcsbucket.New(t.Context(), "b", &gcsbucket.Options{Anonymous: true, Transport: s})
	if err != nil {
		t.Fatal(err)
	}
	st, err := gcsstore.New(b, prefix, nil)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, gcstest.New(), "pre/fix") }, nil)
}

// TestOneWriteASecond: the service accepts one write a second for each object. Six programs that want one
// lock, and hold it for five seconds each, get it one after another. No holder loses it to the limit, and
// no hand-over takes long.
func TestOneWriteASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := gcstest.New()
		server.MinPause = time.Second
		start := time.Now()
		var held, grants atomic.Int32
		const programs, each, hold = 6, 3, 5 * time.Second
		done := make(chan struct{}, programs)
		for range programs {
			client, err := lease.New(open(t, server, "app"), &lease.Options{TTL: gcsstore.MinTTL})
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				defer func() { done <- struct{}{} }()
				for range each {
					guard, err := client.Acquire(t.Context(), "job", nil)
					if err != nil {
						t.Error(err)
						return
					}
					if n := held.Add(1); n != 1 {
						t.Errorf("%d programs hold the lock", n)
					}
					time.Sleep(hold)
					if err := guard.Err(); err != nil {
						t.Errorf("lost: %v", err)
					}
					held.Add(-1)
					if err := guard.Release(t.Context()); err != nil {
						t.Errorf("release: %v", err)
					}
					grants.Add(1)
				}
				if err := client.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}()
		}
		for range programs {
			<-done
		}
		took := time.Since(start)
		if grants.Load() != programs*each || server.Answers(429) == 0 || took > programs*each*(hold+5*time.Second) {
			t.Errorf("%d grants in %v, %d requests refused", grants.Load(), took, server.Answers(429))
		}
		t.Logf("%d grants in %v, %d requests refused for the limit, %d for their condition", grants.Load(), took, server.Answers(429), server.Answers(412))
	})
}

// TestBusyRegister: a register that is written without a pause gets about a write a second. A write that
// comes too early waits. If it gives up, nothing was written.
func TestBusyRegister(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := gcstest.New()
		server.MinPause = time.Second
		st, start := open(t, server, ""), time.Now()
		var v store.Version
		for i := range 20 {
			next, err := st.Put(t.Context(), "k", v, []byte(strconv.Itoa(i)))
			for errors.Is(err, engine.ErrBusy) && store.OutcomeOf(err) == store.NotApplied {
				next, err = st.Put(t.Context(), "k", v, []byte(strconv.Itoa(i)))
			}
			if err != nil {
				t.Fatalf("write %d after %v: %v", i, time.Since(start), err)
			}
			v = next
		}
		if took := time.Since(start); took > time.Minute {
			t.Errorf("20 writes took %v", took)
		}
		server.MinPause = time.Hour // the control: a register that cannot be written for long
		_, err := st.Put(t.Context(), "k", v, []byte("x"))
		if !errors.Is(err, store.ErrUnavailable) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("got %v (%v)", err, store.OutcomeOf(err))
		}
	})
}

// TestUncached: the objects of registers forbid caches. An answer from a cache shows no age.
func TestUncached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := gcstest.New()
		st := open(t, server, "app")
		if _, err := st.Put(t.Context(), "k", "", []byte("v")); err != nil {
			t.Fatal(err)
		}
		if got := server.Object(st.ObjectKey("k")).CacheControl; got != "no-store" {
			t.Errorf("Cache-Control is %q", got)
		}
		time.Sleep(5 * time.Minute)
		_, _, age, err := st.GetAge(t.Context(), "k")
		if err != nil || age < 3*time.Minute || age > 4*time.Minute {
			t.Errorf("age %v, %v; want four minutes at most: five minus the accepted difference of clocks", age, err)
		}
	})
}

// TestOptions: a difference of clocks below a second is refused.
func TestOptions(t *testing.T) {
	b, err := gcsbucket.New(t.Context(), "b", &gcsbucket.Options{Anonymous: true, Transport: gcstest.New()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gcsstore.New(b, "", &gcsstore.Options{MaxClockSkew: time.Millisecond}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	if _, err := gcsstore.Open(context.Background(), "gs://b?nosuch=1", nil); !errors.Is(err, store.ErrMisconfigured) {
		t.Errorf("got %v", err)
	}
}
