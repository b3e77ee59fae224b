package object

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/store"
)

// Fenced is the ability to check a [Fence]. No function tests it, because every store with unique
// versions and conditions has it.
const Fenced Ability = "fence"

// Reserver runs only one operation at a time on a state of an object. It is for stores that do
// not check conditions.
type Reserver interface {
	// Do reserves a version of the object with the given key, and then calls the function operate.
	// While the function runs, no other holder of a reservation runs its function for the same key
	// and version. An empty version means that there is no object. The function check returns nil
	// if the object still has the version, and otherwise an error that matches store.ErrConflict.
	// Do calls check after each wait, and before it calls operate. The context of the call of
	// operate ends with the reservation.
	//
	// If operate returns an error, Do returns this error as it is. If Do did not call operate,
	// nothing was written. If operate returns nil, and Do returns an error, such as the loss of the
	// reservation, the outcome of the write is unknown.
	Do(ctx context.Context, key string, version Version, check func(context.Context) error, operate func(context.Context) error) error
}

// Strategy is the way in which a [Client] makes a write conditional.
type Strategy string

// The strategies, from best to worst.
const (
	// StrategyCondition: the client sends the store's own condition in the request of the write.
	StrategyCondition Strategy = "native"

	// StrategyMultipart: the client uploads the body in parts, and sends the store's own condition
	// with the completion.
	StrategyMultipart Strategy = "parts"

	// StrategyDownloadUpload: the client copies by a download and a put, because the store cannot
	// copy under the condition.
	StrategyDownloadUpload Strategy = "upload"

	// StrategyReservation: the client reserves the object ([Options].Reserver). If a write arrives
	// after the reservation has expired, only a store that also honours the condition refuses it.
	StrategyReservation Strategy = "reservation"

	// StrategyNone: no strategy works, and the client refuses the call.
	StrategyNone Strategy = "none"
)

// way is how a write is sent.
type way struct {
	strategy    Strategy
	conditional bool // the write has a condition
	own         bool // the store itself checks it, or there is none
	stream      bool // a copy is downloaded and put
}

// AbilityStrategy says how a [Client] carries out one kind of conditional write.
type AbilityStrategy struct {
	Ability  Ability  // ability that the write needs
	Strategy Strategy // strategy of the client
	Native   bool     // the client also sends the store's own condition
	Err      error    // if Strategy is StrategyNone: an UnsupportedError
}

// Strategies returns the strategy of the client for each kind of conditional write, in the order of
// [Abilities]. It tests the abilities that are not yet known. An error means that it could not do a
// test.
func (c *Client) Strategies(ctx context.Context) ([]AbilityStrategy, error) {
	var steps []AbilityStrategy
	for _, of := range []struct {
		ability Ability
		choose  func() (way, error)
	}{
		{PutIfAbsent, func() (way, error) { return c.wayOfPut(ctx, condition{ifAbsent: true}, true) }},
		{PutIfMatch, func() (way, error) { return c.wayOfPut(ctx, condition{ifMatch: "v"}, true) }},
		{DeleteIfMatch, func() (way, error) { return c.wayOfDelete(ctx, condition{ifMatch: "v"}, false) }},
		{CopyIfAbsent, func() (way, error) { return c.wayOfCopy(ctx, condition{ifAbsent: true}) }},
		{CopyIfMatch, func() (way, error) { return c.wayOfCopy(ctx, condition{ifMatch: "v"}) }},
	} {
		by, err := of.choose()
		var lacking *UnsupportedError
		switch {
		case errors.As(err, &lacking):
			by, err = way{strategy: StrategyNone}, nil
		case err != nil:
			return nil, err
		}
		step := AbilityStrategy{Ability: of.ability, Strategy: by.strategy, Native: by.own}
		if lacking != nil {
			step.Err = lacking
		}
		steps = append(steps, step)
	}
	return steps, nil
}

// of returns the ability that the condition needs; empty if there is none.
func (c condition) of(absent, match Ability) Ability {
	switch {
	case c.ifAbsent:
		return absent
	case c.ifMatch != "":
		return match
	}
	return ""
}

func (c *Client) wayOfPut(ctx context.Context, on condition, small bool) (way, error) {
	put, parts := on.of(PutIfAbsent, PutIfMatch), on.of(PartsIfAbsent, PartsIfMatch)
	if put == "" {
		return way{strategy: StrategyCondition, own: true}, nil
	}
	lacking := c.has(ctx, put)
	if lacking != nil && !errors.Is(lacking, errors.ErrUnsupported) {
		return way{}, lacking
	}
	if c.o.Reserver != nil {
		own := lacking == nil
		if own && !small {
			err := c.has(ctx, parts)
			if err != nil && !errors.Is(err, errors.ErrUnsupported) {
				return way{}, err
			}
			own = err == nil
		}
		return way{strategy: StrategyReservation, conditional: true, own: own}, nil
	}
	if lacking == nil {
		return way{strategy: StrategyCondition, conditional: true, own: true}, nil
	}
	switch err := c.has(ctx, parts); {
	case err == nil:
		return way{strategy: StrategyMultipart, conditional: true, own: true}, nil
	case errors.Is(err, errors.ErrUnsupported):
		return way{}, lacking
	default:
		return way{}, err
	}
}

func (c *Client) wayOfDelete(ctx context.Context, on condition, orAbsent bool) (way, error) {
	if on.ifMatch == "" {
		return way{strategy: StrategyCondition, own: true}, nil
	}
	ability := DeleteIfMatch
	if orAbsent {
		ability = DeleteOrAbsent
	}
	err := c.has(ctx, ability)
	switch {
	case err != nil && !errors.Is(err, errors.ErrUnsupported):
		return way{}, err
	case c.o.Reserver != nil:
		return way{strategy: StrategyReservation, conditional: true, own: err == nil}, nil
	case err != nil:
		return way{}, err
	}
	return way{strategy: StrategyCondition, conditional: true, own: true}, nil
}

func (c *Client) wayOfCopy(ctx context.Context, on condition) (way, error) {
	copying, err := c.unsupported(ctx, PlainCopy, CopySource)
	if err != nil {
		return way{}, err
	}
	by := way{strategy: StrategyCondition, own: true, stream: copying != nil}
	need := on.of(CopyIfAbsent, CopyIfMatch)
	if need == "" {
		if by.stream {
			by.strategy = StrategyDownloadUpload
		}
		return by, nil
	}
	by.conditional = true
	own := copying
	if own == nil {
		if own, err = c.unsupported(ctx, need); err != nil {
			return way{}, err
		}
	}
	if own == nil && c.o.Reserver == nil {
		return by, nil
	}
	if own != nil {
		put, err := c.wayOfPut(ctx, on, false)
		if put.own && err == nil {
			put.stream = true
			if put.strategy == StrategyCondition {
				put.strategy = StrategyDownloadUpload
			}
			return put, nil
		}
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return way{}, err
		}
	}
	if c.o.Reserver != nil {
		by.strategy, by.own = StrategyReservation, own == nil
		return by, nil
	}
	return way{}, own
}

// unsupported returns the error of the first of these abilities that the store lacks. err
// means that it could not find out.
func (c *Client) unsupported(ctx context.Context, abilities ...Ability) (lacks, err error) {
	for _, a := range abilities {
		err := c.has(ctx, a)
		if errors.Is(err, errors.ErrUnsupported) {
			return err, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// has returns nil if the store has an ability, and an UnsupportedError if it lacks it. Any
// other error means that it could not find out.
func (c *Client) has(ctx context.Context, a Ability) error {
	if err, known := c.abilities.get(a); known {
		return err
	}
	if c.tester != nil {
		return bare(c.tester.Verify(ctx, a)) // it remembers
	}
	if a == PlainCopy {
		if _, ok := As[Copier](c.bucket); !ok {
			return &UnsupportedError{Ability: PlainCopy}
		}
	}
	if TraitsOf(c.bucket).Trusted {
		return nil
	}
	return c.abilities.Require(ctx, a, func() (map[Ability]error, error) { return Probe(ctx, c.bucket, probePrefix, a) })
}

// reserve runs operate under a reservation of the state on.
func (c *Client) reserve(ctx context.Context, key string, on state, operate func(context.Context) error) error {
	check := func(ctx context.Context) error {
		now, err := c.current(ctx, key)
		switch {
		case err != nil:
			return err
		case on.absent && now.absent:
			return nil
		case now.version() != on.version() || (on.info.WriteInfo.known || on.info.WriteInfo.ID != "") && now.info.WriteInfo.ID != on.info.WriteInfo.ID:
			return &ConflictError{Key: key, HasCurrent: true, Version: now.version()}
		}
		return nil
	}
	called, own := false, error(nil)
	err := c.o.Reserver.Do(ctx, key, on.version(), check, func(ctx context.Context) error {
		called, own = true, operate(ctx)
		return own
	})
	switch {
	case own != nil, called && err == nil:
		return own
	case called: // no conflict of the Reserver may look like one of the write
		return store.MarkUnknown(fmt.Errorf("the write was applied, but its reservation failed: %v", err))
	case err == nil:
		err = fmt.Errorf("%w: Options.Reserver neither called operate nor returned an error", store.ErrUnsafe)
	}
	return store.MarkNotApplied(err)
}
