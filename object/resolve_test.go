package object_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/store"
)

// between runs f after the first put has been applied and before its caller hears
// anything.
type between struct {
	object.Bucket
	f func()
}

func (b *between) Put(ctx context.Context, key string, body io.Reader, opts *object.PutOptions) (object.Info, error) {
	info, err := b.Bucket.Put(ctx, key, body, opts)
	if f := b.f; f != nil && err == nil {
		b.f = nil
		f()
	}
	return info, err
}

func (b *between) Traits() object.Traits { return object.TraitsOf(b.Bucket) }

// TestSuperseded: a write whose reply was lost is known to be committed while the history
// of the object names it, and unknown afterwards; it is never taken for a conflict.
func TestSuperseded(t *testing.T) {
	for kind, open := range buckets() {
		for others := range object.MaxPrevious + 2 {
			t.Run(fmt.Sprintf("%s/%d", kind, others), func(t *testing.T) {
				below := open()
				other := newClient(t, below, nil)
				base, err := other.Put(t.Context(), "a", body("start"), nil)
				if err != nil {
					t.Fatal(err)
				}
				chain := &between{below, func() {
					for i := range others {
						_, err := other.Update(t.Context(), "a", func([]byte, object.Info) ([]byte, error) { return fmt.Append(nil, "other ", i), nil }, nil)
						if err != nil {
							t.Error(err)
						}
					}
				}}
				c := newClient(t, objecttest.NewFaulty(chain, objecttest.Nth(1, objecttest.Lose)), fast())
				info, err := c.Put(t.Context(), "a", body("mine"), &object.WriteOptions{Base: &base})
				switch {
				case others == 0 && (err != nil || info.Version == ""):
					t.Errorf("no write followed: got %+v, %v", info, err)
				case others > 0 && others <= object.MaxPrevious && (err != nil || info.Version != "" || info.WriteInfo.ID == ""):
					t.Errorf("%d writes followed: got %+v, %v", others, info, err)
				case others > object.MaxPrevious && (store.OutcomeOf(err) != store.Unknown || errors.Is(err, store.ErrConflict)):
					t.Errorf("%d writes followed: got %v", others, err)
				}
				if id := store.AttemptedVersion(err); err != nil {
					if resolution, _, err := other.Resolve(t.Context(), "a", &base, id); resolution != store.ResolutionUnknown || err != nil {
						t.Errorf("settled later: %v, %v", resolution, err)
					}
				}
			})
		}
	}
}

// TestOverwrittenWithoutHistory: a write without a condition does not know what it
// replaces; a lost write below it is unknown.
func TestOverwrittenWithoutHistory(t *testing.T) {
	below := &membucket.Bucket{Hashed: true}
	other := newClient(t, below, nil)
	base, err := other.Put(t.Context(), "a", body("start"), nil)
	if err != nil {
		t.Fatal(err)
	}
	over := &between{below, func() {
		if _, err := other.Put(t.Context(), "a", body("other"), nil); err != nil {
			t.Error(err)
		}
	}}
	c := newClient(t, objecttest.NewFaulty(over, objecttest.Nth(1, objecttest.Lose)), fast())
	_, err = c.Put(t.Context(), "a", body("mine"), &object.WriteOptions{Base: &base})
	if store.OutcomeOf(err) != store.Unknown || errors.Is(err, store.ErrConflict) {
		t.Errorf("got %v (%v)", err, store.OutcomeOf(err))
	}
}

// TestEqualBodiesAreNotTheSameState: where equal bodies have equal versions, an object that
// has its old body again is not in its old state. A lost write that another has undone
// meanwhile is not sent again.
func TestEqualBodiesAreNotTheSameState(t *testing.T) {
	for _, base := range []string{"Base", "IfMatch"} {
		t.Run(base, func(t *testing.T) {
			below := &membucket.Bucket{Hashed: true}
			other := newClient(t, below, nil)
			start, err := other.Put(t.Context(), "a", body("0"), nil)
			if err != nil {
				t.Fatal(err)
			}
			undo := &between{below, func() {
				if _, err := other.Put(t.Context(), "a", body("0"), nil); err != nil {
					t.Error(err)
				}
			}}
			o, request := &object.WriteOptions{IfMatch: start.Version}, 2 // the first is a Stat
			if base == "Base" {
				o, request = &object.WriteOptions{Base: &start}, 1
			}
			c := newClient(t, objecttest.NewFaulty(undo, objecttest.Nth(request, objecttest.Lose)), fast())
			_, err = c.Put(t.Context(), "a", body("1"), o)
			if got := content(t, other, "a"); store.OutcomeOf(err) != store.Unknown || got != "0" {
				t.Errorf("got %v (%v), and the object holds %s", err, store.OutcomeOf(err), got)
			}
		})
	}
}

// TestResolve: the outcome of a write can be found later.
func TestResolve(t *testing.T) {
	below := membucket.New()
	late := objecttest.NewFaulty(below, func(c objecttest.Call) objecttest.Fault {
		if c.Write() {
			return objecttest.Late
		}
		return objecttest.Pass
	})
	other := newClient(t, below, nil)
	base, err := other.Put(t.Context(), "a", body("start"), nil)
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, late, object.Fast(object.Options{}, 1))
	_, err = c.Put(t.Context(), "a", body("mine"), &object.WriteOptions{Base: &base})
	id := store.AttemptedVersion(err)
	if store.OutcomeOf(err) != store.Unknown || id == "" {
		t.Fatalf("got %v", err)
	}
	expect := func(when string, want store.Resolution) {
		t.Helper()
		if got, _, err := other.Resolve(t.Context(), "a", &base, id); got != want || err != nil {
			t.Errorf("%s: got %v, %v; want %v", when, got, err, want)
		}
	}
	expect("before it arrives", store.ResolutionPending)
	late.Deliver()
	expect("when it has arrived", store.ResolutionApplied)
	now, err := other.Stat(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Put(t.Context(), "a", body("next"), &object.WriteOptions{Base: &now}); err != nil {
		t.Fatal(err)
	}
	expect("when another has followed", store.ResolutionSuperseded)

	id = store.Version("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
	expect("of a write that others have forestalled", store.ResolutionNotApplied)
	if resolution, _, err := other.Resolve(t.Context(), "nothing", nil, id); resolution != store.ResolutionUnknown || err != nil {
		t.Errorf("a create, and nothing is there: %v, %v", resolution, err)
	}
}

// TestCreateIsNotSentAgain: an object that was created, and deleted by another before the
// lost reply is looked into, does not come back.
func TestCreateIsNotSentAgain(t *testing.T) {
	for kind, open := range buckets() {
		below := open()
		other := newClient(t, below, nil)
		deleted := &between{below, func() {
			if err := other.Delete(t.Context(), "a", nil); err != nil {
				t.Error(err)
			}
		}}
		c := newClient(t, objecttest.NewFaulty(deleted, objecttest.Nth(1, objecttest.Lose)), fast())
		_, err := c.Put(t.Context(), "a", body("mine"), &object.WriteOptions{IfAbsent: true})
		if got := content(t, other, "a"); store.OutcomeOf(err) != store.Unknown || got != "absent" {
			t.Errorf("%s: got %v (%v), and there is %s", kind, err, store.OutcomeOf(err), got)
		}
	}
}

// TestReservedIsNotSentAgain: where only a reservation guards a write, a first try that may
// come late is not hidden by a second one that succeeds.
func TestReservedIsNotSentAgain(t *testing.T) {
	below := conditionless{&membucket.Bucket{Hashed: true}}
	base, err := newClient(t, below, nil).Put(t.Context(), "a", body("start"), nil)
	if err != nil {
		t.Fatal(err)
	}
	late := false
	b := objecttest.NewFaulty(below, func(c objecttest.Call) objecttest.Fault {
		if c.Op == "put" && c.Key == "a" && !late {
			late = true
			return objecttest.Late
		}
		return objecttest.Pass
	})
	c := newClient(t, b, object.Fast(object.Options{Reserver: free{}}, 0))
	_, err = c.Put(t.Context(), "a", body("mine"), &object.WriteOptions{Base: &base})
	if store.OutcomeOf(err) != store.Unknown || content(t, c, "a") != "start" {
		t.Errorf("got %v (%v), and there is %s", err, store.OutcomeOf(err), content(t, c, "a"))
	}
	b.Deliver()
	if resolution, _, resolveErr := c.Resolve(t.Context(), "a", &base, store.AttemptedVersion(err)); resolution != store.ResolutionApplied || resolveErr != nil {
		t.Errorf("when it has come: %v, %v", resolution, resolveErr)
	}
}

// denying denies every put.
type denying struct{ object.Bucket }

func (b denying) Put(context.Context, string, io.Reader, *object.PutOptions) (object.Info, error) {
	return object.Info{}, store.ErrDenied
}

func (b denying) Traits() object.Traits { return object.TraitsOf(b.Bucket) }

// TestRefusedAfterLost: the certain refusal of a second try says nothing of the first, whose
// reply was lost and which may still come.
func TestRefusedAfterLost(t *testing.T) {
	below := membucket.New()
	base, err := newClient(t, below, nil).Put(t.Context(), "a", body("start"), nil)
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, objecttest.NewFaulty(denying{below}, objecttest.Nth(1, objecttest.Late)), fast())
	_, err = c.Put(t.Context(), "a", body("mine"), &object.WriteOptions{Base: &base})
	if store.OutcomeOf(err) != store.Unknown || store.AttemptedVersion(err) == "" {
		t.Errorf("got %v (%v)", err, store.OutcomeOf(err))
	}
}

// TestLateWithoutTheStoresCondition: where the store itself does not check conditions, a
// write whose state was replaced can still be applied when it comes late; so it is unknown,
// also to Resolve.
func TestLateWithoutTheStoresCondition(t *testing.T) {
	ctx := t.Context()
	for _, op := range []store.Kind{store.OpPut, store.OpDelete} {
		below := conditionless{membucket.New()}
		o := object.Fast(object.Options{Reserver: free{}}, 0)
		other := newClient(t, below, o)
		base, err := other.Put(ctx, "a", body("start"), nil)
		if err != nil {
			t.Fatal(err)
		}
		came := false
		b := objecttest.NewFaulty(below, func(c objecttest.Call) objecttest.Fault {
			if c.Op != op || c.Key != "a" || came {
				return objecttest.Pass
			}
			came = true
			if _, err := other.Put(ctx, "a", body("other"), &object.WriteOptions{Base: &base}); err != nil {
				t.Error(err)
			}
			return objecttest.Late
		})
		c := newClient(t, b, o)
		if op == store.OpPut {
			_, err = c.Put(ctx, "a", body("mine"), &object.WriteOptions{Base: &base})
			if resolution, _, resolveErr := other.Resolve(ctx, "a", &base, store.AttemptedVersion(err)); resolution != store.ResolutionUnknown || resolveErr != nil {
				t.Errorf("settled: %v, %v", resolution, resolveErr)
			}
		} else {
			err = c.Delete(ctx, "a", &object.WriteOptions{Base: &base})
		}
		if store.OutcomeOf(err) != store.Unknown || content(t, other, "a") != "other" {
			t.Errorf("%s: got %v (%v), and there is %s", op, err, store.OutcomeOf(err), content(t, other, "a"))
		}
		b.Deliver()
		if content(t, other, "a") == "other" {
			t.Errorf("%s: it did not come", op)
		}
	}
}

// repeating is a proxy that repeats the first put: f runs between the two copies, and the
// caller gets the second answer.
type repeating struct {
	object.Bucket
	f func()
}

func (b *repeating) Put(ctx context.Context, key string, body io.Reader, opts *object.PutOptions) (object.Info, error) {
	f := b.f
	if f == nil {
		return b.Bucket.Put(ctx, key, body, opts)
	}
	b.f = nil
	all, err := io.ReadAll(body)
	if err != nil {
		return object.Info{}, err
	}
	if _, err := b.Bucket.Put(ctx, key, strings.NewReader(string(all)), opts); err != nil {
		return object.Info{}, err
	}
	f()
	return b.Bucket.Put(ctx, key, strings.NewReader(string(all)), opts)
}

func (b *repeating) Traits() object.Traits { return object.TraitsOf(b.Bucket) }

// TestVersionKeepsTheHistory: a write with IfMatch names the writes before it, so that an
// update that it follows, and whose request was repeated, is not made again.
func TestVersionKeepsTheHistory(t *testing.T) {
	add := func(n int) func([]byte, object.Info) ([]byte, error) {
		return func(body []byte, _ object.Info) ([]byte, error) {
			now, err := strconv.Atoi(string(body))
			return strconv.AppendInt(nil, int64(now+n), 10), err
		}
	}
	for kind, open := range buckets() {
		below := open()
		other := newClient(t, below, nil)
		if _, err := other.Put(t.Context(), "a", body("0"), nil); err != nil {
			t.Fatal(err)
		}
		c := newClient(t, &repeating{below, func() {
			text, info, err := other.ReadAll(t.Context(), "a", 10, nil)
			if err != nil || string(text) != "10" {
				t.Fatalf("%s, %v", text, err)
			}
			text, _ = add(1)(text, info)
			if _, err := other.Put(t.Context(), "a", body(string(text)), &object.WriteOptions{IfMatch: info.Version}); err != nil {
				t.Error(err)
			}
		}}, fast())
		_, err := c.Update(t.Context(), "a", add(10), nil)
		if got := content(t, other, "a"); err != nil || got != "11" {
			t.Errorf("%s: 0 + 10 + 1 = %s, %v", kind, got, err)
		}
	}
}
