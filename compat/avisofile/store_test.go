//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package avisofile_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/compat/avisofile"
	"github.com/holdfast-go/holdfast/store"
)

// open opens the file, and closes it with the test.
func open(t testing.TB, path string, opts *avisofile.Options) *avisofile.Store {
	t.Helper()
	s, err := avisofile.Open(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	return s
}

func closeStore(t testing.TB, s *avisofile.Store) {
	t.Helper()
	if err := s.Close(context.Background()); err != nil {
		t.Errorf("close: %v", err)
	}
}

// statePath returns the path of a state file that does not exist.
func statePath(t testing.TB) string { return filepath.Join(t.TempDir(), "state.json") }

func at(sequence uint64) checkpoint.Position { return checkpoint.Position{Sequence: sequence} }

// advance advances and wants this status.
func advance(t testing.TB, s *avisofile.Store, key string, p checkpoint.Position, want checkpoint.Status) checkpoint.Checkpoint {
	t.Helper()
	r, err := s.Advance(t.Context(), key, p, nil)
	if !errors.Is(err, want.Err()) || r.Status != want {
		t.Fatalf("advance to %d: got %v, %v, want %v", p.Sequence, r.Status, err, want)
	}
	return r.Current
}

func get(t testing.TB, s *avisofile.Store, key string) checkpoint.Checkpoint {
	t.Helper()
	c, err := s.Get(t.Context(), key, nil)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		t.Fatal(err)
	}
	return c
}

// wantAt wants this sequence in the file.
func wantAt(t testing.TB, s *avisofile.Store, key string, sequence uint64) {
	t.Helper()
	if c := get(t, s, key); !c.Exists || c.Sequence != sequence {
		t.Fatalf("got %+v, want the sequence %d", c, sequence)
	}
}

func reset(t testing.TB, s *avisofile.Store, key string, sequence uint64, opts *checkpoint.ChangeOptions) checkpoint.Checkpoint {
	t.Helper()
	c, err := s.Reset(t.Context(), key, at(sequence), opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestStore runs the suite of every store of checkpoints.
func TestStore(t *testing.T) {
	path := statePath(t)
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Store {
		return open(t, path, nil)
	}, nil)
}

func TestStatuses(t *testing.T) {
	s := open(t, statePath(t), nil)
	c, err := s.Get(t.Context(), keyA, nil)
	if !errors.Is(err, store.ErrNotFound) || c.Exists || c.Epoch != 1 || c.Token != 0 || c.Key != keyA {
		t.Fatalf("before anything was saved: got %+v, %v", c, err)
	}
	p := checkpoint.Position{Sequence: 17, EventID: "mars@17"}
	c = advance(t, s, keyA, p, checkpoint.Advanced)
	if !c.Exists || c.Sequence != 17 || c.EventID != "mars@17" || c.Epoch != 1 {
		t.Fatalf("got %+v", c)
	}
	advance(t, s, keyA, p, checkpoint.Unchanged)
	advance(t, s, keyA, at(17), checkpoint.Unchanged)
	advance(t, s, strings.ToUpper(keyA), at(17), checkpoint.Unchanged)
	advance(t, s, keyA, checkpoint.Position{Sequence: 17, EventID: "other"}, checkpoint.Mismatch)
	if c = advance(t, s, keyA, at(16), checkpoint.Behind); c.Sequence != 17 {
		t.Fatalf("behind what? got %+v", c)
	}
	advance(t, s, keyB, at(0), checkpoint.Advanced)
	advance(t, s, keyB, at(1<<64-1), checkpoint.Advanced)
	wantAt(t, s, keyB, 1<<64-1)
}

func TestFencing(t *testing.T) {
	path := statePath(t)
	s, other := open(t, path, nil), open(t, path, nil)
	ctx := t.Context()
	if c, err := s.Fence(ctx, keyA, 5); err != nil || c.Exists || c.Token != 5 {
		t.Fatalf("fence where nothing is saved: got %+v, %v", c, err)
	}
	try := func(s *avisofile.Store, sequence uint64, opts checkpoint.AdvanceOptions, want checkpoint.Status) {
		t.Helper()
		r, err := s.Advance(ctx, keyA, at(sequence), &opts)
		if !errors.Is(err, want.Err()) || r.Status != want {
			t.Fatalf("got %v, %v, want %v", r.Status, err, want)
		}
	}
	try(other, 1, checkpoint.AdvanceOptions{Token: 4}, checkpoint.Fenced)
	try(other, 1, checkpoint.AdvanceOptions{}, checkpoint.Fenced)
	try(other, 1, checkpoint.AdvanceOptions{Token: 5}, checkpoint.Advanced)
	try(other, 2, checkpoint.AdvanceOptions{Force: true}, checkpoint.Advanced)
	try(other, 3, checkpoint.AdvanceOptions{Token: 4, Force: true}, checkpoint.Fenced)
	try(other, 3, checkpoint.AdvanceOptions{Token: 7}, checkpoint.Advanced)
	try(s, 4, checkpoint.AdvanceOptions{Token: 5}, checkpoint.Fenced)
	if c, err := s.Fence(ctx, keyA, 6); !errors.Is(err, checkpoint.ErrFenced) || c.Token != 7 {
		t.Fatalf("a fence below the token: got %+v, %v", c, err)
	}
	if c, err := s.Fence(ctx, keyA, 7); err != nil || c.Sequence != 3 {
		t.Fatalf("the same fence again: got %+v, %v", c, err)
	}
	if _, err := s.Reset(ctx, keyA, at(0), nil); !errors.Is(err, checkpoint.ErrFenced) {
		t.Fatalf("reset without a token: got %v", err)
	}
	if _, err := s.Delete(ctx, keyA, &checkpoint.ChangeOptions{Token: 6, Force: true}); !errors.Is(err, checkpoint.ErrFenced) {
		t.Fatalf("delete with a low token: got %v", err)
	}
	if c, err := s.Delete(ctx, keyA, &checkpoint.ChangeOptions{Token: 8}); err != nil || c.Token != 8 || c.Epoch != 2 || c.Exists {
		t.Fatalf("delete: got %+v, %v", c, err)
	}
	// Neither a delete nor a new process loses the token.
	closeStore(t, s)
	s = open(t, path, nil)
	try(s, 9, checkpoint.AdvanceOptions{Token: 7}, checkpoint.Fenced)
	try(s, 9, checkpoint.AdvanceOptions{Token: 8}, checkpoint.Advanced)
}

func TestEpochs(t *testing.T) {
	path := statePath(t)
	a, b := open(t, path, nil), open(t, path, nil)
	ctx := t.Context()
	advance(t, a, keyA, at(100), checkpoint.Advanced)
	if c := reset(t, b, keyA, 10, nil); c.Epoch != 2 || c.Sequence != 10 {
		t.Fatalf("got %+v", c)
	}
	advance(t, a, keyA, at(101), checkpoint.RolledBack)
	advance(t, a, keyA, at(102), checkpoint.RolledBack)
	if c := get(t, a, keyA); c.Sequence != 10 || c.Epoch != 2 {
		t.Fatalf("got %+v", c)
	}
	advance(t, a, keyA, at(11), checkpoint.Advanced)
	// The epoch of what was read can be named, across processes.
	for _, epoch := range []uint64{1, 3} {
		r, err := b.Advance(ctx, keyA, at(12), &checkpoint.AdvanceOptions{Epoch: epoch})
		if !errors.Is(err, checkpoint.ErrRolledBack) || r.Status != checkpoint.RolledBack {
			t.Fatalf("epoch %d: got %v, %v", epoch, r.Status, err)
		}
	}
	r, err := b.Advance(ctx, keyA, at(12), &checkpoint.AdvanceOptions{Epoch: 2})
	if err != nil || r.Status != checkpoint.Advanced {
		t.Fatalf("got %v, %v", r.Status, err)
	}
	if _, err := b.Delete(ctx, keyA, nil); err != nil {
		t.Fatal(err)
	}
	advance(t, a, keyA, at(13), checkpoint.RolledBack)
	if c := get(t, a, keyA); c.Exists || c.Epoch != 3 {
		t.Fatalf("got %+v", c)
	}
	advance(t, a, keyA, at(1), checkpoint.Advanced)
}

func TestExpected(t *testing.T) {
	path := statePath(t)
	s := open(t, path, nil)
	ctx := t.Context()
	ten, eleven := uint64(10), uint64(11)
	for name, try := range map[string]func(*checkpoint.ChangeOptions) (checkpoint.Checkpoint, error){
		"reset":  func(o *checkpoint.ChangeOptions) (checkpoint.Checkpoint, error) { return s.Reset(ctx, keyA, at(1), o) },
		"delete": func(o *checkpoint.ChangeOptions) (checkpoint.Checkpoint, error) { return s.Delete(ctx, keyA, o) },
	} {
		reset(t, s, keyA, 10, nil)
		if c, err := try(&checkpoint.ChangeOptions{ExpectedSequence: &eleven}); !errors.Is(err, checkpoint.ErrUnexpectedSequence) || c.Sequence != 10 {
			t.Errorf("%s, expecting 11 of 10: got %+v, %v", name, c, err)
		}
		if _, err := try(&checkpoint.ChangeOptions{ExpectedSequence: &ten}); err != nil {
			t.Errorf("%s, expecting 10: got %v", name, err)
		}
		_, _ = s.Delete(ctx, keyA, nil)
		if _, err := try(&checkpoint.ChangeOptions{ExpectedSequence: &ten}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s of nothing, expecting 10: got %v", name, err)
		}
	}
	if _, err := s.Delete(ctx, keyB, nil); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("delete of nothing: got %v", err)
	}
	// A delete yields to a sequence that has advanced since it was shown.
	other := open(t, path, nil)
	reset(t, s, keyA, 10, nil)
	advance(t, other, keyA, at(12), checkpoint.Advanced)
	if c, err := s.Delete(ctx, keyA, nil); !errors.Is(err, checkpoint.ErrUnexpectedSequence) || c.Sequence != 12 {
		t.Errorf("delete of what has advanced: got %+v, %v", c, err)
	}
	wantAt(t, s, keyA, 12)
	if _, err := s.Delete(ctx, keyA, nil); err != nil {
		t.Errorf("delete of what was shown: got %v", err)
	}
}

func TestHeldBy(t *testing.T) {
	var holder checkpoint.Holder
	var held bool
	var fail error
	asked := 0
	var s *avisofile.Store
	path := statePath(t)
	other := open(t, path, nil)
	during := func() {}
	s = open(t, path, &avisofile.Options{HeldBy: func(context.Context, string) (checkpoint.Holder, bool, error) {
		asked++
		h, is, err := holder, held, fail
		during()
		return h, is, err
	}})
	ctx := t.Context()
	reset(t, s, keyA, 10, nil)
	holder, held = checkpoint.Holder{Name: "worker 7", Token: 5}, true
	var e *checkpoint.HeldError
	if _, err := s.Reset(ctx, keyA, at(1), nil); !errors.As(err, &e) || e.Holder != holder || !errors.Is(err, checkpoint.ErrHeld) {
		t.Errorf("reset while it is held: got %v", err)
	}
	if _, err := s.Delete(ctx, keyA, nil); !errors.Is(err, checkpoint.ErrHeld) {
		t.Errorf("delete while it is held: got %v", err)
	}
	holder.Token = 0 // never the caller's
	if _, err := s.Reset(ctx, keyA, at(1), nil); !errors.Is(err, checkpoint.ErrHeld) {
		t.Errorf("reset while a holder without a token holds it: got %v", err)
	}
	holder.Token = 5
	wantAt(t, s, keyA, 10)
	if c := reset(t, s, keyA, 2, &checkpoint.ChangeOptions{Token: 5}); c.Token != 5 {
		t.Errorf("reset by the holder: got %+v", c)
	}
	before := asked
	reset(t, s, keyA, 3, &checkpoint.ChangeOptions{Force: true})
	if asked != before {
		t.Error("Force asked for the holder")
	}
	fail = errors.New("no answer")
	if _, err := s.Reset(ctx, keyA, at(1), &checkpoint.ChangeOptions{Token: 5}); !errors.Is(err, fail) || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("an error of HeldBy: got %v", err)
	}
	// Another holder takes the lease, and raises the token, between question and write.
	fail, held = nil, false
	during = func() {
		if _, err := other.Fence(ctx, keyA, 6); err != nil && !errors.Is(err, checkpoint.ErrFenced) {
			t.Error(err)
		}
		holder, held = checkpoint.Holder{Name: "worker 8", Token: 6}, true
	}
	if _, err := s.Reset(ctx, keyA, at(1), &checkpoint.ChangeOptions{Token: 5}); !errors.Is(err, checkpoint.ErrFenced) {
		t.Errorf("reset after a takeover: got %v", err)
	}
	// The same with a token that is not fenced: then the holder is asked again.
	held = false
	if _, err := s.Reset(ctx, keyB, at(1), &checkpoint.ChangeOptions{Token: 9}); err != nil {
		t.Error(err)
	}
	held = false
	during = func() {
		if _, err := other.Fence(ctx, keyB, 10); err != nil && !errors.Is(err, checkpoint.ErrFenced) {
			t.Error(err)
		}
		holder, held = checkpoint.Holder{Name: "worker 9", Token: 10}, true
	}
	if _, err := s.Reset(ctx, keyB, at(1), &checkpoint.ChangeOptions{Token: 11}); !errors.Is(err, checkpoint.ErrHeld) {
		t.Errorf("reset with a higher token after a takeover: got %v", err)
	}
	wantAt(t, s, keyA, 3)
}

func TestArguments(t *testing.T) {
	path := statePath(t)
	s := open(t, path, nil)
	ctx := t.Context()
	for _, tt := range []struct {
		name string
		key  string
		p    checkpoint.Position
		want error
	}{
		{"short key", keyA[1:], at(1), store.ErrKey},
		{"word as key", "orders", at(1), store.ErrKey},
		{"empty key", "", at(1), store.ErrKey},
		{"data", keyA, checkpoint.Position{Data: []byte("x")}, errors.ErrUnsupported},
		{"event that is no text", keyA, checkpoint.Position{EventID: "\xff"}, store.ErrInvalid},
		{"event of 1 MiB", keyA, checkpoint.Position{EventID: strings.Repeat("x", 1<<20)}, store.ErrTooLarge},
	} {
		_, err := s.Advance(ctx, tt.key, tt.p, nil)
		_, err2 := s.Reset(ctx, tt.key, tt.p, nil)
		for _, err := range []error{err, err2} {
			if !errors.Is(err, tt.want) || store.OutcomeOf(err) != store.NotApplied {
				t.Errorf("%s: got %v (%v), want %v", tt.name, err, store.OutcomeOf(err), tt.want)
			}
		}
	}
	if _, err := s.Get(ctx, "orders", nil); !errors.Is(err, store.ErrKey) {
		t.Errorf("get: %v", err)
	}
	if _, err := s.Fence(ctx, keyA, 0); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("fence 0: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something was written: %v", err)
	}
	if _, err := avisofile.Open("", nil); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("empty path: got %v", err)
	}
}

func TestEventsAreWrittenAsTheyAre(t *testing.T) {
	path := statePath(t)
	event := "a\x00\x01\x1f\x7f\u2028\"\\/<>&é😀\b\f\n\r\t"
	s := open(t, path, nil)
	advance(t, s, keyA, checkpoint.Position{Sequence: 1, EventID: event}, checkpoint.Advanced)
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := written("1", `"a\u0000\u0001\u001f`+"\x7f\u2028"+`\"\\/<>&é😀\b\f\n\r\t"`)
	if string(got) != want {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	if c := get(t, open(t, path, nil), keyA); c.EventID != event {
		t.Errorf("got %q", c.EventID)
	}
}

func TestList(t *testing.T) {
	s := open(t, statePath(t), nil)
	for i := range 20 {
		advance(t, s, resumeKey(fmt.Sprint(i)), at(uint64(i)), checkpoint.Advanced)
	}
	last, n := "", 0
	for c, err := range s.List(t.Context(), "") {
		if err != nil || c.Key <= last || !c.Exists || c.Epoch != 1 {
			t.Fatalf("got %+v, %v after %s", c, err, last)
		}
		last = c.Key
		n++
	}
	if n != 20 {
		t.Errorf("got %d checkpoints", n)
	}
	for c, err := range s.List(t.Context(), keyA) {
		t.Errorf("below a prefix: got %+v, %v", c, err)
	}
	for _, err := range s.List(t.Context(), "a//b") {
		if !errors.Is(err, store.ErrKey) {
			t.Errorf("got %v", err)
		}
	}
}

func TestCachedGet(t *testing.T) {
	path := statePath(t)
	a, b := open(t, path, nil), open(t, path, nil)
	advance(t, a, keyA, at(1), checkpoint.Advanced)
	advance(t, b, keyA, at(2), checkpoint.Advanced)
	cached := func() uint64 {
		c, err := a.Get(t.Context(), keyA, &checkpoint.GetOptions{Cached: true})
		if err != nil {
			t.Fatal(err)
		}
		return c.Sequence
	}
	if got := cached(); got != 1 {
		t.Errorf("cached: got %d, want 1", got)
	}
	wantAt(t, a, keyA, 2)
	if got := cached(); got != 2 {
		t.Errorf("cached after a read: got %d, want 2", got)
	}
}
