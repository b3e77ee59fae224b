package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// MaxRetries is the largest value of [LockOptions.Retries].
	MaxRetries = 1000

	// maxClockSkew is how far the beginning of a run may be ahead of another machine's clock
	// before that machine takes one of the two clocks for wrong; see [ErrRunInFuture].
	maxClockSkew = 5 * time.Minute

	// maxRunError bounds the text of [Run.Error], in bytes.
	maxRunError = 256
)

// OnceResult is the result of [Client.Once].
type OnceResult struct {
	// Ran reports whether this call has run the function.
	Ran bool

	// Last is the run of this call. If this call has not run the function, Last is the
	// earlier run that it found.
	Last Run
}

// AlreadyRanError says that a job has already run in this period. It matches [ErrAlreadyRan].
type AlreadyRanError struct {
	Name  string
	Token uint64 // token of the lock; to let the job run again, pass it to [Client.Break]
	Last  Run

	// Ahead is set if the run began in a later period, and more than 5 minutes after the present
	// time of this machine's clock. Then Ahead is the time from now to the beginning of the run,
	// and the error also matches [ErrRunInFuture]. Otherwise Ahead is zero.
	Ahead time.Duration
}

func (e *AlreadyRanError) Error() string {
	r := e.Last
	if e.Ahead > 0 {
		return fmt.Sprintf("job %q: the last run began at %s (holder %s), %v after the present time of this machine; correct the clock that is wrong, or break the lock",
			e.Name, r.Began.Format(time.RFC3339), r.Holder, e.Ahead.Round(time.Second))
	}
	end := ""
	if !r.Ended.IsZero() {
		end = " at " + r.Ended.Format(time.RFC3339)
	}
	s := fmt.Sprintf("job %q has already run in this period: %s%s (%s)", e.Name, r.Outcome, end, r.Holder)
	if r.Outcome != RunDone {
		s += fmt.Sprintf(", tries so far: %d; the next period begins at %s", r.Attempts, r.PeriodEnd.Format(time.RFC3339))
	}
	return s
}

func (e *AlreadyRanError) Unwrap() []error {
	if e.Ahead > 0 {
		return []error{ErrAlreadyRan, ErrRunInFuture}
	}
	return []error{ErrAlreadyRan}
}

// Outcome returns NotApplied.
func (e *AlreadyRanError) Outcome() store.Outcome { return store.NotApplied }

// Once runs f under the lock with the given name, unless the job of that name has already run in
// this period on any machine. It does the same as [Handle.Do] on a handle with
// [LockOptions.Period]. If the job runs now on another machine, Once waits for the lock. If that
// run dies, Once runs f, if LockOptions.Retries allows it. With NoWait, Once does not wait: if the
// job runs now, the error is a [*HeldError].
//
// If the job has already run, or if no retry of a failed run is left, the error is nil,
// OnceResult.Ran is false, and OnceResult.Last is the last run. If the last run is in the future, f
// does not run, and the error matches [ErrRunInFuture]. Every other error is an error of Handle.Do;
// OnceResult.Ran says whether f has run. If the wait lasts until the next period, f runs in that
// period. If the end of a run could not be written (an error that matches [ErrLost] or
// [ErrReleaseFailed]), the outcome of the run is RunDied. To limit the time of f, give f a context
// with a timeout.
//
// If the job has already run, the call sends one read, or two if that run died. If the call runs f,
// it sends three requests (a read, the grant, the release) and the renewals.
func (c *Client) Once(ctx context.Context, name string, period Period, f func(ctx context.Context, g *Guard) error, o *LockOptions) (OnceResult, error) {
	own := *cmp.Or(o, &LockOptions{})
	if own.Period != (Period{}) {
		return OnceResult{}, fmt.Errorf("%w: lock %q: the function Once takes the period as an argument; leave LockOptions.Period empty", store.ErrInvalid, name)
	}
	if err := period.check(); err != nil {
		return OnceResult{}, err
	}
	own.Period = period
	h, err := c.handle(name, nil, &own, methodOnce)
	if err != nil {
		return OnceResult{}, err
	}
	guard, err := own.acquire(h, ctx)
	if ran := (*AlreadyRanError)(nil); errors.As(err, &ran) {
		if ran.Ahead == 0 {
			err = nil
		}
		return OnceResult{Last: ran.Last}, err
	}
	if err != nil {
		return OnceResult{}, err
	}
	err = guard.do(ctx, f)
	return OnceResult{Ran: true, Last: guard.b.Grant().LastRun()}, err
}

// SetRunResult sets the outcome that the release of this grant writes for the run. A nil err means
// [RunDone], and any other err means [RunFailed]. The last call before the release counts. If the
// grant is not a run (see [LockOptions].Period), the call has no effect.
func (g *Guard) SetRunResult(err error) {
	end := &Run{Ended: g.h.space().Clock.Wall().UTC(), Outcome: RunDone}
	if err != nil {
		end.Outcome, end.Error = RunFailed, shorten(err.Error())
	}
	g.b.Grant().SetRunResult(end)
}

// shorten cuts the text of an error to what a record keeps.
func shorten(text string) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	if len(text) <= maxRunError {
		return text
	}
	cut := maxRunError - len("...")
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "..."
}

// job is what a handle with [LockOptions.Period] knows. Like an attempt it is used by one
// goroutine at a time.
type job struct {
	h       *Handle
	period  Period
	retries int
	last    *Run            // the one before next
	next    *Run            // the run that an attempt begins
	before  map[string]*Run // by the grants that this handle has claimed: the run before
}

// Due returns nil if a run may begin in the state s, where open reports whether the lock can be
// taken, or if the last one may still continue. The claim that follows is conditional on s. That
// the job ran already rests on no state that may later turn out never to have taken effect. Nor does
// it rest on the record of a holder that is dead now: the holder can have ended the run after the read.
func (j *job) Due(ctx context.Context, s *cell.Seen, open bool) error {
	err := j.dueIn(s, open)
	if dead := open && s.Rec != nil && s.Rec.State != Free; err == nil || !j.h.space().Set.Traits.Delayed() && !dead {
		return err
	}
	final, unread := j.h.k.Cell.Fetch(ctx)
	if unread != nil {
		return unread
	}
	return j.dueIn(final, open && final.Version == s.Version)
}

func (j *job) dueIn(s *cell.Seen, open bool) error {
	h, now := j.h, j.h.space().Clock.Wall().Round(0).UTC()
	start, end := j.period.At(now)
	j.last = j.lastRun(s.Rec)
	j.next = &Run{Period: j.period.String(), Began: now, PeriodEnd: end.UTC(), Outcome: RunRunning, Holder: h.space().Set.Holder}
	if lockrec.Due(j.next, j.last, start, j.retries, open) {
		return nil
	}
	ran := &AlreadyRanError{Name: h.k.Name(), Token: s.Rec.Token, Last: *j.last}
	if ran.Last.Outcome == RunRunning {
		ran.Last.Outcome = RunDied
	}
	if ahead := ran.Last.Began.Sub(now); ahead > maxClockSkew && !ran.Last.Began.Before(end) {
		ran.Ahead = ahead
	}
	return ran
}

// lastRun returns the last run in a record. The claims of this handle that came to nothing
// were none.
func (j *job) lastRun(r *Record) *Run {
	if r == nil {
		return nil
	}
	run := r.Run
	for run != nil && j.h.k.IsAbandoned(run.Grant) {
		run = j.before[run.Grant]
	}
	return run
}

// Begin puts the run that the handle begins into the record of its grant.
func (j *job) Begin(rec *Record) {
	run := *j.next
	run.Grant = rec.Grant
	rec.Run = &run
	if len(j.before) > 100 { // as many as a handle remembers of grants that it gave up
		clear(j.before)
	}
	j.before[rec.Grant] = j.last
}

// Before returns the run before that of a grant of this handle.
func (j *job) Before(grant string) *Run { return j.before[grant] }
