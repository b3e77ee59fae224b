package lease_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// A record that cannot be read is kept, and the lock can be used again, with a higher
// token than any that was ever shown.
func TestBreakUnreadable(t *testing.T) {
	st := memstore.New()
	c := client(t, st, nil)
	g := mustTry(t, c, "job")
	mustRelease(t, g)
	high := g.Token() + 1<<40
	torn := []byte(fmt.Sprintf(`{"holdfast":1,"kind":"lease","name":"another","token":%d}`, high))
	put(t, st, "job", torn)
	if _, err := client(t, st, nil).TryAcquire(t.Context(), "job", nil); !errors.Is(err, store.ErrCorrupt) {
		t.Fatalf("control: the lock can be taken: %v", err)
	}
	refusal := errors.New("no place for a copy")
	if _, err := c.BreakUnreadable(t.Context(), "job", func(context.Context, string, []byte) error { return refusal }); !errors.Is(err, refusal) {
		t.Errorf("without a copy: %v", err)
	}
	if now, _, _ := st.Get(t.Context(), "lock/job"); !bytes.Equal(now, torn) {
		t.Errorf("it was changed without a copy: %s", now)
	}
	var kept []byte
	rec, err := c.BreakUnreadable(t.Context(), "job", func(_ context.Context, key string, value []byte) error {
		kept = value
		if key != "lock/job" {
			t.Errorf("the key is %q", key)
		}
		return nil
	})
	if err != nil || rec.State != lease.Free || rec.Token <= high || !bytes.Equal(kept, torn) {
		t.Fatalf("%+v, kept %s (%v)", rec, kept, err)
	}
	again := mustTry(t, client(t, st, nil), "job")
	if again.Token() <= rec.Token {
		t.Errorf("token %d after %d", again.Token(), rec.Token)
	}
	mustRelease(t, again)
	// The floor has been raised: a lock made again is above, too.
	remove(t, st, "lock/job")
	if anew := mustTry(t, client(t, st, &lease.Options{CheckTokenFloor: true}), "job"); anew.Token() <= rec.Token {
		t.Errorf("made anew with %d, after %d", anew.Token(), rec.Token)
	}
}

// What can be read is not touched, nor what a newer program wrote, nor what is not there.
func TestBreakUnreadableRefusesWhatCanBeRead(t *testing.T) {
	st := memstore.New()
	c := client(t, st, nil)
	g := mustTry(t, c, "held")
	put(t, st, "newer", []byte(`{"holdfast":3,"kind":"lease","name":"newer"}`))
	keep := func(context.Context, string, []byte) error {
		t.Error("a copy was made")
		return nil
	}
	for name, want := range map[string]error{"held": lease.ErrNotHeld, "newer": lease.ErrNewerFormat, "nothing": store.ErrNotFound} {
		if _, err := c.BreakUnreadable(t.Context(), name, keep); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	if err := g.Err(); err != nil {
		t.Errorf("the holder: %v", err)
	}
}

// Where the store cannot read its register, the caller copies it and moves it away; the lock starts
// again.
func TestBreakUnreadableRegister(t *testing.T) {
	st := memstore.New()
	damaged := true
	broken := store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
		if damaged && op.Key == "lock/job" {
			return fmt.Errorf("%w: damaged", store.ErrCorrupt)
		}
		return next(ctx, op)
	})
	c := client(t, broken, nil)
	rec, err := c.BreakUnreadable(t.Context(), "job", func(_ context.Context, _ string, value []byte) error {
		if value != nil {
			t.Errorf("a value of what cannot be read: %s", value)
		}
		damaged = false
		return nil
	})
	must(t, err)
	if g := mustTry(t, client(t, broken, nil), "job"); g.Token() <= rec.Token {
		t.Errorf("token %d after %d", g.Token(), rec.Token)
	}
}
