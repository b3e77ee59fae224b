package locks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// TestListInParallel: a listing reads locks, and then the sessions that they name, a few at the
// same time, and each session once; the control is what it takes one after the other.
func TestListInParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const locks, each = 48, 10 * time.Millisecond
		var now, most, reads atomic.Int64
		var slow atomic.Bool
		st := store.Intercept(&memstore.Store{}, func(ctx context.Context, op *store.Op, next store.Handler) error {
			if !slow.Load() || op.Kind == store.OpList {
				return next(ctx, op)
			}
			reads.Add(1)
			n := now.Add(1)
			defer now.Add(-1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
				continue
			}
			time.Sleep(each)
			return next(ctx, op)
		})
		var all []*lease.Client
		take := func(n int) {
			c, err := lease.New(st, &lease.Options{Holder: fmt.Sprint("holder ", n)})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, c)
			s, err := c.OpenSession(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{fmt.Sprintf("job/%02d", n), "readers"} {
				h, err := s.Handle(name, &lease.LockOptions{Shared: name == "readers"})
				if err == nil {
					_, err = h.TryAcquire(t.Context())
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		for n := range locks - 1 {
			take(n)
		}
		slow.Store(true)
		began := time.Now()
		views, err := list(t.Context(), all[0], st, "", "", "mem:")
		took := time.Since(began)
		if err != nil || len(views) != locks {
			t.Fatalf("%d locks, %v", len(views), err)
		}
		for n, v := range views[:locks-1] {
			if v.Name != fmt.Sprintf("job/%02d", n) || v.Holder != fmt.Sprint("holder ", n) || v.Expires == nil {
				t.Errorf("%+v", v)
			}
		}
		if v := views[locks-1]; len(v.Holders) != locks-1 || v.Whose() != "holder 0, holder 1, holder 2, 44 more" {
			t.Errorf("%d holders: %s", len(v.Holders), v.Whose())
		}
		if n, want := reads.Load(), int64(locks+locks-1); n != want {
			t.Errorf("%d reads, want %d", n, want)
		}
		if most.Load() != leases.InParallel || took != 2*each*locks/leases.InParallel {
			t.Errorf("at most %d reads at a time, in %v; one after the other they take %v", most.Load(), took, (2*locks-1)*each)
		}
		slow.Store(false)
		for _, c := range all {
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestListWhileAHolderReleases: a holder releases its lock and closes its session while ls reads. ls does not
// list the lock as that of a dead holder.
func TestListWhileAHolderReleases(t *testing.T) {
	for _, shared := range []bool{false, true} {
		st := &memstore.Store{}
		client := func(st store.Store) *lease.Client {
			c, err := lease.New(st, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close(context.Background()) })
			return c
		}
		s, err := client(st).OpenSession(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		g, err := s.Acquire(t.Context(), "job", &lease.LockOptions{Shared: shared})
		if err != nil {
			t.Fatal(err)
		}
		releases := sync.OnceFunc(func() {
			if err := errors.Join(g.Release(t.Context()), s.Close(t.Context())); err != nil {
				t.Error(err)
			}
		})
		read := store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
			if op.Key == "lock.session/"+s.ID() {
				releases()
			}
			return next(ctx, op)
		})
		views, err := list(t.Context(), client(read), read, "", "", "mem:")
		if err != nil || len(views) != 1 || views[0].State != "free" {
			t.Errorf("shared %v: %+v, %v; want a free lock", shared, views[0], err)
		}
	}
}

// TestListOfALockThatChanges: the record of a lock that names an ended session changes before every read. ls ends
// nevertheless.
func TestListOfALockThatChanges(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	st := &memstore.Store{}
	read := store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
		if op.Key == "lock/job" && op.Kind.Read() {
			value, v, err := st.Get(ctx, op.Key)
			if err == nil {
				_, err = st.Put(ctx, op.Key, v, value)
			}
			if err != nil {
				t.Error(err)
			}
		}
		return next(ctx, op)
	})
	c, err := lease.New(st, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	s, err := c.OpenSession(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Acquire(ctx, "job", nil); err != nil {
		t.Fatal(err)
	}
	held, _, err := st.Get(ctx, "lock/job")
	if err := errors.Join(err, s.Close(ctx)); err != nil {
		t.Fatal(err)
	}
	_, v, err := st.Get(ctx, "lock/job")
	if err == nil {
		_, err = st.Put(ctx, "lock/job", v, held) // as if the release were still to come
	}
	if err != nil {
		t.Fatal(err)
	}
	reader, err := lease.New(read, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close(context.Background())
	if views, err := list(ctx, reader, read, "", "", "mem:"); err != nil || len(views) != 1 || !views[0].NamesDead() {
		t.Errorf("%+v, %v", views, err)
	}
}

// TestSessionReportsItsLock: the record of a lock under a session is as old as its grant.
// So long after the TTL, the session reports whether the lock is held.
func TestSessionReportsItsLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 30 * time.Second
		st := &memstore.Store{}
		var cut atomic.Bool
		unreachable := store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
			if cut.Load() {
				return store.ErrUnavailable
			}
			return next(ctx, op)
		})
		var reader *lease.Client
		for name, st := range map[string]store.Store{"renewed": st, "control": unreachable} {
			c, err := lease.New(st, &lease.Options{TTL: ttl})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close(context.WithoutCancel(t.Context()))
			s, err := c.OpenSession(t.Context())
			if err == nil {
				_, err = s.TryAcquire(t.Context(), name, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			if name == "renewed" {
				reader = c
			}
		}
		cut.Store(true)
		time.Sleep(3 * ttl)
		views, err := list(t.Context(), reader, st, "", "held", "mem:")
		if err != nil || len(views) != 2 {
			t.Fatalf("%d locks, %v", len(views), err)
		}
		for _, v := range views {
			if v.Name == "control" {
				if v.Expired == "" {
					t.Error("the lock whose session is not renewed is told as held: the test shows nothing")
				}
				continue
			}
			if v.PlainState() != "held" || v.Expires == nil || !v.Expires.After(time.Now()) {
				t.Errorf("%s, until %v", v.PlainState(), v.Expires)
			}
		}
	})
}
