package bucketstore_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/bucketstore"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/store"
)

func other(b object.Bucket) *bucketstore.Store {
	s, err := bucketstore.New(b, "", nil)
	if err != nil {
		panic(err)
	}
	return s
}

// TestOutcomes: the outcome of a write when puts fail in different ways, and how many
// requests it takes.
func TestOutcomes(t *testing.T) {
	const ours = `"ours"`
	for _, c := range []struct {
		name     string
		puts     []fault
		create   bool // the register does not exist before
		deleted  bool // it is a tombstone before
		want     store.Outcome
		value    string // of the register afterwards
		requests string
	}{
		{"swap", nil, false, false, store.Applied, ours, "put"},
		{"create", nil, true, false, store.Applied, ours, "put"},
		{"create over a tombstone", nil, true, true, store.Applied, ours, "put get put"},
		{"swap, applied, reply lost", []fault{lost}, false, false, store.Applied, ours, "put get"},
		{"create, applied, reply lost", []fault{lost}, true, false, store.Applied, ours, "put get"},
		{"swap, not applied, reply lost", []fault{dropped}, false, false, store.Applied, ours, "put get put"},
		{"create, not applied, reply lost", []fault{dropped}, true, false, store.Applied, ours, "put get put"},
		{"swap, both lost, the second applied", []fault{dropped, lost}, false, false, store.Applied, ours, "put get put get"},
		{"swap, repeated on the way", []fault{twice}, false, false, store.Applied, ours, "put get"},
		{"create, repeated on the way", []fault{twice}, true, false, store.Applied, ours, "put get"},
		{"swap, another write in flight", []fault{busy, busy}, false, false, store.Applied, ours, "put put put"},
		{"swap, another write in flight for ever", []fault{busy, busy, busy, busy, busy}, false, false, store.NotApplied, `"before"`, "put put put put put"},
		{"swap, denied", []fault{denied}, false, false, store.NotApplied, `"before"`, "put"},
		{"swap, lost, then denied", []fault{dropped, denied}, false, false, store.Unknown, `"before"`, "put get put"},
		{"swap, another was faster", []fault{faster}, false, false, store.NotApplied, `"another's 0"`, "put get"},
		{"create, another was faster", []fault{faster}, true, false, store.NotApplied, `"another's 0"`, "put get"},
		{"swap, ten others were faster", []fault{fasterTen}, false, false, store.NotApplied, `"another's 9"`, "put get"},
		{"swap, lost, then another was faster", []fault{dropped, faster}, false, false, store.NotApplied, `"another's 0"`, "put get put get"},
		{"create, lost, then another was faster", []fault{dropped, faster}, true, false, store.NotApplied, `"another's 0"`, "put get put get"},
		{"swap, lost, then ten others were faster", []fault{dropped, fasterTen}, false, false, store.Unknown, `"another's 9"`, "put get put get"},
		{"swap, applied, lost, and superseded", []fault{lostFaster}, false, false, store.Applied, `"another's 0"`, "put get"},
		{"create, applied, lost, and superseded", []fault{lostFaster}, true, false, store.Applied, `"another's 0"`, "put get"},
		{"swap, applied, lost, and superseded by ten", []fault{lostFasterTen}, false, false, store.Unknown, `"another's 9"`, "put get"},
		{"create, applied, lost, and deleted", []fault{lostDeleted}, true, false, store.Applied, "", "put get"},
		{"create over a tombstone, lost", []fault{right, lost}, true, true, store.Applied, ours, "put get put get"},
		{"create over a tombstone, another was faster", []fault{right, faster}, true, true, store.NotApplied, `"another's 0"`, "put get put get"},
		{"create, lost, created and deleted by another, and created", []fault{dropped, fasterDeleted, faster}, true, false, store.NotApplied, `"another's 0"`, "put get put get put get"},
		{"create, others create and delete it all the time", []fault{fasterDeleted, fasterDeleted, fasterDeleted, fasterDeleted, fasterDeleted}, true, false, store.NotApplied, "",
			"put get put get put get put get put get"},
		{"never answered", []fault{dropped, dropped, dropped, dropped, dropped}, false, false, store.Unknown, `"before"`,
			"put get put get put get put get put get"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &flaky{Bucket: membucket.New()}
				s := newStore(t, f, "", nil)
				var prev store.Version
				if !c.create || c.deleted {
					prev = mustPut(t, other(f.Bucket), "k", "", `"before"`)
				}
				if c.deleted {
					if err := other(f.Bucket).Delete(t.Context(), "k", prev); err != nil {
						t.Fatal(err)
					}
					prev = ""
				}
				f.requests()
				f.puts = c.puts
				v, err := s.Put(t.Context(), "k", prev, []byte(ours))
				if got := store.OutcomeOf(err); got != c.want {
					t.Errorf("outcome %v, want %v: %v", got, c.want, err)
				}
				if got := f.requests(); got != c.requests {
					t.Errorf("requests %q, want %q", got, c.requests)
				}
				if (v != "") != (err == nil) {
					t.Errorf("version %q with error %v", v, err)
				}
				if c.want == store.Unknown && errors.Is(err, store.ErrConflict) {
					t.Errorf("an unknown outcome looks like a conflict: %v", err)
				}
				f.puts = nil
				checkAfter(t, s, v, err, c.value == ours, c.value)
			})
		})
	}
}

// checkAfter checks the state of "k", and what the version and the conflict say about it.
func checkAfter(t *testing.T, s store.Store, v store.Version, err error, ours bool, want string) {
	t.Helper()
	value, now, getErr := s.Get(t.Context(), "k")
	if string(value) != want || (getErr != nil) != (want == "") {
		t.Fatalf("the register holds %s, %v; want %s", value, getErr, want)
	}
	if ours != (v == now && v != "") {
		t.Errorf("the version %q, the current one %q, is it ours: %v", v, now, ours)
	}
	var c *store.ConflictError
	if errors.As(err, &c) && c.HasCurrent != (want != "") || c != nil && (string(c.Value) != want || c.Version != now) {
		t.Errorf("the conflict carries %q with version %q", c.Value, c.Version)
	}
	if v == "" {
		return
	}
	// A write that names a superseded version gets a conflict.
	if _, err = s.Put(t.Context(), "k", v, []byte(`"next"`)); ours != (err == nil) || !ours && !errors.Is(err, store.ErrConflict) {
		t.Errorf("the next write: %v", err)
	}
}

// TestDeleteOutcomes is TestOutcomes for deletes, which return no version.
func TestDeleteOutcomes(t *testing.T) {
	for _, c := range []struct {
		name     string
		puts     []fault
		want     store.Outcome
		requests string
	}{
		{"delete", nil, store.Applied, "put"},
		{"applied, reply lost", []fault{lost}, store.Applied, "put get"},
		{"not applied, reply lost", []fault{dropped}, store.Applied, "put get put"},
		{"repeated on the way", []fault{twice}, store.Applied, "put get"},
		{"applied, lost, and created again", []fault{lostFaster}, store.Applied, "put get"},
		{"another was faster", []fault{faster}, store.NotApplied, "put get"},
		{"another deleted it first", []fault{fasterDeleted}, store.NotApplied, "put get"},
		{"lost, another deleted it", []fault{dropped, fasterDeleted}, store.NotApplied, "put get put get"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &flaky{Bucket: membucket.New()}
				s := newStore(t, f, "", nil)
				v := mustPut(t, s, "k", "", `"before"`)
				f.requests()
				f.puts = c.puts
				err := s.Delete(t.Context(), "k", v)
				if got := store.OutcomeOf(err); got != c.want || c.want == store.NotApplied && !errors.Is(err, store.ErrConflict) {
					t.Errorf("outcome %v, want %v: %v", got, c.want, err)
				}
				if got := f.requests(); got != c.requests {
					t.Errorf("requests %q, want %q", got, c.requests)
				}
			})
		})
	}
}

func mustPut(t *testing.T, s store.Store, key string, prev store.Version, value string) store.Version {
	t.Helper()
	v, err := s.Put(t.Context(), key, prev, []byte(value))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestLateArrival: a try that reaches the server late cannot undo anything, since it has
// the same condition as the first.
func TestLateArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, create := range []bool{true, false} {
			f := &flaky{Bucket: membucket.New()}
			s := newStore(t, f, "", nil)
			var prev store.Version
			if !create {
				prev = mustPut(t, s, "k", "", `"before"`)
			}
			f.puts = []fault{delayed}
			v := mustPut(t, s, "k", prev, `"ours"`)
			f.release()
			if value, now, err := s.Get(t.Context(), "k"); err != nil || now != v || string(value) != `"ours"` {
				t.Errorf("after the late arrival: %s %q %v", value, now, err)
			}
			v = mustPut(t, s, "k", v, `"next"`)
			f.puts = []fault{delayed, right}
			v = mustPut(t, s, "k", v, `"ours again"`)
			mustPut(t, s, "k", v, `"last"`)
			f.release()
			if value, _, err := s.Get(t.Context(), "k"); err != nil || string(value) != `"last"` {
				t.Errorf("after the late arrival: %s %v", value, err)
			}
		}
	})
}

// TestUnreadable: the outcome of a write that cannot be read back is unknown. That holds
// after a refusal too: a repetition of the same request may have caused it.
func TestUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, first := range []fault{lost, dropped, twice, faster} {
			f := &flaky{Bucket: membucket.New()}
			s := newStore(t, f, "", nil)
			v := mustPut(t, s, "k", "", `"before"`)
			f.puts, f.gets = []fault{first}, errLost
			_, err := s.Put(t.Context(), "k", v, []byte(`"ours"`))
			if store.OutcomeOf(err) != store.Unknown || !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrConflict) {
				t.Errorf("%d: got %v (%v)", first, err, store.OutcomeOf(err))
			}
		}
	})
}

// TestContextEnds: if the context ends while the outcome is unknown, the call returns that
// at once.
func TestContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &flaky{Bucket: membucket.New()}
		s := newStore(t, f, "", nil)
		v := mustPut(t, s, "k", "", `"before"`)
		f.puts = []fault{busy, dropped, dropped, dropped}
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err := s.Put(ctx, "k", v, []byte(`"ours"`))
		if err == nil || time.Since(start) > 65*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		if f.puts = nil; store.OutcomeOf(err) == store.Applied {
			t.Errorf("outcome %v", store.OutcomeOf(err))
		}
		cancel()
		if _, err := s.Put(ctx, "k", v, []byte(`"ours"`)); store.OutcomeOf(err) != store.NotApplied || !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with a context that has ended: %v (%v)", err, store.OutcomeOf(err))
		}
	})
}

// TestStrangeRefusal: a server that refuses to create an absent register is reported, and
// not retried for ever. One server does so: it counts a delete marker as an object.
func TestStrangeRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, refusing{membucket.New()}, "", &bucketstore.Options{Trusted: true})
		_, err := s.Put(t.Context(), "k", "", []byte("1"))
		if !errors.Is(err, store.ErrUnsafe) || store.OutcomeOf(err) != store.NotApplied || !strings.Contains(err.Error(), "delete marker") {
			t.Errorf("got %v (%v)", err, store.OutcomeOf(err))
		}
	})
}

type refusing struct{ *membucket.Bucket }

func (r refusing) Put(context.Context, string, io.Reader, *object.PutOptions) (object.Info, error) {
	return object.Info{}, &object.ConflictError{}
}

// busyUnknown is a bucket that stores an object, and returns an error with an unknown outcome that matches
// [object.ErrBusy]: that of something else, for which the context of the put ended.
type busyUnknown struct {
	object.Bucket
	end func()
}

func (b busyUnknown) Put(ctx context.Context, key string, body io.Reader, opts *object.PutOptions) (object.Info, error) {
	if _, err := b.Bucket.Put(ctx, key, body, opts); err != nil {
		return object.Info{}, err
	}
	b.end()
	return object.Info{}, store.MarkUnknown(object.ErrBusy)
}

// TestBusyCause: an error of a bucket whose outcome is unknown stays unknown, also if it matches ErrBusy.
func TestBusyCause(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	s, err := bucketstore.New(busyUnknown{membucket.New(), func() { cancel(object.ErrBusy) }}, "", &bucketstore.Options{Trusted: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(ctx, "k", "", []byte("v")); store.OutcomeOf(err) != store.Unknown {
		t.Errorf("%v (%v)", err, store.OutcomeOf(err))
	}
}
