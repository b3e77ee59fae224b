package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// ProbeDir is the prefix of the registers that a probe writes. Readers find these
	// registers deleted.
	ProbeDir = ".holdfast/probe"

	// cleanup is how long the engine tries to remove the registers of a probe, also after
	// the context has ended.
	cleanup = 10 * time.Second
)

// ConditionsIgnoredError says that a store ignores conditions, so that two programs could hold one
// lock. It matches [store.ErrUnsafe].
type ConditionsIgnoredError struct {
	// Create says what is wrong with writes on the condition that the key is absent.
	// Swap says what is wrong with writes on the condition that the register has a
	// version. A text is empty if nothing is wrong.
	Create, Swap string
}

func (e *ConditionsIgnoredError) Error() string {
	found := e.Create
	if e.Create != "" && e.Swap != "" {
		found += "; "
	}
	return "the store ignores conditions: " + found + e.Swap
}

// Is makes a ConditionsIgnoredError match store.ErrUnsafe.
func (e *ConditionsIgnoredError) Is(target error) bool { return target == store.ErrUnsafe }

// Outcome returns NotApplied.
func (e *ConditionsIgnoredError) Outcome() store.Outcome { return store.NotApplied }

// probe holds what is known about a store, and the progress of the probe. A probe that
// fails continues at the same step with the next call.
type probe struct {
	slot   chan struct{} // full while a goroutine probes; guards the fields below
	passed atomic.Bool
	failed error // the verdict that the store is not safe

	checked bool // Options.Check has passed
	step    int  // the index of the next step
	key     string
	current Stored // the state that key should have
	found   ConditionsIgnoredError
	absent  []string // absent keys on which a write on a version was tried

	// The envelopes that the probe writes over current. again is written on absence and
	// wrong on another version; the server must refuse both. next is written on the
	// current version.
	again, wrong, next Envelope

	// late is the nonce of a swap whose reply was lost and that the next read did not find.
	// The server may still apply it, once.
	late string
}

func newProbe() *probe {
	p := &probe{slot: make(chan struct{}, 1), key: ProbeDir + "/" + rand.Text()}
	p.renew(Stored{Envelope: probeEnvelope()})
	return p
}

// renew sets the current state, and chooses the envelopes to write over it.
func (p *probe) renew(current Stored) {
	p.current, p.again, p.wrong, p.next = current, probeEnvelope(), probeEnvelope(), probeEnvelope()
}

func (p *probe) theKey() string { return p.key }

func probeEnvelope() Envelope { return Envelope{Deleted: true, Nonce: newNonce()} }

// Verify finds out whether the store is set up correctly and honours conditions. If the answer is
// already known, Verify sends no request. The first write calls Verify. If Verify finds that the
// store is not safe, this result is final. Any other error means that Verify could not find out
// now; the next call continues the verification.
//
// If no reply is lost, the probe sends six requests. It creates a register, and tries to create it
// again. It sends a write that names a version that the register does not have. The next write
// names the current version: if this write succeeds, the server has refused the two writes before
// it. Then a write names a version of a register that does not exist. Finally the probe removes the
// register.
func (s *Store) Verify(ctx context.Context) error {
	p := s.probe
	if s.o.Trusted || p.passed.Load() {
		return nil
	}
	select {
	case p.slot <- struct{}{}:
		defer func() { <-p.slot }()
	case <-ctx.Done():
		return store.CheckContext(ctx)
	}
	switch {
	case p.passed.Load():
		return nil
	case p.failed != nil:
		return p.failed
	}
	err := s.find(ctx, p)
	switch {
	case errors.Is(err, store.ErrUnsafe):
		p.failed = store.MarkNotApplied(err)
		return p.failed
	case err != nil:
		return store.MarkNotApplied(fmt.Errorf("the check whether the store honours conditions failed: %w", err))
	}
	p.passed.Store(true)
	if s.o.OnVerified != nil {
		s.o.OnVerified()
	}
	return nil
}

// find carries out the check and the steps that are not done yet. It returns nil if the
// store can be used.
func (s *Store) find(ctx context.Context, p *probe) error {
	if s.o.Check != nil && !p.checked {
		if err := s.o.Check(ctx); err != nil {
			return err
		}
		p.checked = true
	}
	if s.o.TrustConditions {
		return nil
	}
	steps := [...]func(context.Context, *probe) error{
		s.tryCreate, s.tryCreateAgain, s.tryWrongSwap, s.trySwap,
		s.readAfterSwap, s.tryCreateAgain, s.tryWrongSwap, s.readAfterRefusals, s.trySwapOnce,
		s.trySwapOfNothing,
	}
	for p.step < len(steps) {
		step := p.step
		if err := steps[step](ctx, p); err != nil {
			return err
		}
		if p.step == step {
			p.step++
		}
	}
	s.clean(ctx, p)
	if p.found == (ConditionsIgnoredError{}) {
		return nil
	}
	if s.o.OnConditionsIgnored == nil {
		return &p.found
	}
	return s.o.OnConditionsIgnored(p.found)
}

// Steps that a probe can skip to.
const (
	stepCreateAgain   = 5
	stepSwapOfNothing = 9
	stepEnd           = 10
)

func (s *Store) tryCreate(ctx context.Context, p *probe) error {
	made, err := s.writing(p.key, Stored{}, p.current.Envelope).run(ctx)
	switch {
	case err == nil:
		p.current = made
		return nil
	case refusal(err):
		// Without a register nothing more can be tried, and the verdict is certain.
		p.found = ConditionsIgnoredError{Create: "it refused to create a register that was absent", Swap: "writes on a version could not be tried"}
		p.step = stepEnd
		return nil
	}
	return err
}

func (s *Store) tryCreateAgain(ctx context.Context, p *probe) error {
	tag, through, err := s.wantRefusal(ctx, p.theKey, Stored{}, &p.again)
	if through {
		p.found.Create = "it accepted a second create-if-absent"
		p.current = Stored{Envelope: p.again, Tag: tag}
	}
	return err
}

func (s *Store) tryWrongSwap(ctx context.Context, p *probe) error {
	on := p.current
	on.Nonce, on.Tag = newNonce(), wrongTag(on.Tag)
	tag, through, err := s.wantRefusal(ctx, p.theKey, on, &p.wrong)
	if through {
		p.found.Swap = "it accepted a write that named another version"
		p.current = Stored{Envelope: p.wrong, Tag: tag}
	}
	return err
}

// trySwap writes on the state that the register should have. If the server accepts it, the
// two refused writes before it wrote nothing. Any other reply proves nothing; the steps
// that follow find out more.
func (s *Store) trySwap(ctx context.Context, p *probe) error {
	p.next.follow(p.current, s.o.Numbered)
	var tag Tag
	var err error
	for try := 1; ; try++ {
		tag, err = s.driver.Write(ctx, p.key, p.current, p.next)
		if !errors.Is(err, ErrBusy) || try >= s.o.tries || backoff.Wait(ctx, try, s.o.Pause, maxPause) != nil {
			break
		}
	}
	switch {
	case err == nil:
		s.swapped(p, tag)
	case store.OutcomeOf(err) == store.NotApplied && !refusal(err):
		return err
	}
	return nil
}

// swapped notes that a write on the current state was accepted.
func (s *Store) swapped(p *probe, tag Tag) {
	if s.o.Tags && tag == p.current.Tag {
		p.found.Swap = "it gave two states the same version"
	}
	p.step = stepSwapOfNothing
}

// readAfterSwap reads the register after a swap whose reply was lost, or said that its
// condition does not hold.
func (s *Store) readAfterSwap(ctx context.Context, p *probe) error {
	current, err := s.readAfter(ctx, p)
	if err == nil {
		if current.Nonce != p.next.Nonce {
			p.late = p.next.Nonce
		}
		p.renew(current)
	}
	return err
}

// arrived reports whether current is the late swap. If so, the steps that follow the read
// begin again, on this state: their results belong to the state before.
func (p *probe) arrived(current Stored) bool {
	if p.late == "" || current.Nonce != p.late {
		return false
	}
	p.late = ""
	p.renew(current)
	p.step = stepCreateAgain
	return true
}

// readAfterRefusals reads whether the server applied writes that it had refused.
func (s *Store) readAfterRefusals(ctx context.Context, p *probe) error {
	current, err := s.readAfter(ctx, p)
	if err == nil && current.Nonce != p.current.Nonce && p.step < stepSwapOfNothing && !p.arrived(current) {
		p.found.Swap = "a read returned a state other than the written state"
		p.step = stepSwapOfNothing
	}
	return err
}

func (s *Store) readAfter(ctx context.Context, p *probe) (Stored, error) {
	current, err := s.read(ctx, p.key, "")
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return Stored{}, err
	}
	switch current.Nonce {
	case p.again.Nonce:
		if p.found.Create == "" {
			p.found.Create = "it reported that a second create-if-absent failed, but wrote the value"
			p.step = stepSwapOfNothing
		}
	case p.wrong.Nonce:
		if p.found.Swap == "" {
			p.found.Swap = "it reported that a write which named another version failed, but wrote the value"
			p.step = stepSwapOfNothing
		}
	}
	return current, nil
}

// trySwapOnce writes on the state that was read, like any other write of the engine.
func (s *Store) trySwapOnce(ctx context.Context, p *probe) error {
	made, err := s.writing(p.key, p.current, p.next).run(ctx)
	switch {
	case err == nil:
		s.swapped(p, made.Tag)
	case refusal(err):
		current, err := s.readAfter(ctx, p)
		if err != nil {
			return err
		}
		if p.step < stepSwapOfNothing && !p.arrived(current) {
			p.found.Swap = "it refused a write that named the current version"
		}
	default:
		return err
	}
	return nil
}

// trySwapOfNothing writes on a version of an absent register. Each try uses another key,
// since a try whose reply was lost may have created its register.
func (s *Store) trySwapOfNothing(ctx context.Context, p *probe) error {
	e := probeEnvelope()
	_, through, err := s.wantRefusal(ctx, func() string {
		p.absent = append(p.absent, fmt.Sprintf("%s.absent-%d", p.key, len(p.absent)))
		return p.absent[len(p.absent)-1]
	}, p.current, &e)
	if through && p.found.Swap == "" {
		p.found.Swap = "it accepted a write that named a version of an absent register"
	}
	return err
}

// wantRefusal sends a write whose condition does not hold until the server answers. After
// a lost reply it sends the write again, and the next answer counts.
func (s *Store) wantRefusal(ctx context.Context, key func() string, on Stored, e *Envelope) (tag Tag, through bool, err error) {
	e.follow(on, s.o.Numbered)
	err = Repeat(ctx, s.o.tries, s.o.Pause, func() (err error) {
		tag, err = s.driver.Write(ctx, key(), on, *e)
		return err
	})
	switch {
	case err == nil:
		return tag, true, nil
	case refusal(err), errors.Is(err, store.ErrVersion):
		return "", false, nil
	}
	return "", false, err
}

// refusal reports whether an error of a write says that its condition does not hold, or
// that the store does not support such conditions.
func refusal(err error) bool {
	return errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrUnsafe) || errors.Is(err, errors.ErrUnsupported)
}

// clean removes the registers of a probe. One that cannot be removed remains, and looks
// like a deleted register.
func (s *Store) clean(ctx context.Context, p *probe) {
	remover, ok := s.driver.(Remover)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanup)
	defer cancel()
	keys := []string{p.key}
	if len(p.absent) > 1 || p.found != (ConditionsIgnoredError{}) {
		keys = append(keys, p.absent...) // a write may have created a register there
	}
	for _, key := range keys {
		err := Repeat(ctx, s.o.tries, s.o.Pause, func() error { return remover.Remove(ctx, key) })
		if err != nil {
			s.o.Logger.Warn("the probe could not remove one of its registers; the register looks deleted and does no harm", "store", s.o.Traits.Name, "key", key, "error", err)
		}
	}
}

// wrongTag returns a tag of the same form that the register does not have: it differs in
// one digit or letter.
func wrongTag(tag Tag) Tag {
	b := []byte(tag)
	i := strings.IndexFunc(string(tag), func(r rune) bool { return r >= '0' && r <= '9' || r >= 'a' && r <= 'f' })
	switch {
	case tag == "":
	case i < 0:
		b = append(b, '0')
	case b[i] == '0':
		b[i] = '1'
	default:
		b[i] = '0'
	}
	return Tag(b)
}
