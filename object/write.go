package object

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/store"
)

// state is what a write expects to find.
type state struct {
	any    bool // whatever is there
	absent bool
	info   Info // otherwise this state; its write info may not be known
}

// stateOf returns the state that info describes.
func stateOf(info Info) state { return state{info: info} }

// version is that of the state; empty where there is no object, or may be any.
func (s state) version() Version { return s.info.Version }

// condition is the condition of one request.
type condition struct {
	ifAbsent bool
	ifMatch  Version
}

func (s state) condition() condition {
	return condition{ifAbsent: s.absent, ifMatch: s.version()}
}

// current returns the state of an object. A tombstone is a state.
func (c *Client) current(ctx context.Context, key string) (state, error) {
	info, err := c.stat(ctx, key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return state{absent: true}, nil
	case err != nil:
		return state{}, err
	}
	return stateOf(info), nil
}

// resolution resolves the write with this id on the state on, from the current state of the
// object. No other function of this package decides that for a write that leaves an object.
func (c *Client) resolution(now, on state, id string) store.Resolution {
	s := now.info.WriteInfo
	switch {
	case now.absent:
		return store.ResolutionUnknown // the write may have created it, and another deleted it
	case s.ID == id && id != "":
		return store.ResolutionApplied
	case slices.Contains(s.Previous, id):
		return store.ResolutionSuperseded
	case on.any || on.absent:
		return store.ResolutionUnknown
	case c.same(now, on):
		return store.ResolutionPending
	case c.fencing && on.info.WriteInfo.ID != "" && slices.Contains(s.Previous, on.info.WriteInfo.ID):
		return store.ResolutionNotApplied // another write has replaced the state
	}
	return store.ResolutionUnknown
}

// same reports whether two states of an object are certainly the same. Where equal bodies
// have equal versions, only the ids of writes show it.
func (c *Client) same(a, b state) bool {
	if a.absent || b.absent || a.version() != b.version() {
		return false
	}
	return c.fencing || a.info.WriteInfo.ID != "" && a.info.WriteInfo.ID == b.info.WriteInfo.ID
}

// write is one write in progress that leaves an object: a put, a copy, a tombstone.
type write struct {
	c   *Client
	key string
	o   WriteOptions

	deleted bool // it leaves a tombstone
	resumes bool // its write info was made when the upload began

	// choose returns how to send a request with this condition.
	choose func(context.Context, condition) (way, error)

	// send sends one request.
	send func(ctx context.Context, by way, on condition, metadata map[string]string) (Info, error)

	// rewind makes another try possible; it reports whether that worked.
	rewind func() bool

	// blame returns the error if the store refused the condition although the object is in
	// the state that it names; nil to send the write again.
	blame func() error
}

// run sends the write until its outcome is known, or cannot become known.
func (w *write) run(ctx context.Context) (Info, error) {
	if err := store.CheckContext(ctx); err != nil {
		return Info{}, err
	}
	if w.o.Fence != nil && !w.c.fencing {
		return Info{}, &UnsupportedError{Ability: Fenced, Found: "on this store equal bodies have equal versions; use a bucket of package indexbucket"}
	}
	var met *state // the tombstone that a create has found
	for try := 1; ; try++ {
		on, err := w.expected(ctx, met)
		if err != nil {
			return Info{}, store.MarkNotApplied(err)
		}
		info, now, err := w.attempt(ctx, on)
		if err == nil || store.OutcomeOf(err) != store.NotApplied || !errors.Is(err, store.ErrConflict) {
			return info, err
		}
		// The caller's own condition may still hold.
		met = nil
		switch {
		case w.o.IfAbsent && now != nil && now.info.WriteInfo.Deleted:
			met = now
		case w.o.IfAbsent || w.o.IfMatch != "" || w.o.Base != nil || ofAnother(err, w.key):
			return Info{}, err
		}
		if !w.rewind() || !sleep(ctx, w.c.o.pause, try) {
			return Info{}, err
		}
	}
}

// expected returns the state that the write is to replace, after a check of its fence. It
// reads the object if that is necessary.
func (w *write) expected(ctx context.Context, met *state) (state, error) {
	on := state{any: true}
	switch {
	case met != nil:
		on = *met
	case w.o.Base != nil:
		on = stateOf(*w.o.Base)
		on.info = recalled(on.info)
	case w.o.IfAbsent:
		on = state{absent: true}
	case w.o.IfMatch != "":
		on = stateOf(Info{Version: w.o.IfMatch})
	}
	// The write info is needed for the fence, and because the write info of this write names
	// the writes before it. A delete leaves none.
	if !on.absent && !on.info.WriteInfo.known && (w.c.fencing || w.o.IfMatch != "" && w.choose != nil) {
		if w.choose != nil {
			if _, err := w.choose(ctx, on.condition()); err != nil {
				return on, err
			}
		}
		now, err := w.c.current(ctx, w.key)
		if err != nil {
			return on, err
		}
		if !on.any && now.version() != on.version() {
			return on, &ConflictError{Key: w.key, HasCurrent: true, Version: now.version()}
		}
		on = now
	}
	if w.c.fencing && w.resumes && !slices.Equal(w.o.writeInfo.Previous, on.info.WriteInfo.idsForNext()) {
		// The object would name neither the writes since then nor their fence.
		return on, &ConflictError{Key: w.key}
	}
	if w.o.Force || on.absent || !on.info.WriteInfo.known {
		return on, nil
	}
	return on, on.info.WriteInfo.allows(w.key, w.o.Fence)
}

// writeInfo returns the write info of the write if it replaces the state on.
func (w *write) writeInfo(on state) WriteInfo {
	if w.o.writeInfo != nil {
		return *w.o.writeInfo
	}
	s := WriteInfo{
		ID: newID(), Previous: on.info.WriteInfo.idsForNext(), Fence: w.o.Fence, Deleted: w.deleted,
		From: w.o.from, own: w.o.own, known: true,
	}
	if s.Fence == nil && !on.info.WriteInfo.damaged {
		s.Fence = on.info.WriteInfo.Fence // of a forced write: otherwise there is none
	}
	return s
}

// attempt writes on the state on, and finds the outcome. With a conflict it also returns the
// state that it found, if that is known.
func (w *write) attempt(ctx context.Context, on state) (Info, *state, error) {
	by, err := w.choose(ctx, on.condition())
	if err != nil {
		return Info{}, nil, store.MarkNotApplied(err)
	}
	if w.o.Fence != nil && !by.own {
		return Info{}, nil, &UnsupportedError{Ability: Fenced, Found: "the store does not check the condition, so it could not refuse a late write"}
	}
	a := &attempt{write: w, on: on, by: by, writeInfo: w.writeInfo(on)}
	if by.strategy != StrategyReservation {
		info, err := a.run(ctx, ctx)
		return info, a.met, err
	}
	var info Info
	err = w.c.reserve(ctx, w.key, on, func(reserved context.Context) (err error) {
		info, err = a.run(ctx, reserved)
		return err
	})
	if err != nil && info.Key != "" { // an error of the Reserver
		return Info{}, a.met, a.failed(err)
	}
	return info, a.met, err
}

// run sends the write until its outcome is known, or cannot become known. It sends within
// the context sending, and finds out within ctx, which may last longer.
func (a *attempt) run(ctx, sending context.Context) (Info, error) {
	for try := 1; ; try++ {
		info, err := a.send(sending)
		if err == nil {
			return a.made(info), nil
		}
		info, again, err := a.resolve(ctx, err)
		if !again {
			return info, err
		}
		if try >= a.c.o.tries || !a.rewind() || !sleep(sending, a.c.o.pause, try) {
			return Info{}, a.failed(err)
		}
	}
}

// attempt is one write on one state, which may be sent several times.
type attempt struct {
	*write
	on        state
	by        way
	writeInfo WriteInfo

	lost error  // of the last try whose outcome is not known
	met  *state // what the last read has found
}

// made describes what the write made.
func (a *attempt) made(info Info) Info {
	info.Key, info.WriteInfo = a.key, a.writeInfo
	info.Metadata, info.ContentType, info.Headers = maps.Clone(a.o.Metadata), cmp.Or(a.o.ContentType, info.ContentType, "application/octet-stream"), a.o.Headers
	return info
}

// send sends the write once.
func (a *attempt) send(ctx context.Context) (Info, error) {
	on := a.on.condition()
	if !a.by.own {
		on = condition{}
	}
	info, err := a.write.send(ctx, a.by, on, a.writeInfo.metadata(a.o.Metadata))
	return info, bare(err)
}

// resolve finds the outcome of a try that failed with cause. It reports whether to send the
// write again; then err is the error to return if that is not possible.
func (a *attempt) resolve(ctx context.Context, cause error) (info Info, again bool, err error) {
	certain := store.OutcomeOf(cause) == store.NotApplied
	busy := certain && errors.Is(cause, ErrBusy)
	conflict := certain && !busy && errors.Is(cause, store.ErrConflict)
	switch {
	case busy && !errors.As(cause, new(*UnfinishedError)): // that one is to be resumed
		return Info{}, true, cause
	case certain && !conflict:
		return Info{}, false, a.failed(cause)
	case !certain:
		a.lost = cause
	}
	now, err := a.c.readState(ctx, a.key)
	if err != nil {
		if a.lost == nil {
			a.lost = errors.New("the server refused the condition of the write")
		}
		return Info{}, false, a.failed(fmt.Errorf("the client could not read the object to find the outcome: %w", err))
	}
	a.met = &now
	switch a.c.resolution(now, a.on, a.writeInfo.ID) {
	case store.ResolutionApplied:
		a.c.o.Logger.Debug("the reply to a write was lost, but the write was applied", "key", a.key)
		return now.info, false, nil
	case store.ResolutionSuperseded:
		a.c.o.Logger.Debug("the reply to a write was lost; the write was applied, and other writes followed", "key", a.key)
		return a.made(Info{}), false, nil
	case store.ResolutionNotApplied:
		if a.by.own {
			a.lost = nil // the store refuses what comes late
		}
	case store.ResolutionPending:
		return a.notYet(cause, conflict)
	}
	if a.lost != nil {
		return Info{}, false, a.failed(errors.New("the object does not show whether the write was applied"))
	}
	if a.blame != nil && (a.on.any || a.on.absent && now.absent) {
		if err := a.blame(); err != nil {
			return Info{}, false, err
		}
	}
	return Info{}, false, &ConflictError{Key: a.key, HasCurrent: !now.absent, Version: now.version()}
}

// ofAnother reports whether err is a conflict on another object: the source of a copy.
func ofAnother(err error, key string) bool {
	var conflict *ConflictError
	return errors.As(err, &conflict) && conflict.Key != key
}

// notYet handles a write whose state is still there: it was not applied yet.
func (a *attempt) notYet(cause error, conflict bool) (Info, bool, error) {
	if errors.As(cause, new(*UnfinishedError)) {
		return Info{}, false, a.failed(cause) // to be resumed
	}
	if conflict {
		if a.blame != nil && a.lost == nil {
			if err := a.blame(); err != nil {
				return Info{}, false, err
			}
		}
		cause = store.MarkNotApplied(fmt.Errorf("%w: the store refused a write although its condition is true", store.ErrUnsafe))
	}
	if !a.by.own && a.by.conditional {
		// The first try may take effect late, and overwrite what others commit meanwhile. A
		// second try would hide that.
		return Info{}, false, a.failed(cause)
	}
	return Info{}, true, cause
}

// failed returns err as the error of the write. If an earlier try may have been applied,
// the result says so, and does not match a conflict.
func (a *attempt) failed(err error) error {
	switch {
	case a.lost == nil && store.OutcomeOf(err) == store.NotApplied:
		return err
	case a.lost == nil || errors.Is(err, a.lost):
		return &store.InDoubtError{Version: store.Version(a.writeInfo.ID), Err: err}
	}
	return &store.InDoubtError{Version: store.Version(a.writeInfo.ID), Err: fmt.Errorf("%w; then: %v", a.lost, err)}
}

// readState reads the state of an object after a write whose outcome is not known, and tries
// again while the store does not answer.
func (c *Client) readState(ctx context.Context, key string) (state, error) {
	for try := 1; ; try++ {
		now, err := c.current(ctx, key)
		if err == nil || store.Permanent(err) || try >= c.o.tries || !sleep(ctx, c.o.pause, try) {
			return now, err
		}
	}
}

// sleep waits for a random part of the pause before the try after this one. It returns
// false if the context ends.
func sleep(ctx context.Context, pause time.Duration, try int) bool {
	return backoff.Wait(ctx, try, pause, maxPause) == nil
}

// rising is p for a body that may be sent several times: the numbers that p gets never fall.
func (p Progress) rising() Progress {
	if p == nil {
		return nil
	}
	top := int64(-1)
	return func(done, total int64) {
		if done > top {
			top = done
			p(done, total)
		}
	}
}

// keptBody is how much of a body that cannot be read again is kept in memory.
const keptBody = 1 << 20

// replay is a body that can be sent again, if possible.
type replay struct {
	body  io.Reader
	errs  *bodyErrors
	from  int64     // where it begins
	seek  io.Seeker // nil if it cannot be read again
	small bool      // at most keptBody bytes
}

func newReplay(body io.Reader) (*replay, error) {
	if body == nil {
		body = strings.NewReader("")
	}
	guarded, errs := guard(body)
	if seeker, ok := body.(io.Seeker); ok {
		if from, err := seeker.Seek(0, io.SeekCurrent); err == nil {
			if end, err := seeker.Seek(0, io.SeekEnd); err == nil {
				_, err = seeker.Seek(from, io.SeekStart)
				return &replay{body: guarded, errs: errs, from: from, seek: seeker, small: end-from <= keptBody}, err
			}
		}
	}
	first, err := io.ReadAll(io.LimitReader(body, keptBody+1))
	if err != nil {
		return nil, err
	}
	kept := strings.NewReader(string(first))
	if len(first) <= keptBody {
		return &replay{body: kept, errs: errs, seek: kept, small: true}, nil
	}
	return &replay{body: io.MultiReader(kept, guarded), errs: errs}, nil
}

// bodyErrors hides what the errors of a body match, until the write is over. The client would take them for
// answers of the store.
type bodyErrors struct {
	io.Reader
	shown atomic.Bool
}

// guard returns the body with such errors. A body in memory, which has none, stays as it is.
func guard(body io.Reader) (io.Reader, *bodyErrors) {
	errs := &bodyErrors{Reader: body}
	if _, memory := body.(interface{ Len() int }); memory || body == nil {
		return body, errs
	}
	return errs, errs
}

func (b *bodyErrors) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = &bodyError{b, err}
	}
	return n, err
}

// show makes the errors match again what they matched.
func (b *bodyErrors) show() { b.shown.Store(true) }

type bodyError struct {
	of  *bodyErrors
	err error
}

func (e *bodyError) Error() string { return e.err.Error() }

func (e *bodyError) Unwrap() error {
	if e.of.shown.Load() {
		return e.err
	}
	return nil
}

// rewind makes the body begin again. It reports whether that worked.
func (r *replay) rewind() bool {
	if r.seek == nil {
		return false
	}
	_, err := r.seek.Seek(r.from, io.SeekStart)
	return err == nil
}
