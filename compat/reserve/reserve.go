package reserve

import (
	"cmp"
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/sysclock"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// ErrExpired is the cause of an operation's context that has ended because the reservation has
// expired. ErrExpired says nothing about the outcome of the operation.
var ErrExpired = errors.New("the reservation has expired")

const (
	// writeTries is how often a write of the table is sent that gets no answer.
	writeTries = 5

	// renewals is how often a row is renewed that took too long to write.
	renewals = 3

	// releaseTime bounds the release of a row.
	releaseTime = 3 * time.Second
)

// Reserver guards operations by reservations in one table. It implements object.Reserver. Any
// number of goroutines may use it. It starts one goroutine for each operation, which ends with the
// operation. It needs no Close. Use one Reserver for all operations of a program: then its
// goroutines wait in a queue, and send no requests while they wait.
type Reserver struct {
	table Table
	o     Options
	queue waitQueue

	read func() sysclock.Reading // the clocks of the machine

	// ahead is by how much the table's clock is ahead of this machine's, in nanoseconds.
	ahead atomic.Int64
}

var _ object.Reserver = (*Reserver)(nil)

// New returns a Reserver for a table. Nil options mean all defaults. New sends no request.
func New(table Table, opts *Options) (*Reserver, error) {
	if table == nil {
		return nil, fmt.Errorf("reserve: %w: the table is nil", store.ErrInvalid)
	}
	o := *cmp.Or(opts, &Options{})
	if err := o.check(); err != nil {
		return nil, err
	}
	return &Reserver{table: table, o: o, read: sysclock.Read}, nil
}

// Options returns the options, with all defaults filled in.
func (r *Reserver) Options() Options { return r.o }

// Do reserves a version of the object with the given key, and then calls the function operate.
// While the function runs, no other holder of a reservation for this version runs its own function.
// (The table of [NewStoreTable] has a limit, which is described there.)
// An empty version means that there is no object. The function check must return nil if the object
// has this version, and otherwise an error that matches [store.ErrConflict]. Do calls check at the
// beginning, and again after each wait. If another goroutine waits for the same version, Do may
// return the error that the check of that goroutine has returned.
//
// When the reservation expires, the context of operate ends with [ErrExpired] as its cause. Then
// operate must return soon. Do calls operate at most once.
//
// If operate returns an error, Do returns this error as it is, even if the context of operate has
// ended. The outcome of that error ([store.OutcomeOf]) decides what Do does with the reservation.
// If the operation was certainly not applied, Do releases the reservation. Otherwise the
// reservation remains (see [Options].ReleaseApplied), and other writers wait until they may take it
// over. So an operation of several steps must not return an error whose outcome is NotApplied if
// one of the steps was applied.
//
// If Do returns an error without calling operate, the outcome is NotApplied. If the context ended
// during a wait, the error is a [*WaitError], which names the reservation for which Do waited. If a
// row in the table does not belong to this protocol, the error matches store.ErrCorrupt, and Do
// does not change the row.
//
// The context bounds the whole call except the release, which can take three seconds more.
func (r *Reserver) Do(ctx context.Context, key string, version object.Version, check, operate func(context.Context) error) error {
	if err := object.CheckKey(key); err != nil {
		return err
	}
	if err := store.CheckContext(ctx); err != nil {
		return err
	}
	p, leave, err := r.queue.enter(ctx, state{key, version})
	if err != nil {
		return err
	}
	defer leave()
	a := &attempt{r: r, entry: p, key: key, version: version, test: check, nonce: cryptorand.Text()}
	if err := a.check(ctx); err != nil {
		return err
	}
	held, err := a.acquire(ctx)
	if err != nil {
		return err
	}
	// An earlier row of this attempt, with the same nonce, can be spent. This one is not.
	p.seen, p.spent = row{held.Row, time.Now(), r.polls(r.waitOf(held.Row))}, ""
	ctx, cancel := r.during(ctx, held)
	defer cancel()
	// An operation that ignores its context does not stop the queue.
	stop := context.AfterFunc(ctx, leave)
	err = operate(ctx)
	first := stop() // no other goroutine has entered meanwhile
	outcome := store.OutcomeOf(err)
	if outcome == store.NotApplied || outcome == store.Applied && r.o.ReleaseApplied {
		a.release(ctx, held.Row)
	}
	if first && outcome != store.Unknown {
		p.spent = a.nonce
	}
	return err
}

// during returns a context that ends with the time of a row. Its deadline is by the
// monotonic clock, which stops while the machine sleeps. So a goroutine reads all clocks from
// time to time. cancel waits for it.
func (r *Reserver) during(ctx context.Context, held *hold) (_ context.Context, cancel func()) {
	ctx, stop := context.WithDeadlineCause(ctx, held.end(), ErrExpired)
	ctx, end := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		looks := time.NewTicker(held.Timeout / 10)
		defer looks.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-looks.C:
				if r.left(held) <= 0 {
					end(ErrExpired)
				}
			}
		}
	}()
	return ctx, func() {
		end(nil)
		stop()
		<-done
	}
}

// attempt is one call of Do.
type attempt struct {
	r       *Reserver
	entry   *queueEntry
	key     string
	version object.Version
	test    func(context.Context) error
	nonce   string
	checked sysclock.Reading // before the last check
}

func (a *attempt) check(ctx context.Context) error {
	a.checked = a.r.read()
	return a.r.queue.check(ctx, a.entry, a.test)
}

// hold is a row of this attempt.
type hold struct {
	Row
	sent  time.Time        // before the first try
	clock sysclock.Reading // at the same time
}

// end is when the time of the operation is over.
func (h *hold) end() time.Time { return h.sent.Add(h.Timeout) }

// left is the time that is left for the operation, by the clock that ran most.
func (r *Reserver) left(h *hold) time.Duration { return h.Timeout - h.clock.Until(r.read()) }

// acquire writes a row for the attempt, and waits for other writers if necessary. When its
// error is nil, the object was checked after every row that the attempt has found.
func (a *attempt) acquire(ctx context.Context) (*hold, error) {
	var over *Row  // the row to take over; nil: insert
	again := false // check again before the operation
	renewed := 0
	for turn := 1; ; turn++ {
		// After two turns, rows change while this attempt reads them.
		if turn > 2 && backoff.Sleep(ctx, rand.N(TestInterval)) != nil {
			return nil, store.MarkNotApplied(fmt.Errorf("reserving %q: %w", a.key, store.Cause(ctx)))
		}
		held, err := a.put(ctx, over)
		var met *ConflictError
		switch {
		case errors.As(err, &met) && over != nil && met.Row == *over:
			return nil, store.MarkNotApplied(fmt.Errorf("reserving %q: %w: the table refuses to replace a row, although the row has not changed", a.key, store.ErrUnsafe))
		case errors.As(err, &met) && !met.HasRow:
			over = nil // the table has removed the row: insert again
			continue
		case errors.As(err, &met) && met.Row.Version != a.version:
			// The table has no row for the state of this attempt, but may have had one. If the
			// object is in that state now, it stays there until the rows of the key change.
			if err := a.check(ctx); err != nil {
				return nil, err
			}
			over, again = &met.Row, false
			continue
		case errors.As(err, &met):
			again, turn = true, 0
			if over, err = a.meet(ctx, met.Row); err != nil {
				return nil, err
			}
			continue
		case errors.Is(err, store.ErrUnavailable) && over == nil && again && ctx.Err() == nil:
			// The row that the attempt waits for could not be read.
			turn = 0
			if over, err = a.wait(ctx); err != nil {
				return nil, err
			}
			continue
		case err != nil:
			return nil, err
		}
		if again || a.checked.Until(a.r.read()) > a.r.o.Timeout {
			if err := a.check(ctx); err != nil {
				a.release(ctx, held.Row)
				return nil, err
			}
			again = false
		}
		if a.r.left(held) > a.r.o.Timeout/2 && !a.endangered(held.Row) {
			return held, nil
		}
		if renewed++; renewed > renewals {
			a.release(ctx, held.Row)
			return nil, store.MarkNotApplied(fmt.Errorf("%w: a write to the table of reservations takes more than half of the timeout (%v); use a longer Options.Timeout", store.ErrUnavailable, a.r.o.Timeout))
		}
		over, again = &held.Row, true
	}
}

// meet notes the row that another writer has, and waits; see wait.
func (a *attempt) meet(ctx context.Context, met Row) (over *Row, err error) {
	same := a.entry.seen.Row
	if same.Tag = met.Tag; same == met {
		a.entry.seen.Row = met
	} else {
		a.entry.seen = row{met, time.Now(), a.r.polls(a.r.waitOf(met))}
		a.r.o.Logger.Debug("waiting for the reservation of another writer", "key", a.key, "version", a.version, "generation", met.Generation, "timeout", met.Timeout)
	}
	return a.wait(ctx)
}

// put writes a row of this attempt: in the place of over, or as an insertion if over is nil.
// It sends a write that got no answer again. A *ConflictError has the row of another writer.
func (a *attempt) put(ctx context.Context, over *Row) (*hold, error) {
	mine := Row{Key: a.key, Version: a.version, Generation: a.generation(over), Timeout: a.r.o.Timeout, TTL: a.ttl(), Nonce: a.nonce}
	held := &hold{sent: time.Now(), clock: a.r.read()}
	lost := false // a try may have been applied
	for try := 1; ; try++ {
		placed, err := a.send(ctx, over, mine)
		var met *ConflictError
		if errors.As(err, &met) && met.HasRow && met.Row.Nonce == a.nonce && met.Row.Generation == mine.Generation {
			placed, err = WriteResult{Tag: met.Row.Tag, Now: placed.Now}, nil // an earlier try was applied
		}
		if err == nil {
			if !placed.Now.IsZero() {
				a.r.ahead.Store(int64(placed.Now.Sub(time.Now().Round(0)))) // by how much the table's clock is
			}
			mine.Tag = placed.Tag
			held.Row = mine
			return held, nil
		}
		if met != nil {
			return nil, err
		}
		unknown := store.OutcomeOf(err) == store.Unknown
		lost = lost || unknown
		again := unknown || errors.Is(err, store.ErrUnavailable)
		if again && try < writeTries && backoff.Sleep(ctx, backoff.Pause(try, TestInterval/2, time.Second)) == nil {
			continue
		}
		if lost {
			// Other writers need not wait for a row that no operation follows.
			a.entry.spent = a.nonce
			a.release(ctx, mine)
		}
		return nil, store.MarkNotApplied(fmt.Errorf("reserving %q: %w", a.key, err))
	}
}

func (a *attempt) send(ctx context.Context, over *Row, mine Row) (WriteResult, error) {
	if over == nil {
		return a.r.table.Insert(ctx, mine)
	}
	return a.r.table.Replace(ctx, *over, mine)
}

// release changes a row so that every writer may take it over at once. Its operation was
// certainly not applied, or is over. release also works when ctx has ended. If its reply is
// lost, other writers wait for the row; only this Reserver knows that it need not.
func (a *attempt) release(ctx context.Context, held Row) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()
	free := held
	free.Generation, free.Timeout, free.TTL, free.Tag = a.generation(&held), 0, a.ttl(), ""
	for try := 1; ; try++ {
		_, err := a.r.table.Replace(ctx, held, free)
		var met *ConflictError
		if err == nil || errors.As(err, &met) || store.Permanent(err) || try == writeTries || backoff.Sleep(ctx, TestInterval/2) != nil {
			a.r.o.Logger.Debug("released the reservation", "key", a.key, "version", a.version, "error", err)
			return
		}
	}
}

// The generation of a row that this package inserts is a random number between the first two:
// so no row looks like one that a waiter saw before the table removed it. object_store
// begins at 0, and panics at the end of 64 bits.
const (
	firstGeneration = 1 << 32
	endGeneration   = 1 << 62
	maxGeneration   = 1<<63 - 1
)

// generation returns that of the row which follows over, or of the first one.
func (a *attempt) generation(over *Row) uint64 {
	if over != nil && over.Generation < maxGeneration {
		return over.Generation + 1
	}
	return firstGeneration + rand.Uint64N(endGeneration-firstGeneration)
}

// ttl is the TTL of a row that is written now. It is by the table's clock where that is ahead
// of this machine's: otherwise the table would remove the row of a machine with a slow clock
// too early.
func (a *attempt) ttl() int64 {
	return time.Now().Add(max(0, time.Duration(a.r.ahead.Load()))).Add(a.r.o.TTL).Unix()
}

// endangered reports whether the table may remove a row while others wait for it.
func (a *attempt) endangered(held Row) bool {
	now := time.Now().Add(max(0, time.Duration(a.r.ahead.Load())))
	return time.Unix(held.TTL, 0).Before(now.Add(a.r.waitOf(held) + ttlSlack/2))
}
