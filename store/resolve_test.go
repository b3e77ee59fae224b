package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// bareStore has no ability, and its conflicts do not carry the current state.
type bareStore struct{ s *memstore.Store }

func (p bareStore) Get(ctx context.Context, key string) ([]byte, store.Version, error) {
	return p.s.Get(ctx, key)
}

func (p bareStore) Put(ctx context.Context, key string, prev store.Version, value []byte) (store.Version, error) {
	v, err := p.s.Put(ctx, key, prev, value)
	if errors.Is(err, store.ErrConflict) {
		err = store.ErrConflict
	}
	return v, err
}

func (p bareStore) Delete(ctx context.Context, key string, prev store.Version) error {
	return p.s.Delete(ctx, key, prev)
}

// TestResolvePlain: for a store that knows only its current state, Resolve says what that
// state proves, and nothing else.
func TestResolvePlain(t *testing.T) {
	ctx, s := t.Context(), bareStore{memstore.New()}
	put := func(prev store.Version) store.Version {
		t.Helper()
		v, err := s.Put(ctx, "k", prev, nil)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	check := func(what string, want store.Resolution, prev store.Version, writes ...store.Version) {
		t.Helper()
		found, err := store.Resolve(ctx, s, "k", prev, writes...)
		if err != nil || found.Resolution != want || (found.Write != "") != (want == store.ResolutionApplied) {
			t.Errorf("%s: %+v, %v; want %v", what, found, err, want)
		}
	}
	check("nothing", store.ResolutionPending, "")
	check("a create, absent: it may have been deleted", store.ResolutionUnknown, "", "x")
	v := put("")
	check("a create", store.ResolutionApplied, "", "x", v)
	check("a create with another hint", store.ResolutionApplied, "", v+"@hint")
	check("not yet", store.ResolutionPending, v, "x", "")
	w := put(v)
	check("followed", store.ResolutionUnknown, "", v)
	check("another's", store.ResolutionUnknown, v, "x")
	check("no write, and another's", store.ResolutionNotApplied, v)
	check("the second", store.ResolutionApplied, v, "", w)
}

// resolving is how a write on the value "before" ends under a schedule of faults.
type resolving struct {
	schedule   string
	resolution store.Resolution
	failed     bool
	outcome    store.Outcome
	value      string // the value at the end; empty: absent
}

func (c resolving) check(t *testing.T, write func(context.Context, store.Store, store.Version) (store.ResolveResult, error)) {
	t.Run(c.schedule, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := memstore.New()
			v, err := m.Put(t.Context(), "k", "", []byte("before"))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			schedule, err := faultstore.Parse(c.schedule)
			if err != nil {
				t.Fatal(err)
			}
			found, err := write(ctx, faultstore.New(m, schedule), v)
			if found.Resolution != c.resolution || (err != nil) != c.failed || store.OutcomeOf(err) != c.outcome || errors.Is(err, store.ErrConflict) {
				t.Errorf("got %v, %v (%v); want %v", found.Resolution, err, store.OutcomeOf(err), c.resolution)
			}
			value, now, err := m.Get(t.Context(), "k")
			if errors.Is(err, store.ErrNotFound) != (c.value == "") || string(value) != c.value || c.value == "ours" && found.Current.Version != now {
				t.Errorf("the register holds %q with version %q (error %v), but PutAndResolve returned version %q", value, now, err, found.Current.Version)
			}
		})
	})
}

// TestPutAndResolve: how PutAndResolve ends, and after how many calls.
func TestPutAndResolve(t *testing.T) {
	for _, c := range []resolving{
		{"", store.ResolutionApplied, false, store.Applied, "ours"},
		{"put k #1 lose", store.ResolutionApplied, false, store.Applied, "ours"},
		{"put k #1 drop", store.ResolutionApplied, false, store.Applied, "ours"},
		{"put k #1-3 drop", store.ResolutionApplied, false, store.Applied, "ours"},
		{"put k #1 late +1", store.ResolutionApplied, false, store.Applied, "ours"},
		{"put k #1 lose; resolve k #1-4 fail", store.ResolutionApplied, false, store.Applied, "ours"},
		{"put k #1 fail", store.ResolutionNotApplied, true, store.NotApplied, "before"},
		{"put k #1 drop; put k #2- fail", store.ResolutionPending, true, store.Unknown, "before"},
		{"put k drop", store.ResolutionPending, true, store.Unknown, "before"},
		{"put k #1 drop; resolve k fail", store.ResolutionUnknown, true, store.Unknown, "before"},
	} {
		c.check(t, func(ctx context.Context, s store.Store, v store.Version) (store.ResolveResult, error) {
			return store.PutAndResolve(ctx, s, "k", v, []byte("ours"))
		})
	}
}

// TestDeleteAndResolve: a delete ends as a put does.
func TestDeleteAndResolve(t *testing.T) {
	for _, c := range []resolving{
		{"", store.ResolutionApplied, false, store.Applied, ""},
		{"delete k #1 lose", store.ResolutionApplied, false, store.Applied, ""},
		{"delete k #1-3 drop", store.ResolutionApplied, false, store.Applied, ""},
		{"delete k #1 fail", store.ResolutionNotApplied, true, store.NotApplied, "before"},
		{"delete k drop", store.ResolutionPending, true, store.Unknown, "before"},
	} {
		c.check(t, func(ctx context.Context, s store.Store, v store.Version) (store.ResolveResult, error) {
			return store.DeleteAndResolve(ctx, s, "k", v)
		})
	}
	m := memstore.New()
	v, err := m.Put(t.Context(), "k", "", nil)
	if err == nil {
		_, err = m.Put(t.Context(), "k", v, []byte("theirs"))
	}
	if err != nil {
		t.Fatal(err)
	}
	if found, err := store.DeleteAndResolve(t.Context(), m, "k", v); err != nil || found.Resolution != store.ResolutionNotApplied || string(found.Current.Value) != "theirs" {
		t.Errorf("of another state: got %v with %q, %v", found.Resolution, found.Current.Value, err)
	}
}

// TestPutAndResolveConflict: PutAndResolve returns the current state after a conflict, also
// for a store whose conflicts do not carry it.
func TestPutAndResolveConflict(t *testing.T) {
	m := memstore.New()
	v, err := m.Put(t.Context(), "k", "", []byte("theirs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []store.Store{m, bareStore{m}} {
		found, err := store.PutAndResolve(t.Context(), s, "k", "", nil)
		if err != nil || found.Resolution != store.ResolutionNotApplied || found.Current.Version != v || string(found.Current.Value) != "theirs" {
			t.Errorf("%T: %+v, %v", s, found, err)
		}
	}
}

// TestResolvedCounter: many writers raise a counter through a network that loses and delays
// messages. Each writer resolves each of its writes. In the end the counter is the number
// of the writes that were applied: Resolve counts none twice, and takes none for another.
func TestResolvedCounter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(20) {
			m := memstore.New()
			f := faultstore.New(m, faultstore.MustParse(fmt.Sprintf("seed %d; put * %%0.2 lose; put * %%0.2 drop; put * %%0.2 late 1ms~2s; resolve * %%0.3 fail; read * delay 1ms~20ms", seed)))
			var applied, unknown atomic.Int64
			var racers sync.WaitGroup
			for range 5 {
				racers.Go(func() {
					for range 20 {
						value, v, err := m.Get(t.Context(), "k")
						if err != nil && !errors.Is(err, store.ErrNotFound) {
							t.Error(err)
						}
						var n int
						_, _ = fmt.Sscan(string(value), &n)
						found, err := store.PutAndResolve(t.Context(), f, "k", v, fmt.Append(nil, n+1))
						switch {
						case found.Resolution == store.ResolutionApplied, found.Resolution == store.ResolutionSuperseded:
							applied.Add(1)
						case err != nil:
							unknown.Add(1)
						}
					}
				})
			}
			racers.Wait()
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			value, _, _ := m.Get(t.Context(), "k")
			if got := fmt.Sprint(applied.Load()); got != string(value) || unknown.Load() != 0 {
				t.Errorf("seed %d: %s writes were applied, the counter is %s; %d unknown", seed, got, value, unknown.Load())
			}
		}
	})
}

// TestUnknownError: the outcome of an InDoubtError is unknown whatever it wraps.
// AttemptedVersion finds its version through the errors around it.
func TestUnknownError(t *testing.T) {
	err := error(&store.OpError{Op: "put", Key: "k", Err: &store.InDoubtError{Version: "v", Err: store.ErrConflict}})
	if store.OutcomeOf(err) != store.Unknown || store.AttemptedVersion(err) != "v" {
		t.Errorf("got %v, %q", store.OutcomeOf(err), store.AttemptedVersion(err))
	}
	if store.AttemptedVersion(errors.New("x")) != "" || store.AttemptedVersion(nil) != "" {
		t.Error("an error without a version names one")
	}
}

// After an unknown outcome a conflict proves nothing, unless the store can resolve the
// write: the error is no conflict.
func TestPutAndResolveConflictAfterUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, puts := memstore.New(), 0
		v, err := m.Put(t.Context(), "k", "", []byte("before"))
		if err != nil {
			t.Fatal(err)
		}
		s := store.Intercept(bareStore{m}, func(ctx context.Context, op *store.Op, next store.Handler) error {
			if op.Kind != store.OpPut {
				return next(ctx, op)
			}
			if puts++; puts == 1 {
				return store.ErrUnavailable
			}
			if _, err := m.Put(ctx, "k", v, []byte("theirs, or ours that came late")); err != nil {
				t.Error(err)
			}
			return next(ctx, op)
		})
		found, err := store.PutAndResolve(t.Context(), s, "k", v, []byte("ours"))
		if found.Resolution != store.ResolutionUnknown || store.OutcomeOf(err) != store.Unknown || errors.Is(err, store.ErrConflict) || !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("got %v, %v (%v)", found.Resolution, err, store.OutcomeOf(err))
		}
	})
}
