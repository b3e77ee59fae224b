package store

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
)

// Watcher is a store that reports changes, so that waiters need not poll.
type Watcher interface {
	// Watch returns nil as soon as the key may have another version than the one passed as seen. If
	// the version already differs, Watch returns at once. It may return without a change, and it
	// may miss states that last a short time only. A zero seen means that the register was absent.
	// When the context ends it returns the context's error.
	Watch(ctx context.Context, key string, seen Version) error
}

type wantedKey struct{}

// WithWanted returns a context for calls of [Watcher].Watch that need not return at once for each
// change. While a key changes all the time, such a call may pass over values for which wanted
// returns false. It returns when the key then stays unchanged.
func WithWanted(ctx context.Context, wanted func(value []byte) bool) context.Context {
	return context.WithValue(ctx, wantedKey{}, wanted)
}

// Wanted reports whether a call of [Watcher].Watch with ctx has to return for a value: always, unless
// ctx is of [WithWanted].
func Wanted(ctx context.Context, value []byte) bool {
	wanted, ok := ctx.Value(wantedKey{}).(func([]byte) bool)
	return !ok || wanted(value)
}

// OpWatch is the operation of [Watcher].
const OpWatch Kind = "watch"

type interceptedWatcher interceptedAbility[Watcher]

func (w interceptedWatcher) Watch(ctx context.Context, key string, seen Version) error {
	return w.s.f(ctx, &Op{Kind: OpWatch, Key: key, Prev: seen}, func(ctx context.Context, op *Op) error {
		return w.a.Watch(ctx, op.Key, op.Prev)
	})
}

// DefaultPollInterval is the poll interval of [Watch] and [WaitForChange] if their
// argument poll is zero.
const DefaultPollInterval = 5 * time.Second

// Watch yields the state of key, then every further state that it sees, until the context ends or
// the caller leaves the loop. It may miss states that last only a short time. If the store is not a
// [Watcher], Watch reads the key again after a random time: at least half the poll interval, and at
// most the whole interval. A zero poll means [DefaultPollInterval]. After an error, Watch yields
// the error and continues after a poll interval. The last error is the context's error.
func Watch(ctx context.Context, s Store, key string, poll time.Duration) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		var (
			last  Entry
			began time.Time     // start of the last wait
			idle  time.Duration // the least time for the next wait, after waits that ended early without a change
		)
		for first := true; ; {
			value, v, err := s.Get(ctx, key)
			if ctx.Err() != nil {
				yield(Entry{Key: key}, Cause(ctx))
				return
			}
			switch {
			case err != nil && !errors.Is(err, ErrNotFound):
				if !yield(Entry{Key: key}, err) {
					return
				}
				_ = sleepAbout(ctx, poll) // its error is the context's, which the next round yields
				continue
			case first || v != last.Version:
				last, first = Entry{Key: key, Value: value, Version: v}, false
				if !yield(last, nil) {
					return
				}
				idle = 0
			default:
				// A watcher that returns at once without a change must not make this loop
				// spin.
				idle = min(max(2*idle, time.Millisecond), cmp.Or(poll, DefaultPollInterval)/2)
				if early := idle - time.Since(began); early > 0 {
					_ = sleepAbout(ctx, early)
				} else {
					idle = 0
				}
			}
			began = time.Now()
			// An error ends this wait, not the watch.
			_ = WaitForChange(ctx, s, key, last.Version, poll)
		}
	}
}

// WaitForChange returns nil when the version of the key may no longer be the one passed as seen. If
// s is a [Watcher], it calls the method Watch of s. If s is not a Watcher, or if that method fails,
// WaitForChange waits for about the duration passed as poll. When the context ends, it returns the
// context's error.
func WaitForChange(ctx context.Context, s Store, key string, seen Version, poll time.Duration) error {
	if w, ok := As[Watcher](s); ok {
		if err := w.Watch(ctx, key, seen); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return sleepAbout(ctx, poll)
}

// sleepAbout waits for between half of d and d.
func sleepAbout(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		d = DefaultPollInterval
	}
	_ = backoff.Sleep(ctx, d/2+rand.N(d/2+1))
	return Cause(ctx)
}
