package bucketstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

const (
	firstPause = 50 * time.Millisecond
	maxPause   = 2 * time.Second
)

// writing is one write on its way: what is sent, and what is known of it.
type writing struct {
	s      *Store
	key    string
	create bool    // the register must not exist: absent or a tombstone
	base   version // the state that it is written against
	rec    record  // its nonce stays the same in all tries

	// lost is the error of the last try whose outcome is not known. It may still
	// be applied, as long as the base is there.
	lost error

	// odd counts answers that the condition does not hold although it does.
	odd int
}

// write puts r in the place of the state prev.
func (s *Store) write(ctx context.Context, key string, prev store.Version, r record) (store.Version, error) {
	base, err := parseVersion(prev)
	if err != nil {
		return "", err
	}
	if err := store.CheckContext(ctx); err != nil {
		return "", err
	}
	if err := s.verify(ctx); err != nil {
		return "", err
	}
	w := &writing{s: s, key: key, create: prev == "", rec: r}
	w.rec.nonce = newNonce()
	w.against(base)
	return w.run(ctx)
}

func (w *writing) against(base version) {
	w.base = base
	w.rec.follow(base)
}

// run sends until the outcome is known, or cannot become known.
func (w *writing) run(ctx context.Context) (store.Version, error) {
	pause := firstPause
	for try := 1; ; try++ {
		v, err := w.send(ctx)
		if err == nil {
			return v, nil
		}
		conflict, busy := errors.Is(err, store.ErrConflict), errors.Is(err, object.ErrBusy)
		if !conflict && !busy && store.OutcomeOf(err) == store.NotApplied {
			return "", w.failed(err)
		}
		if !conflict && !busy {
			w.lost = err
		}
		if !conflict || w.odd > 0 {
			if !sleep(ctx, pause) {
				return "", w.failed(fmt.Errorf("%w; %w", err, context.Cause(ctx)))
			}
			pause = min(2*pause, maxPause)
		}
		if !busy {
			v, settled := w.settle(ctx, err)
			if !errors.Is(settled, errSendAgain) {
				return v, settled
			}
		}
		if try >= w.s.tries {
			switch {
			case conflict:
				err = &store.ConflictError{Key: w.key}
			case busy:
				err = store.MarkNotApplied(fmt.Errorf("%w: %w", store.ErrUnavailable, err))
			}
			return "", w.failed(err)
		}
	}
}

func (w *writing) send(ctx context.Context) (store.Version, error) {
	opts := &object.PutOptions{ContentType: "application/json"}
	if w.base.absent() {
		opts.IfAbsent = true
	} else {
		opts.IfMatch = w.base.object
	}
	info, err := w.s.bucket.Put(ctx, w.s.ObjectKey(w.key), bytes.NewReader(w.rec.encode()), opts)
	if err != nil {
		return "", err
	}
	return state{w.rec, info.Version}.version(), nil
}

// failed returns err as the error of the write. If an earlier try may have been
// applied it proves nothing, and must not look like a conflict.
func (w *writing) failed(err error) error {
	switch {
	case w.lost == nil:
		return err
	case errors.Is(err, w.lost):
		return store.MarkUnknown(err)
	}
	return store.MarkUnknown(fmt.Errorf("%w; then: %v", w.lost, err))
}

var errSendAgain = errors.New("not applied yet")

// settle reads the register after a try that failed with cause, and judges what
// became of the write. errSendAgain means that it can be sent again.
func (w *writing) settle(ctx context.Context, cause error) (store.Version, error) {
	current, _, err := w.s.get(ctx, w.key, nil)
	absent := errors.Is(err, store.ErrNotFound)
	switch {
	case absent:
		return "", w.metAbsent(cause)
	case errors.Is(err, store.ErrCorrupt):
		return "", w.failed(store.MarkNotApplied(err))
	case err != nil && w.lost == nil:
		return "", store.MarkUnknown(fmt.Errorf("its condition was refused; reading back why: %w", err))
	case err != nil:
		return "", w.failed(fmt.Errorf("reading it back: %w", err))
	case current.record.nonce == w.rec.nonce:
		w.s.log.Debug("a write whose reply was lost was applied", "key", w.key)
		return current.version(), nil
	case slices.Contains(current.record.after, w.rec.nonce):
		return "", w.superseded()
	case w.base.is(current):
		return "", w.metBase(cause)
	}
	// Another's state. Nothing of ours can be applied any more; was it?
	if w.lost != nil && !w.proves(current.record) {
		return "", w.failed(errors.New("others have changed it several times since"))
	}
	if !current.record.deleted {
		return "", &store.ConflictError{Key: w.key, Known: true, Value: current.record.value, Version: current.version()}
	}
	if !w.create {
		return "", &store.ConflictError{Key: w.key, Known: true}
	}
	// Creating anew means to follow the tombstone.
	w.lost = nil
	w.against(version{current.record.lineage(), current.object})
	return "", errSendAgain
}

// superseded is the error of a write that was applied, and that others have followed
// since. Of a put it cannot be told which version it was: that stood in the reply
// that was lost.
func (w *writing) superseded() error {
	if w.rec.deleted {
		return nil
	}
	return store.MarkUnknown(errors.New("it was applied, but its reply was lost, and others have changed it since"))
}

// proves reports whether the past that another's record names leaves no room for
// this write: it names what came after the base, or goes back to the beginning.
func (w *writing) proves(other record) bool {
	if !w.base.absent() && slices.Contains(other.after, w.base.nonces[0]) {
		return true
	}
	return len(other.after) < maxAfter
}

func (w *writing) metAbsent(cause error) error {
	switch {
	case w.base.absent():
		return w.metBase(cause)
	case w.lost != nil:
		return w.failed(errors.New("the object was removed since"))
	case w.create:
		w.against(version{}) // a tombstone that was removed
		return errSendAgain
	}
	return &store.ConflictError{Key: w.key, Known: true}
}

// metBase: the register is as it was. After a lost reply the write is sent again.
// After a refusal that is odd: a reader may have been faster than the write that
// was in the way, but not time after time.
func (w *writing) metBase(cause error) error {
	if !errors.Is(cause, store.ErrConflict) {
		return errSendAgain
	}
	w.odd++
	if w.odd < 3 {
		return errSendAgain
	}
	err := fmt.Errorf("%w: it refuses a condition that holds", store.ErrUnsafe)
	if w.base.absent() {
		err = fmt.Errorf("%w: it refuses to create what it says is not there; a delete marker may count as an object here", store.ErrUnsafe)
	}
	return w.failed(err)
}

// sleep waits for a random part of d; it returns false when the context ends.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(rand.N(d) + time.Millisecond)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
