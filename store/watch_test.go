package store_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// plain hides every ability of a store.
type plain struct{ s store.Store }

func (p plain) Get(ctx context.Context, key string) ([]byte, store.Version, error) {
	return p.s.Get(ctx, key)
}

func (p plain) Put(ctx context.Context, key string, prev store.Version, value []byte) (store.Version, error) {
	return p.s.Put(ctx, key, prev, value)
}

func (p plain) Delete(ctx context.Context, key string, prev store.Version) error {
	return p.s.Delete(ctx, key, prev)
}

// follow collects what Watch yields, as texts: values, "-" for absent, "!" for an
// error of the store. It ends when the context does.
func follow(ctx context.Context, t *testing.T, s store.Store, poll time.Duration) []string {
	var seen []string
	var last error
	for e, err := range store.Watch(ctx, s, "job", poll) {
		last = err
		switch {
		case err != nil && ctx.Err() == nil:
			seen = append(seen, "!")
		case err != nil:
		case e.Version == "":
			seen = append(seen, "-")
		default:
			seen = append(seen, string(e.Value))
		}
		if e.Key != "job" {
			t.Errorf("an entry of %q", e.Key)
		}
	}
	if !errors.Is(last, context.DeadlineExceeded) {
		t.Errorf("the last thing yielded is %v, want the context's error", last)
	}
	return seen
}

// TestWatch changes a register once a second, and checks what a watch makes of it on stores
// that report changes, that do not, and that fail at times.
func TestWatch(t *testing.T) {
	for _, c := range []struct {
		name string
		s    func(m *memstore.Store) store.Store
		poll time.Duration
		want []string
	}{
		{"pushed", func(m *memstore.Store) store.Store { return m }, time.Hour, []string{"-", "one", "two", "-", "three"}},
		{"polled", func(m *memstore.Store) store.Store { return plain{m} }, 100 * time.Millisecond, []string{"-", "one", "two", "-", "three"}},
		{"reads fail at first", func(m *memstore.Store) store.Store {
			return faultstore.New(m, faultstore.MustParse("get * #1-2 fail"))
		}, 100 * time.Millisecond, []string{"!", "!", "-", "one", "two", "-", "three"}},
		{"a read fails later", func(m *memstore.Store) store.Store {
			return faultstore.New(m, faultstore.MustParse("get * #3 fail"))
		}, 100 * time.Millisecond, []string{"-", "one", "!", "two", "-", "three"}},
		{"watches fail", func(m *memstore.Store) store.Store {
			return faultstore.New(m, faultstore.MustParse("watch * fail"))
		}, 100 * time.Millisecond, []string{"-", "one", "two", "-", "three"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := memstore.New()
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				go func() {
					time.Sleep(time.Second)
					v := put(t, m, "job", "", "one")
					time.Sleep(time.Second)
					v = put(t, m, "job", v, "two")
					time.Sleep(time.Second)
					_ = m.Delete(ctx, "job", v)
					time.Sleep(time.Second)
					put(t, m, "job", "", "three")
				}()
				if got := follow(ctx, t, c.s(m), c.poll); !slices.Equal(got, c.want) {
					t.Errorf("got %q, want %q", got, c.want)
				}
			})
		})
	}
}

func TestWatchLeft(t *testing.T) {
	m := memstore.New()
	put(t, m, "job", "", "one")
	n := 0
	for e, err := range store.Watch(t.Context(), m, "job", 0) {
		if n++; err != nil || string(e.Value) != "one" {
			t.Errorf("got %+v, %v", e, err)
		}
		break
	}
	if n != 1 {
		t.Errorf("%d states", n)
	}
	s, _ := faulty(t, "* * fail")
	for range store.Watch(t.Context(), s, "job", time.Hour) {
		break // at an error
	}
}

func TestWaitChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memstore.New()
		v := put(t, m, "job", "", "one")
		ended, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("the operator said so")
		cancel(cause)
		for _, c := range []struct {
			name     string
			ctx      context.Context
			s        store.Store
			seen     store.Version
			poll     time.Duration
			min, max time.Duration
			want     error
		}{
			{"a watcher returns at once", t.Context(), m, "", time.Hour, 0, 0, nil},
			{"polling", t.Context(), plain{m}, v, time.Minute, 30 * time.Second, time.Minute, nil},
			{"polling by default", t.Context(), plain{m}, v, 0, store.DefaultPollInterval / 2, store.DefaultPollInterval, nil},
			{"polling by less than nothing", t.Context(), plain{m}, v, -1, store.DefaultPollInterval / 2, store.DefaultPollInterval, nil},
			{"an error of the watcher", t.Context(), faultstore.New(m, faultstore.MustParse("watch * fail")), v, time.Minute, 30 * time.Second, time.Minute, nil},
			{"no context left for a watcher", ended, m, v, time.Hour, 0, 0, cause},
			{"no context left for a poll", ended, plain{m}, v, time.Hour, 0, 0, cause},
		} {
			start := time.Now()
			err := store.WaitForChange(c.ctx, c.s, "job", c.seen, c.poll)
			if took := time.Since(start); !errors.Is(err, c.want) || took < c.min || took > c.max {
				t.Errorf("%s: got %v after %v, want %v after %v to %v", c.name, err, took, c.want, c.min, c.max)
			}
		}
	})
}
