// Package registerrules has the rules of a register that two programs check. The test suite
// [store/storetest] checks backends, and the command holdfast doctor checks the store of a user.
//
// A rule returns nil if the store obeys it, and a [*Broken] if the store breaks it. Any other error means
// that the check was not possible.
//
// [store/storetest]: https://pkg.go.dev/github.com/holdfast-go/holdfast/store/storetest
package registerrules

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Broken is the error for a rule that the store breaks.
type Broken struct {
	Found  string // what happened
	Means  string // the consequence for leases
	Detail string // values and versions, if there are any
}

func (b *Broken) Error() string {
	text := b.Found
	if b.Detail != "" {
		text += ": " + b.Detail
	}
	return text + " (" + b.Means + ")"
}

// What broken rules mean.
const (
	twoHolders = "two programs could hold one lock"
	overwrites = "a holder could be overwritten"
	noRenewal  = "no lease could be renewed"
	noLock     = "no lock could be taken"
	oldAsNew   = "an old state looks current again"
	comesBack  = "what was removed comes back"
)

// after says of a broken rule, or of another error, what had been done before.
func after(what string, err error) error {
	var broken *Broken
	if errors.As(err, &broken) {
		return &Broken{"after " + what + " " + broken.Found, broken.Means, broken.Detail}
	}
	if err != nil {
		return fmt.Errorf("after %s: %w", what, err)
	}
	return nil
}

// Space is the place where the rules are checked: two handles on the same registers. With two handles,
// the cache of one handle cannot hide what the store does. The keys of a rule must not exist before the
// check.
type Space struct {
	Stores [2]store.Store

	Racers int // number of goroutines that write at the same time
	Rounds int // number of repetitions of a race, or of a write of an equal value

	// If RetryBusy is set, a racer repeats a write that failed because the store was too busy. The store
	// must report that the write was not applied.
	RetryBusy bool

	// OnLoser gets the error of a racer that neither won nor got a conflict, for example because the
	// store was too busy. If OnLoser is nil, such errors are ignored.
	OnLoser func(error)
}

// value returns one that was never written before.
func value() []byte { return []byte(`{"by":"holdfast","nonce":"` + rand.Text() + `"}`) }

// put writes with the first handle, on a version that is current.
func (s *Space) put(ctx context.Context, key string, prev store.Version, value []byte) (store.Version, error) {
	v, err := s.Stores[0].Put(ctx, key, prev, value)
	switch {
	case errors.Is(err, store.ErrConflict) && store.OutcomeOf(err) == store.NotApplied && prev == "":
		return "", &Broken{"creating an absent register was refused", noLock, err.Error()}
	case errors.Is(err, store.ErrConflict) && store.OutcomeOf(err) == store.NotApplied:
		return "", &Broken{"a put on the current version was refused", noRenewal, fmt.Sprintf("version %q: %v", prev, err)}
	case err == nil && v == "":
		return "", &Broken{"a put returned the zero version, which means absent", noRenewal, ""}
	case err == nil && v == prev:
		return "", &Broken{"a put returned the version that it replaced", oldAsNew, fmt.Sprintf("version %q", v)}
	}
	return v, err
}

// Holds checks that both handles read this value and this version. A zero version means that the register
// is absent.
func (s *Space) Holds(ctx context.Context, key string, version store.Version, want []byte) error {
	for i, handle := range s.Stores {
		got, v, err := handle.Get(ctx, key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if v != version || !bytes.Equal(got, want) {
			return &Broken{"the register is not what it was", overwrites, fmt.Sprintf("%q: handle %d reads %s, and not %s", key, i+1, show(v, got), show(version, want))}
		}
	}
	return nil
}

// Refused checks the error of a write that the store had to refuse. It also checks that the register has
// not changed.
func (s *Space) Refused(ctx context.Context, what string, err error, key string, version store.Version, want []byte) error {
	var conflict *store.ConflictError
	switch {
	case err == nil:
		return &Broken{what + " was not refused", twoHolders, ""}
	case !errors.Is(err, store.ErrConflict):
		return fmt.Errorf("%s: the error is no conflict: %w", what, err)
	case store.OutcomeOf(err) != store.NotApplied:
		return fmt.Errorf("%s: a conflict whose outcome is %q: %w", what, store.OutcomeOf(err), err)
	case errors.As(err, &conflict) && conflict.HasCurrent && (conflict.Version != version || !bytes.Equal(conflict.Value, want)):
		return &Broken{"the conflict of " + what + " carries another state than the one that it found", overwrites,
			fmt.Sprintf("%s, and not %s", show(conflict.Version, conflict.Value), show(version, want))}
	}
	return after(what+" was refused,", s.Holds(ctx, key, version, want))
}

func show(v store.Version, value []byte) string {
	if v == "" && len(value) == 0 {
		return "nothing"
	}
	if len(value) > 40 {
		return fmt.Sprintf("%q... (%d bytes) with version %q", value[:40], len(value), v)
	}
	return fmt.Sprintf("%q with version %q", value, v)
}

// CreateTwice: the store refuses to create a register that exists, with another value and with the same
// value.
func (s *Space) CreateTwice(ctx context.Context) error {
	const key = "twice"
	first := value()
	v, err := s.put(ctx, key, "", first)
	if err != nil {
		return err
	}
	_, err = s.Stores[0].Put(ctx, key, "", value())
	if err := s.Refused(ctx, "creating a register that exists", err, key, v, first); err != nil {
		return err
	}
	_, err = s.Stores[1].Put(ctx, key, "", first)
	return s.Refused(ctx, "creating a register with the value that it has", err, key, v, first)
}

// twoStates makes a register that had two states.
func (s *Space) twoStates(ctx context.Context, key string) (old, now store.Version, current []byte, err error) {
	if old, err = s.put(ctx, key, "", value()); err != nil {
		return "", "", nil, err
	}
	current = value()
	now, err = s.put(ctx, key, old, current)
	return old, now, current, err
}

// PutSuperseded: the store refuses a put on a version that is no longer current. Both handles try this,
// also with the current value.
func (s *Space) PutSuperseded(ctx context.Context) error {
	const key = "superseded"
	old, now, current, err := s.twoStates(ctx, key)
	if err != nil {
		return err
	}
	for i, next := range [][]byte{value(), current} {
		_, err := s.Stores[i].Put(ctx, key, old, next)
		if err := s.Refused(ctx, "a put on a superseded version", err, key, now, current); err != nil {
			return err
		}
	}
	return nil
}

// PutAbsent: if the register is absent, the store refuses a put on a version, and creates nothing.
func (s *Space) PutAbsent(ctx context.Context) error {
	v, err := s.put(ctx, "other", "", value())
	if err != nil {
		return err
	}
	_, err = s.Stores[0].Put(ctx, "missing", v, value())
	return s.Refused(ctx, "a put with a version on a register that never was", err, "missing", "", nil)
}

// DeleteSuperseded: the store refuses a delete of a version that is no longer current.
func (s *Space) DeleteSuperseded(ctx context.Context) error {
	const key = "delete"
	old, now, current, err := s.twoStates(ctx, key)
	if err != nil {
		return err
	}
	return s.Refused(ctx, "a delete with a superseded version", s.Stores[0].Delete(ctx, key, old), key, now, current)
}

// Recreate: a deleted register is absent, and a client can create it again. It then has a new version,
// even with the same value. The store refuses the old version.
func (s *Space) Recreate(ctx context.Context) error {
	const key = "again"
	same := value()
	old, err := s.put(ctx, key, "", same)
	if err != nil {
		return err
	}
	if err := s.Stores[0].Delete(ctx, key, old); err != nil {
		return err
	}
	if err := s.Holds(ctx, key, "", nil); err != nil {
		var broken *Broken
		if errors.As(err, &broken) {
			return &Broken{"the delete succeeded, and the register is still there", comesBack, broken.Detail}
		}
		return err
	}
	_, err = s.Stores[0].Put(ctx, key, old, value())
	if err := s.Refused(ctx, "a put with the version that was deleted", err, key, "", nil); err != nil {
		return err
	}
	now, err := s.put(ctx, key, "", same)
	if err != nil {
		return err
	}
	if now == old {
		return &Broken{"after a delete the old version came back", overwrites, fmt.Sprintf("version %q", old)}
	}
	_, err = s.Stores[0].Put(ctx, key, old, value())
	return s.Refused(ctx, "a put with a version from before the delete", err, key, now, same)
}

// EqualValues: each write gives the register a new version, even if it writes the value that the register
// has.
func (s *Space) EqualValues(ctx context.Context) error {
	const key = "equal"
	same := value()
	all := map[store.Version]bool{}
	var v store.Version
	for range 1 + s.Rounds {
		next, err := s.put(ctx, key, v, same)
		if err != nil {
			return err
		}
		if all[next] {
			return &Broken{"a write of an equal value has the version of an earlier one", oldAsNew, fmt.Sprintf("version %q", next)}
		}
		if v != "" {
			_, err := s.Stores[1].Put(ctx, key, v, value())
			if err := s.Refused(ctx, "a put on the version before an equal value", err, key, next, same); err != nil {
				return err
			}
		}
		all[next], v = true, next
	}
	return nil
}

// RaceCreate: if several goroutines create one register at the same time, exactly one succeeds, and the
// register has its value.
func (s *Space) RaceCreate(ctx context.Context) error {
	for round := range s.Rounds {
		if _, err := s.race(ctx, fmt.Sprintf("race-%d", round), ""); err != nil {
			return err
		}
	}
	return nil
}

// RaceSwap: if several goroutines put over one version at the same time, exactly one succeeds, and the
// register has its value.
func (s *Space) RaceSwap(ctx context.Context) error {
	v, err := s.put(ctx, "swap", "", value())
	for round := 0; round < s.Rounds && err == nil; round++ {
		v, err = s.race(ctx, "swap", v)
	}
	return err
}

// race lets the racers write one register on the same predecessor, and returns the
// version of the one that won.
func (s *Space) race(ctx context.Context, key string, prev store.Version) (store.Version, error) {
	type put struct {
		value   []byte
		version store.Version
		err     error
	}
	puts := make([]put, s.Racers)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range puts {
		all.Go(func() {
			p := &puts[i]
			p.value = value()
			<-start
			for {
				p.version, p.err = s.Stores[i%2].Put(ctx, key, prev, p.value)
				busy := errors.Is(p.err, store.ErrUnavailable) && store.OutcomeOf(p.err) == store.NotApplied
				if !busy || !s.RetryBusy || ctx.Err() != nil {
					return
				}
				time.Sleep(mathrand.N(5 * time.Millisecond))
			}
		})
	}
	close(start)
	all.Wait()
	var won []put
	var other error // of one that neither won nor lost
	for _, p := range puts {
		switch {
		case p.err == nil:
			won = append(won, p)
		case !errors.Is(p.err, store.ErrConflict) || store.OutcomeOf(p.err) != store.NotApplied:
			other = p.err
			if s.OnLoser != nil {
				s.OnLoser(p.err)
			}
		}
	}
	switch {
	case len(won) > 1:
		return "", &Broken{fmt.Sprintf("%d of %d writes at once succeeded", len(won), len(puts)), twoHolders, ""}
	case len(won) == 0 && other != nil:
		return "", other
	case len(won) == 0:
		return "", &Broken{fmt.Sprintf("none of %d writes at once succeeded", len(puts)), noLock + " when several try", ""}
	}
	return won[0].version, after("one of several writes at once succeeded,", s.Holds(ctx, key, won[0].version, won[0].value))
}
