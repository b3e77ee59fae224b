package holding

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/lease"
)

// Bounds of hold --commands. A line has room for the largest data, each byte of it escaped.
const (
	maxLine   = 256 << 10 // bytes of a line of its input
	maxID     = 100       // bytes of an id
	maxClaims = 100_000   // locks held, and waits for one, at the same time
	maxUnread = 200_000   // lines that the reader of its output has not taken
	readFor   = 5 * time.Second
)

// lineHolder holds any number of locks, under one session, for the program that writes its
// input.
type lineHolder struct {
	ctx     context.Context
	client  *lease.Client
	session *lease.Session
	wait    time.Duration // of an acquire that names none; negative: for ever
	url     string        // of the store
	out     *output.Queue

	mu     sync.Mutex
	claims map[string]*claim // by the id that the caller chose
	bad    bool              // a line was refused
	wg     sync.WaitGroup    // of commands in progress
}

// claim is a lock that hold --commands holds, or waits for.
type claim struct {
	id, lock  string
	command   string                  // that made it: acquire or try
	cancel    context.CancelCauseFunc // ends the wait
	guard     *lease.Guard            // nil while it waits
	storing   chan struct{}           // while its record is being written; closed at its end
	releasing bool
	over      bool // its end was written
}

// errGivenUp ends the wait for a lock that its caller releases before it has it.
var errGivenUp = errors.New("released before it was held")

// holdLines holds the locks that lines of the input name, until the input ends.
func (a *access) holdLines(ctx context.Context, f *runFlags) error {
	if f.once {
		f.wait = 0
	}
	a.QueueMessages()
	asked, cancel := cmdline.UntilSignal(ctx)
	defer cancel()
	h := &lineHolder{ctx: ctx, wait: f.wait, out: output.NewQueue(a.Stdout, maxUnread), claims: map[string]*claim{}}
	f.Events, f.ReportsWaits = h.event, true
	client, st, err := a.Client(ctx, a.StoreURL, &f.Flags)
	if err != nil {
		return err
	}
	defer st.Close()
	h.client, h.url = client, st.URL
	h.session, err = client.OpenSession(asked)
	if err != nil && asked.Err() != nil {
		a.Notef("ended by a signal: no lock was taken")
		return nil
	}
	if err != nil {
		return err
	}
	options := client.Options()
	h.put(holdLine{
		Event: "ready", Store: st.URL, Session: h.session.ID(),
		TTL: options.TTL.Milliseconds(), Grace: max(options.Grace, 0).Milliseconds(),
	})

	stopped := make(chan struct{})
	defer close(stopped)
	lines := readLines(a.Stdin, stopped)
	closed := holdLine{Event: "closed"}
	for open := true; open; {
		select {
		case line := <-lines:
			open = h.obey(line, &closed)
		case <-asked.Done():
			open = false
		case <-h.session.Context().Done():
			open = false // all locks are lost
		case <-h.out.Failed:
			open = false // what the reader does not learn of is not held either
		}
	}
	err = h.end()
	closed.Error, closed.Kind = output.OneLine(err), exit.Kinds[exit.Status(err)]
	h.put(closed)
	if outErr := h.out.Flush(readFor); outErr != nil {
		return outErr
	}
	if err == nil && h.bad {
		err = exit.Usagef("hold refused a line of the input: see the event \"invalid\" in the output")
	}
	return err
}

// obey carries out one line. It returns whether more are to come. If the line is a close, it
// puts the id of that into the last line of the output.
func (h *lineHolder) obey(line inputLine, closed *holdLine) (more bool) {
	if line.err == nil && len(bytes.TrimSpace(line.text)) == 0 {
		return !line.last
	}
	c, err := lineCommand{}, line.err
	if err == nil {
		c, err = parseLine(line.text)
	}
	if err == nil && c.Command == "close" {
		closed.ID = c.ID
		return false
	}
	if err == nil {
		err = h.carryOut(c)
	}
	if err != nil {
		h.bad = true
		h.put(holdLine{Event: "invalid", Line: line.number, ID: c.ID, Kind: exit.Kinds[exit.Usage], Error: output.OneLine(err)})
	}
	return !line.last
}

// carryOut begins what a line asks for. It waits for no store.
func (h *lineHolder) carryOut(c lineCommand) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	claimed := h.claims[c.ID]
	switch {
	case c.Command == "acquire" || c.Command == "try":
		if claimed != nil {
			return fmt.Errorf("the id %q is already in use for lock %q", c.ID, claimed.lock)
		}
		if len(h.claims) >= maxClaims {
			return fmt.Errorf("hold already holds or waits for %d locks: release some of them first", maxClaims)
		}
		wait := h.wait
		switch {
		case c.Command == "try":
			wait = 0
		case c.WaitMS != nil:
			wait = time.Duration(*c.WaitMS) * time.Millisecond
		}
		ctx, cancel := context.WithCancelCause(h.ctx)
		claimed = &claim{id: c.ID, lock: c.Lock, command: c.Command, cancel: cancel}
		h.claims[c.ID] = claimed
		beside := &lease.LockOptions{Shared: c.Shared, Fair: c.Fair}
		if c.Slots != nil {
			beside.Slots = *c.Slots
		}
		h.wg.Go(func() { h.take(ctx, claimed, beside, wait) })
	case claimed == nil:
		h.failed(c.Command, &claim{id: c.ID}, exit.With(exit.NotFound, fmt.Errorf("no lock has the id %q: it was never acquired, or it was lost or released", c.ID)))
	case claimed.releasing:
		h.failed(c.Command, claimed, exit.With(exit.Condition, fmt.Errorf("lock %q is being released", claimed.lock)))
	case c.Command == "release":
		h.release(claimed)
	case claimed.guard == nil:
		h.failed(c.Command, claimed, exit.With(exit.Condition, fmt.Errorf("lock %q is not held yet", claimed.lock)))
	case claimed.storing != nil:
		h.failed(c.Command, claimed, exit.With(exit.Condition, fmt.Errorf("an earlier command still writes to the record of lock %q: wait for the answer to that command", claimed.lock)))
	case c.Command == "refuse":
		reason := ""
		if c.Reason != nil {
			reason = *c.Reason
		}
		h.write(claimed, c.Command, "refused", func(g *lease.Guard) error { return g.RefuseYield(h.ctx, reason) })
	default:
		data := c.Base64
		if c.Data != nil {
			data = []byte(*c.Data)
		}
		h.write(claimed, c.Command, "stored", func(g *lease.Guard) error { return g.SetData(h.ctx, data) })
	}
	return nil
}

// take takes a lock, and writes the result.
func (h *lineHolder) take(ctx context.Context, c *claim, beside *lease.LockOptions, wait time.Duration) {
	defer c.cancel(nil)
	guard, err := h.acquire(ctx, c, beside, wait)
	var held *lease.HeldError
	by := ""
	if errors.As(err, &held) {
		by = leases.HoldersOf(h.ctx, h.client, held.Record)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.releasing { // the caller has given it up meanwhile
		h.wg.Go(func() { h.free(c, guard) })
		return
	}
	if err == nil {
		c.guard = guard
		h.print(c, holdLine{Event: "held", Slot: guard.Slot(), Deadline: guard.Deadline()})
		context.AfterFunc(guard.Context(), func() { h.lost(c) })
		return
	}
	c.over = true
	delete(h.claims, c.id)
	line := holdLine{Event: "failed", Command: c.command, Error: output.OneLine(err), Kind: exit.Kinds[exit.Status(err)]}
	if held != nil {
		line.Event, line.Command = "busy", ""
		line.Holder, line.Token = by, held.Record.Token
	}
	h.print(c, line)
}

func (h *lineHolder) acquire(ctx context.Context, c *claim, beside *lease.LockOptions, wait time.Duration) (*lease.Guard, error) {
	if err := leases.HeldAround(ctx, h.client, h.url, c.lock); err != nil {
		return nil, err
	}
	handle, err := h.session.Handle(c.lock, beside)
	if err != nil {
		return nil, err
	}
	if wait == 0 {
		return handle.TryAcquire(ctx)
	}
	if wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, wait, &leases.WaitedError{Limit: wait})
		defer cancel()
	}
	return handle.Acquire(ctx)
}

// lost writes that a lock was lost. Its id is free from then on.
func (h *lineHolder) lost(c *claim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !c.releasing {
		c.releasing = true
		h.ended(c, c.guard.Err())
		h.wg.Go(func() { _ = c.guard.Release(h.ctx) }) // it waits for the guard's goroutine
	}
}

// release begins to end a claim. The caller holds the mutex.
func (h *lineHolder) release(c *claim) {
	c.releasing = true
	c.cancel(errGivenUp)
	if c.guard != nil { // else take continues
		h.wg.Go(func() { h.free(c, c.guard) })
	}
}

// free releases the guard of a claim, if it has one, and writes the end.
func (h *lineHolder) free(c *claim, guard *lease.Guard) {
	var err error
	if guard != nil {
		err = guard.Release(h.ctx)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	c.guard = guard
	if storing := c.storing; storing != nil { // its outcome is written first
		h.mu.Unlock()
		<-storing
		h.mu.Lock()
	}
	h.ended(c, err)
}

// ended writes the end of a claim, and its error. The caller holds the
// mutex.
func (h *lineHolder) ended(c *claim, err error) {
	c.over = true
	delete(h.claims, c.id)
	line := holdLine{Event: "released", Error: output.OneLine(err), Kind: exit.Kinds[exit.Status(err)]}
	if errors.Is(err, lease.ErrLost) {
		line.Event, line.Grace = "lost", c.guard.GraceRemaining().Milliseconds()
	}
	h.print(c, line)
}

// write begins to write into the record of a lock, and writes the result. The caller
// holds the mutex.
func (h *lineHolder) write(c *claim, command, done string, write func(*lease.Guard) error) {
	c.storing = make(chan struct{})
	h.wg.Go(func() {
		err := write(c.guard)
		h.mu.Lock()
		defer h.mu.Unlock()
		close(c.storing)
		c.storing = nil
		switch {
		case c.over, errors.Is(err, lease.ErrLost): // the end of the claim is the answer
		case err != nil:
			h.failed(command, c, err)
		default:
			h.print(c, holdLine{Event: done, Deadline: c.guard.Deadline()})
		}
	})
}

func (h *lineHolder) failed(command string, c *claim, err error) {
	h.print(c, holdLine{Event: "failed", Command: command, Error: output.OneLine(err), Kind: exit.Kinds[exit.Status(err)]})
}

// print prints a line about a claim.
func (h *lineHolder) print(c *claim, line holdLine) {
	line.ID, line.Lock = c.id, c.lock
	if c.guard != nil {
		line.Token = c.guard.Token()
	}
	h.put(line)
}

// put writes a line, and does not wait for its reader.
func (h *lineHolder) put(line holdLine) {
	line.Time, line.Deadline = time.Now().UTC(), line.Deadline.UTC()
	_ = printable.JSON(h.out).Encode(line) // if it fails, holdLines ends
}

// event writes events of the session, whose deadline is that of all locks, and requests to yield.
func (h *lineHolder) event(e lease.Event) {
	switch {
	case e.Kind == lease.EventYieldRequested:
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, c := range h.claims {
			if c.lock == e.Name && c.guard != nil && c.guard.Token() == e.Token {
				h.print(c, holdLine{Event: "yield_requested", By: e.Holder, Reason: e.Reason})
			}
		}
	case e.Session == "" || e.Name != "":
	case e.Kind == lease.EventRenewed:
		h.put(holdLine{Event: "renewed", Deadline: e.Deadline})
	case e.Kind == lease.EventAtRisk:
		h.put(holdLine{Event: "at_risk", Deadline: e.Deadline, Error: output.OneLine(e.Err)})
	}
}

// end releases all locks, and writes an event for each.
func (h *lineHolder) end() error {
	h.mu.Lock()
	var held []*claim
	for _, c := range h.claims {
		if !c.releasing {
			c.releasing = true
			c.cancel(errGivenUp)
			if c.guard != nil {
				held = append(held, c)
			}
		}
	}
	h.mu.Unlock()
	err := h.session.Close(h.ctx)
	for _, c := range held {
		h.free(c, c.guard) // the session has freed it: this writes with which outcome
	}
	h.wg.Wait()
	return err
}
