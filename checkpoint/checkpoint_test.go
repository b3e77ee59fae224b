package checkpoint_test

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/internal/positiontest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// open returns a keeper on st, closed at the end of the test.
func open(t testing.TB, st store.Store, opts *checkpoint.Options) *checkpoint.RegisterStore {
	t.Helper()
	k, err := checkpoint.New(st, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return k
}

// What the suite shares with these tests.
var (
	at       = positiontest.At
	advance  = positiontest.Advance
	expectAt = positiontest.ExpectAt
	refused  = positiontest.Refused
	numbers  = positiontest.Numbers
)

func TestAdvanceMovesForwardOnly(t *testing.T) {
	k := open(t, memstore.New(), nil)
	advance(t, k, "k", at(0), nil, checkpoint.Advanced)
	advance(t, k, "k", at(0), nil, checkpoint.Unchanged)
	c := advance(t, k, "k", checkpoint.Position{Sequence: 17, EventID: "mars@17", Data: []byte(`{"cursor":"x"}`)}, nil, checkpoint.Advanced)
	if c.Sequence != 17 || c.EventID != "mars@17" || string(c.Data) != `{"cursor":"x"}` || c.Epoch != 1 || c.Token != 0 || c.Written.IsZero() || c.Key != "k" {
		t.Errorf("got %+v", c)
	}
	c = advance(t, k, "k", at(16), nil, checkpoint.Behind)
	if c.Sequence != 17 || c.EventID != "mars@17" {
		t.Errorf("behind shows %+v", c)
	}
	// An advance that names nothing but the sequence does not contradict.
	advance(t, k, "k", at(17), nil, checkpoint.Unchanged)
	advance(t, k, "k", at(18), nil, checkpoint.Advanced)
	c = expectAt(t, k, "k", 18)
	if c.EventID != "" || c.Data != nil {
		t.Errorf("the event of 17 is still saved at 18: %+v", c)
	}
	advance(t, k, "k", at(1<<64-1), nil, checkpoint.Advanced)
	expectAt(t, k, "k", 1<<64-1)
}

func TestStatusErr(t *testing.T) {
	for s, want := range map[checkpoint.Status]error{
		checkpoint.Advanced: nil, checkpoint.Unchanged: nil, checkpoint.Behind: nil,
		checkpoint.Mismatch: checkpoint.ErrMismatch, checkpoint.Fenced: checkpoint.ErrFenced,
		checkpoint.RolledBack: checkpoint.ErrRolledBack,
	} {
		if got := s.Err(); got != want {
			t.Errorf("%v: got %v", s, got)
		}
	}
	if checkpoint.Status(0).Err() == nil || checkpoint.Status(99).Err() == nil {
		t.Error("what is no status is no success either")
	}
}

// Two handles know the checkpoint. One deletes it, and a late Advance of the other must not
// restore it. The same holds after a reset from 100 to 10: a restored 100 would skip 90
// events.
func TestStaleHandleBringsNothingBack(t *testing.T) {
	st := memstore.New()
	h1, h2 := open(t, st, nil), open(t, st, nil)
	advance(t, h1, "k", at(100), nil, checkpoint.Advanced)
	expectAt(t, h1, "k", 100)
	expectAt(t, h2, "k", 100)

	if _, err := h2.Reset(t.Context(), "k", at(10), nil); err != nil {
		t.Fatal(err)
	}
	advance(t, h1, "other", at(1), nil, checkpoint.Advanced)
	expectAt(t, h2, "k", 10)
	// A worker that does not know of the reset continues from 100, and is refused twice.
	advance(t, h1, "k", at(101), nil, checkpoint.RolledBack)
	c := advance(t, h1, "k", at(102), nil, checkpoint.RolledBack)
	if c.Sequence != 10 || c.Epoch != 2 {
		t.Errorf("rolled back shows %+v", c)
	}
	// After a Get it continues from 10.
	expectAt(t, h1, "k", 10)
	advance(t, h1, "k", at(11), nil, checkpoint.Advanced)

	if _, err := h2.Delete(t.Context(), "k", nil); err != nil {
		t.Fatal(err)
	}
	advance(t, h1, "other", at(2), nil, checkpoint.Advanced)
	if _, err := h2.Get(t.Context(), "k", nil); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("after the delete: %v", err)
	}
	advance(t, h1, "k", at(12), nil, checkpoint.RolledBack)
	if _, err := h1.Get(t.Context(), "k", nil); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("after the delete: %v", err)
	}
}

// The control: with the epoch overlooked, the old advance undoes the reset.
func TestStaleHandleWithoutEpochs(t *testing.T) {
	st := memstore.New()
	h1, h2 := open(t, st, nil), open(t, st, nil)
	advance(t, h1, "k", at(100), nil, checkpoint.Advanced)
	c, err := h2.Reset(t.Context(), "k", at(10), nil)
	if err != nil {
		t.Fatal(err)
	}
	advance(t, h1, "k", at(101), &checkpoint.AdvanceOptions{Epoch: c.Epoch - 1}, checkpoint.RolledBack)
	// A caller that names the new epoch without having seen it does damage.
	advance(t, h1, "k", at(101), &checkpoint.AdvanceOptions{Epoch: c.Epoch}, checkpoint.Advanced)
}

// Deleting a key that this handle never saw reported success and did nothing.
func TestDeleteOfAKeyNeverSeen(t *testing.T) {
	st := memstore.New()
	h1, h2 := open(t, st, nil), open(t, st, nil)
	advance(t, h1, "k", at(5), nil, checkpoint.Advanced)
	if _, err := h2.Delete(t.Context(), "k", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := h1.Get(t.Context(), "k", nil); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("got %v, want not found", err)
	}
	_, err := h2.Delete(t.Context(), "k", nil)
	refused(t, err, store.ErrNotFound)
	_, err = h2.Delete(t.Context(), "never", nil)
	refused(t, err, store.ErrNotFound)
}

// An equal sequence with another event id was dropped without a word.
func TestSameSequenceOtherEvent(t *testing.T) {
	k := open(t, memstore.New(), nil)
	a := checkpoint.Position{Sequence: 7, EventID: "a", Data: []byte("x")}
	advance(t, k, "k", a, nil, checkpoint.Advanced)
	advance(t, k, "k", a, nil, checkpoint.Unchanged)
	advance(t, k, "k", checkpoint.Position{Sequence: 7, EventID: "b"}, nil, checkpoint.Mismatch)
	c := advance(t, k, "k", checkpoint.Position{Sequence: 7, EventID: "a", Data: []byte("y")}, nil, checkpoint.Mismatch)
	if c.EventID != "a" || string(c.Data) != "x" {
		t.Errorf("got %+v", c)
	}
	if _, err := k.Reset(t.Context(), "k", checkpoint.Position{Sequence: 7, EventID: "b"}, nil); err != nil {
		t.Fatal(err)
	}
	if c := expectAt(t, k, "k", 7); c.EventID != "b" || c.Data != nil {
		t.Errorf("got %+v", c)
	}
	// A saved position without an event does not swallow one either.
	advance(t, k, "bare", at(1), nil, checkpoint.Advanced)
	advance(t, k, "bare", checkpoint.Position{Sequence: 1, EventID: "a"}, nil, checkpoint.Mismatch)
}

func TestFence(t *testing.T) {
	st := memstore.New()
	k, late := open(t, st, nil), open(t, st, nil)
	token := func(n uint64) *checkpoint.AdvanceOptions { return &checkpoint.AdvanceOptions{Token: n} }

	c, err := k.Fence(t.Context(), "k", 5)
	if err != nil || c.Exists || c.Token != 5 || c.Epoch != 1 {
		t.Fatalf("fence where nothing is: %+v, %v", c, err)
	}
	if _, err := k.Get(t.Context(), "k", nil); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("a fence alone is no checkpoint: %v", err)
	}
	advance(t, late, "k", at(1), token(4), checkpoint.Fenced)
	advance(t, late, "k", at(1), nil, checkpoint.Fenced)
	advance(t, k, "k", at(1), token(5), checkpoint.Advanced)
	// The token of an advance counts, too.
	if c := advance(t, k, "k", at(2), token(6), checkpoint.Advanced); c.Token != 6 {
		t.Errorf("token %d after an advance with 6", c.Token)
	}
	advance(t, late, "k", at(3), token(5), checkpoint.Fenced)
	advance(t, late, "k", at(3), &checkpoint.AdvanceOptions{Token: 5, Force: true}, checkpoint.Fenced)
	if c := advance(t, late, "k", at(3), &checkpoint.AdvanceOptions{Force: true}, checkpoint.Advanced); c.Token != 6 {
		t.Errorf("a forced advance left token %d", c.Token)
	}
	c, err = k.Fence(t.Context(), "k", 6)
	if err != nil || c.Sequence != 3 {
		t.Fatalf("fencing again: %+v, %v", c, err)
	}
	c, err = late.Fence(t.Context(), "k", 5)
	refused(t, err, checkpoint.ErrFenced)
	if c.Token != 6 || c.Sequence != 3 {
		t.Errorf("the refusal shows %+v", c)
	}
	_, err = late.Reset(t.Context(), "k", at(0), &checkpoint.ChangeOptions{Token: 5, Force: true})
	refused(t, err, checkpoint.ErrFenced)
	_, err = late.Delete(t.Context(), "k", nil)
	refused(t, err, checkpoint.ErrFenced)
	if _, err = late.Delete(t.Context(), "k", &checkpoint.ChangeOptions{Token: 6}); err != nil {
		t.Fatal(err)
	}
	// The fence outlives the checkpoint.
	if _, err := late.Get(t.Context(), "k", nil); !errors.Is(err, store.ErrNotFound) {
		t.Fatal(err)
	}
	advance(t, late, "k", at(9), token(5), checkpoint.Fenced)
	_, err = k.Fence(t.Context(), "k", 0)
	refused(t, err, store.ErrInvalid)
}

func TestResetAndDeleteWithExpectation(t *testing.T) {
	st := memstore.New()
	k, other := open(t, st, nil), open(t, st, nil)
	expect := func(n uint64) *checkpoint.ChangeOptions { return &checkpoint.ChangeOptions{ExpectedSequence: &n} }
	_, err := k.Reset(t.Context(), "k", at(1), expect(0))
	refused(t, err, store.ErrNotFound)
	advance(t, k, "k", at(10), nil, checkpoint.Advanced)
	advance(t, other, "k", at(12), nil, checkpoint.Advanced)
	c, err := k.Reset(t.Context(), "k", at(1), expect(10))
	refused(t, err, checkpoint.ErrUnexpectedSequence)
	if c.Sequence != 12 {
		t.Errorf("the refusal shows %+v", c)
	}
	_, err = k.Delete(t.Context(), "k", expect(10))
	refused(t, err, checkpoint.ErrUnexpectedSequence)
	c, err = k.Reset(t.Context(), "k", at(1), expect(12))
	if err != nil || c.Sequence != 1 || c.Epoch != 2 {
		t.Fatalf("got %+v, %v", c, err)
	}
	c, err = k.Delete(t.Context(), "k", expect(1))
	if err != nil || c.Exists || c.Epoch != 3 {
		t.Fatalf("got %+v, %v", c, err)
	}
	c, err = k.Get(t.Context(), "k", nil)
	if !errors.Is(err, store.ErrNotFound) || c.Epoch != 3 {
		t.Fatalf("got %+v, %v", c, err)
	}
	// Reset may begin a checkpoint.
	if c, err = k.Reset(t.Context(), "new", at(4), nil); err != nil || c.Sequence != 4 {
		t.Fatalf("got %+v, %v", c, err)
	}
}

func TestHeldByAnother(t *testing.T) {
	var holder checkpoint.Holder
	held, broken := false, error(nil)
	k := open(t, memstore.New(), &checkpoint.Options{
		HeldBy: func(_ context.Context, key string) (checkpoint.Holder, bool, error) {
			if key != "jobs/k" {
				t.Errorf("asked for %q", key)
			}
			return holder, held, broken
		},
	})
	advance(t, k, "jobs/k", at(10), nil, checkpoint.Advanced)
	holder, held = checkpoint.Holder{Name: "worker 3", Token: 8}, true
	c, err := k.Reset(t.Context(), "jobs/k", at(1), nil)
	refused(t, err, checkpoint.ErrHeld)
	var he *checkpoint.HeldError
	if !errors.As(err, &he) || he.Holder != holder || he.Key != "jobs/k" || c.Sequence != 10 {
		t.Errorf("got %v and %+v", err, c)
	}
	_, err = k.Delete(t.Context(), "jobs/k", &checkpoint.ChangeOptions{Token: 7})
	refused(t, err, checkpoint.ErrHeld)
	// A holder without a token is never the caller.
	holder = checkpoint.Holder{Name: "worker 4"}
	_, err = k.Reset(t.Context(), "jobs/k", at(1), nil)
	refused(t, err, checkpoint.ErrHeld)
	holder.Token = 8
	// The holder itself may, and a caller that insists.
	if _, err = k.Reset(t.Context(), "jobs/k", at(2), &checkpoint.ChangeOptions{Token: 8}); err != nil {
		t.Fatal(err)
	}
	if _, err = k.Reset(t.Context(), "jobs/k", at(1), &checkpoint.ChangeOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	held, broken = false, errors.New("lock unreadable")
	_, err = k.Delete(t.Context(), "jobs/k", &checkpoint.ChangeOptions{Token: 8})
	refused(t, err, broken)
	expectAt(t, k, "jobs/k", 1)
	broken = nil
	if _, err = k.Delete(t.Context(), "jobs/k", &checkpoint.ChangeOptions{Token: 8}); err != nil {
		t.Fatal(err)
	}
}

func TestGetCached(t *testing.T) {
	st := memstore.New()
	k, other := open(t, st, nil), open(t, st, nil)
	cached := &checkpoint.GetOptions{Cached: true}
	advance(t, other, "k", at(1), nil, checkpoint.Advanced)
	c, err := k.Get(t.Context(), "k", cached) // nothing in memory: it reads
	if err != nil || c.Sequence != 1 {
		t.Fatalf("got %+v, %v", c, err)
	}
	advance(t, other, "k", at(2), nil, checkpoint.Advanced)
	if c, err = k.Get(t.Context(), "k", cached); err != nil || c.Sequence != 1 {
		t.Fatalf("got %+v, %v", c, err)
	}
	expectAt(t, k, "k", 2)
	advance(t, k, "k", checkpoint.Position{Sequence: 3, Data: []byte("abc")}, nil, checkpoint.Advanced)
	c, err = k.Get(t.Context(), "k", cached)
	if err != nil || c.Sequence != 3 {
		t.Fatalf("got %+v, %v", c, err)
	}
	c.Data[0] = 'X' // the caller's own copy
	if c, _ = k.Get(t.Context(), "k", cached); string(c.Data) != "abc" {
		t.Errorf("a caller changed the memory of the keeper to %q", c.Data)
	}
}

func TestKeys(t *testing.T) {
	k := open(t, memstore.New(), nil)
	for _, key := range []string{"", "/", "a//b", "../x", "a/", "\xff", string(make([]byte, 600))} {
		_, err := k.Advance(t.Context(), key, at(1), nil)
		refused(t, err, store.ErrKey)
		if _, err = k.Get(t.Context(), key, nil); !errors.Is(err, store.ErrKey) {
			t.Errorf("get %q: %v", key, err)
		}
	}
	for _, key := range []string{"a", "a/b/c", "päth with spaces", "46fe3e30937478ae30527c74cb2f03a5e5419228a11051cdaccefe7d044b21c3"} {
		advance(t, k, key, at(1), nil, checkpoint.Advanced)
		expectAt(t, k, key, 1)
	}
	if _, err := checkpoint.New(memstore.New(), &checkpoint.Options{KeyPrefix: "a//b"}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a bad prefix: %v", err)
	}
	if _, err := checkpoint.New(memstore.New(), &checkpoint.Options{PollInterval: -1}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a negative poll: %v", err)
	}
}

func TestListAndDeleted(t *testing.T) {
	st := memstore.New()
	k := open(t, st, nil)
	want := map[string]uint64{}
	for i := range 50 {
		key := "jobs/" + string(rune('A'+i))
		advance(t, k, key, at(uint64(i)), nil, checkpoint.Advanced)
		want[key] = uint64(i)
	}
	advance(t, k, "jobsize", at(1), nil, checkpoint.Advanced)
	if _, err := k.Delete(t.Context(), "jobs/B", nil); err != nil {
		t.Fatal(err)
	}
	delete(want, "jobs/B")
	// Something that is no checkpoint spoils its own key alone.
	if _, err := st.Put(t.Context(), "checkpoint/jobs/bad", "", []byte("garbage")); err != nil {
		t.Fatal(err)
	}
	bad := 0
	for c, err := range k.List(t.Context(), "jobs") {
		if err != nil {
			if c.Key != "jobs/bad" || !errors.Is(err, store.ErrCorrupt) {
				t.Fatalf("%+v, %v", c, err)
			}
			bad++
			continue
		}
		if w, ok := want[c.Key]; !ok || w != c.Sequence || !c.Exists {
			t.Errorf("listed %+v", c)
		}
		delete(want, c.Key)
	}
	if len(want) != 0 || bad != 1 {
		t.Errorf("not listed: %v; %d errors", want, bad)
	}
	n := 0
	for _, err := range k.List(t.Context(), "") {
		if err == nil {
			n++
		}
	}
	if n != 50 {
		t.Errorf("%d in the whole listing, want 50", n)
	}
	for range k.List(t.Context(), "") {
		break
	}
	for _, err := range k.List(t.Context(), "a//b") {
		refused(t, err, store.ErrKey)
	}
}

func TestWatch(t *testing.T) {
	st := memstore.New()
	k, other := open(t, st, nil), open(t, st, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen []uint64
	step := 0
	for c, err := range k.Watch(ctx, "k") {
		if step == 4 {
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("the end of a watch: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		switch step {
		case 0:
			if c.Exists {
				t.Fatalf("at first: %+v", c)
			}
			advance(t, other, "k", at(1), nil, checkpoint.Advanced)
		case 1:
			advance(t, k, "k", at(2), nil, checkpoint.Advanced)
		case 2:
			if _, err := other.Delete(ctx, "k", nil); err != nil {
				t.Fatal(err)
			}
		case 3:
			if c.Exists || c.Epoch != 2 {
				t.Fatalf("after the delete: %+v", c)
			}
			cancel()
		}
		step++
		seen = append(seen, c.Sequence)
	}
	if step != 4 {
		t.Errorf("saw %v", seen)
	}
	// What the watch has shown counts as read.
	advance(t, k, "k", at(1), nil, checkpoint.Advanced)
}

func TestClosed(t *testing.T) {
	k, err := checkpoint.New(memstore.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := k.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = k.Advance(t.Context(), "k", at(1), nil)
	refused(t, err, checkpoint.ErrClosed)
	if _, err = k.Get(t.Context(), "k", nil); !errors.Is(err, checkpoint.ErrClosed) {
		t.Error(err)
	}
}

// The store was emptied by hand, or restored from a backup.
func TestStoreWentBack(t *testing.T) {
	st := memstore.New()
	k := open(t, st, nil)
	advance(t, k, "k", at(5), nil, checkpoint.Advanced)
	old, _, err := st.Get(t.Context(), "checkpoint/k")
	if err != nil {
		t.Fatal(err)
	}
	advance(t, k, "k", at(50), nil, checkpoint.Advanced)
	_, v, err := st.Get(t.Context(), "checkpoint/k")
	if err != nil {
		t.Fatal(err)
	}
	if _, err = st.Put(t.Context(), "checkpoint/k", v, old); err != nil {
		t.Fatal(err)
	}
	c := advance(t, k, "k", at(51), nil, checkpoint.RolledBack)
	if c.Sequence != 5 {
		t.Errorf("rolled back to %+v", c)
	}
	advance(t, k, "k", at(51), nil, checkpoint.RolledBack)
	expectAt(t, k, "k", 5)
	advance(t, k, "k", at(6), nil, checkpoint.Advanced)

	_, v, err = st.Get(t.Context(), "checkpoint/k")
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Delete(t.Context(), "checkpoint/k", v); err != nil {
		t.Fatal(err)
	}
	if c := advance(t, k, "k", at(7), nil, checkpoint.RolledBack); c.Exists {
		t.Errorf("rolled back to %+v", c)
	}
	// A Fence or a Reset returns the state from which its caller continues, and accepts
	// that state.
	if _, err := k.Fence(t.Context(), "k", 1); err != nil {
		t.Fatal(err)
	}
	advance(t, k, "k", at(1), &checkpoint.AdvanceOptions{Token: 1}, checkpoint.Advanced)
}

// TestResetReadsFirst: a Reset or Delete is judged by what is saved, and not by what
// its keeper remembers.
func TestResetReadsFirst(t *testing.T) {
	st := memstore.New()
	first, second := open(t, st, nil), open(t, st, nil)
	advance(t, first, "k", at(10), nil, checkpoint.Advanced)
	advance(t, second, "k", at(20), nil, checkpoint.Advanced)
	expect := uint64(20)
	if _, err := first.Reset(t.Context(), "k", at(5), &checkpoint.ChangeOptions{ExpectedSequence: &expect}); err != nil {
		t.Errorf("a reset of what another keeper has saved: %v", err)
	}
	expect = 5
	if _, err := second.Delete(t.Context(), "k", &checkpoint.ChangeOptions{ExpectedSequence: &expect}); err != nil {
		t.Errorf("a delete of what another keeper has saved: %v", err)
	}
}
