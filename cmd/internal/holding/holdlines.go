package holding

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf16"
	"unicode/utf8"

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

// lineCommand is one line of the input of hold --commands. Its fields are stable.
type lineCommand struct {
	Command string // acquire, try, release, data, refuse or close
	ID      string
	Lock    string
	WaitMS  *int64
	Data    *string
	Base64  []byte
	Reason  *string
	Shared  bool
	Slots   *int
	Fair    bool
}

// lineHolder holds any number of locks, under one session, for the program that writes its
// input.
type lineHolder struct {
	ctx     context.Context
	client  *lease.Client
	session *lease.Session
	wait    time.Duration // of an acquire that names none; negative: for ever
	// around refuses a lock that an ancestor of this process holds.
	around func(name string) error
	out    *outbox

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
	asked, cancel := cmdline.UntilSignal(ctx)
	defer cancel()
	h := &lineHolder{ctx: ctx, wait: f.wait, out: newOutbox(a.Stdout), claims: map[string]*claim{}}
	f.Events, f.ReportsWaits = h.event, true
	client, st, err := a.Client(ctx, a.StoreURL, &f.Flags)
	if err != nil {
		return err
	}
	defer leases.Clients{{Client: client, Store: st}}.Close(ctx)
	h.client = client
	h.session, err = client.OpenSession(asked)
	if err != nil && asked.Err() != nil {
		a.Notef("ended by a signal: no lock was taken")
		return nil
	}
	if err != nil {
		return err
	}
	inherited := leases.InheritedLocks()
	h.around = func(name string) error { return leases.HeldAround(ctx, client, inherited, st.URL, name) }
	options := client.Options()
	h.out.put(holdLine{
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
		case <-h.out.failed:
			open = false // what the reader does not learn of is not held either
		}
	}
	err = h.end()
	if err != nil {
		closed.Error, closed.Kind = output.OneLine(err), exit.Kinds[exit.Status(err)]
	}
	h.out.put(closed)
	if outErr := h.out.close(readFor); outErr != nil {
		return outErr
	}
	if err == nil && h.bad {
		err = exit.Usagef("hold refused a line of the input: see the event \"invalid\" in the output")
	}
	return err
}

// inputLine is one line of the input. The last has no text.
type inputLine struct {
	number int
	text   []byte
	err    error // it cannot be read as a line
	last   bool  // the input has ended
}

// readLines sends the lines of r. It keeps at most [maxLine] bytes, however long a line is.
func readLines(r io.Reader, stop <-chan struct{}) <-chan inputLine {
	lines := make(chan inputLine)
	go func() {
		in := bufio.NewReaderSize(r, maxLine)
		for number := 1; ; number++ {
			text, err := in.ReadSlice('\n')
			line := inputLine{number: number, text: bytes.Clone(text)}
			for errors.Is(err, bufio.ErrBufferFull) {
				line.text, line.err = nil, fmt.Errorf("the line has more than %d bytes", maxLine)
				_, err = in.ReadSlice('\n')
			}
			if err != nil { // a read error ends the input, too
				line.last = true
				if len(bytes.TrimSpace(text)) > 0 {
					line.err = errors.New("the input ends in the middle of the line")
				}
			}
			select {
			case lines <- line:
			case <-stop:
				return
			}
			if line.last {
				return
			}
		}
	}()
	return lines
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
		h.out.put(holdLine{Event: "invalid", Line: line.number, ID: c.ID, Kind: exit.Kinds[exit.Usage], Error: output.OneLine(err)})
	}
	return !line.last
}

// parseLine reads a command. With an error it returns what can be said of whose it is.
func parseLine(text []byte) (c lineCommand, err error) {
	if !utf8.Valid(text) {
		return c, errors.New("the line is not UTF-8")
	}
	if err = c.read(text); err == nil {
		err = c.check()
	}
	if err != nil && len(c.ID) > maxID {
		c.ID = ""
	}
	return c, err
}

// read reads the fields of a line that is one JSON object, each of which it has once at most.
func (c *lineCommand) read(text []byte) (err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	switch begin, err := dec.Token(); {
	case err != nil:
		return notJSON(err)
	case begin != json.Delim('{'):
		if !json.Valid(text) {
			return notJSON(errors.New("the line does not begin with {"))
		}
		return fmt.Errorf("the line is not a JSON object, but %s", brief(text))
	}
	values := map[string]json.RawMessage{}
	for dec.More() {
		key, keyErr := dec.Token()
		var value json.RawMessage
		if keyErr == nil {
			keyErr = dec.Decode(&value)
		}
		if keyErr != nil {
			return notJSON(keyErr)
		}
		name := key.(string) // the key of an object
		if values[name] != nil && err == nil {
			err = fmt.Errorf("the line has the field %q twice", name)
		}
		values[name] = value
	}
	if _, end := dec.Token(); end != nil {
		return notJSON(end)
	}
	if _, end := dec.Token(); end != io.EOF {
		return errors.New("the line has more than one JSON object")
	}
	if err != nil {
		return err // not even its id is certain
	}
	// The id first: the answer to any other fault has it.
	for _, name := range append([]string{"id"}, slices.Sorted(maps.Keys(values))...) {
		value, given := values[name]
		field, known := c.field(name)
		switch {
		case !given:
		case !known:
			return fmt.Errorf("unknown field %q%s", brief([]byte(name)), output.DidYouMean(output.Nearest(brief([]byte(name)), slices.Concat(slices.Collect(maps.Values(lineFields))...))))
		case string(value) == "null" || !paired(value) || json.Unmarshal(value, field.to) != nil, name == "data_base64" && value[0] != '"':
			return fmt.Errorf("%q takes %s, not %s", name, field.takes, brief(value))
		}
	}
	return nil
}

func notJSON(err error) error {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("the line is not JSON: %w", err)
}

// lineField is a field of a line of the input.
type lineField struct {
	to    any
	takes string // for people
}

// field returns the field of that name.
func (c *lineCommand) field(name string) (f lineField, known bool) {
	f, known = map[string]lineField{
		"command":     {&c.Command, "a string"},
		"id":          {&c.ID, fmt.Sprintf("a string of 1 to %d bytes", maxID)},
		"lock":        {&c.Lock, "a string"},
		"wait_ms":     {&c.WaitMS, fmt.Sprintf("a whole number from 0 to %d", maxWaitMS)},
		"data":        {&c.Data, "a string"},
		"data_base64": {&c.Base64, "a string of base64"},
		"reason":      {&c.Reason, "a string"},
		"shared":      {&c.Shared, "true or false"},
		"slots":       {&c.Slots, fmt.Sprintf("a whole number from 1 to %d", lease.MaxMembers)},
		"fair":        {&c.Fair, "true or false"},
	}[name]
	return f, known
}

// maxWaitMS is the longest wait_ms.
const maxWaitMS = int64(cmdline.MaxSeconds * 1000)

// brief returns a JSON value, as much of it as an error has room for.
func brief(value []byte) string {
	const most = 40 // bytes
	value = bytes.TrimSpace(value)
	if len(value) > most {
		return strings.ToValidUTF8(string(value[:most]), "") + "..."
	}
	return string(value)
}

// paired reports whether each half of a surrogate pair that a JSON text writes with \u has its
// other half. Go would read a lone one as another character: then two ids would be one, and
// the data that is stored not the data that was sent.
func paired(text []byte) bool {
	half := rune(0) // the first half of a pair that has just ended
	for i := 0; i < len(text); i++ {
		r := rune(0)
		if text[i] == '\\' && i+1 < len(text) {
			if i++; text[i] == 'u' && i+4 < len(text) {
				n, _ := strconv.ParseUint(string(text[i+1:i+5]), 16, 32) // the text is JSON
				r, i = rune(n), i+4
			}
		}
		switch {
		case half != 0 && utf16.DecodeRune(half, r) == utf8.RuneError:
			return false
		case half != 0:
			half = 0
		case utf16.IsSurrogate(r):
			half = r
		}
	}
	return half == 0
}

// lineFields are the fields that each command takes besides its id.
var lineFields = map[string][]string{
	"acquire": {"lock", "shared", "slots", "fair", "wait_ms"},
	"try":     {"lock", "shared", "slots", "fair"},
	"release": {},
	"data":    {"data", "data_base64"},
	"refuse":  {"reason"},
	"close":   {},
}

func (c *lineCommand) check() error {
	fields, known := lineFields[c.Command]
	switch {
	case c.Command == "":
		return errors.New(`"command" is missing`)
	case !known:
		return fmt.Errorf("unknown command %q: use acquire, try, release, data, refuse or close", brief([]byte(c.Command)))
	case c.ID == "" && c.Command != "close":
		return errors.New(`"id" is missing`)
	case len(c.ID) > maxID:
		return fmt.Errorf(`"id" has more than %d bytes`, maxID)
	}
	for field, given := range map[string]bool{"lock": c.Lock != "", "wait_ms": c.WaitMS != nil, "data": c.Data != nil, "data_base64": c.Base64 != nil, "reason": c.Reason != nil, "shared": c.Shared, "slots": c.Slots != nil, "fair": c.Fair} {
		if given && !slices.Contains(fields, field) {
			return fmt.Errorf("the command %[2]s has no field %[1]q", field, c.Command)
		}
	}
	if c.Data != nil && c.Base64 != nil {
		return errors.New(`"data" and "data_base64" exclude each other`)
	}
	if c.Slots != nil && c.Shared {
		return errors.New(`"shared" and "slots" exclude each other`)
	}
	for name, wrong := range map[string]bool{
		"slots":   c.Slots != nil && (*c.Slots < 1 || *c.Slots > lease.MaxMembers),
		"wait_ms": c.WaitMS != nil && (*c.WaitMS < 0 || *c.WaitMS > maxWaitMS),
	} {
		if field, _ := c.field(name); wrong {
			value, _ := json.Marshal(field.to)
			return fmt.Errorf("%q takes %s, not %s", name, field.takes, value)
		}
	}
	if slices.Contains(fields, "lock") {
		return leases.CheckLockName(c.Lock)
	}
	return nil
}

// runBatch begins what a line asks for. It waits for no store.
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
	if err := h.around(c.lock); err != nil {
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
	line := holdLine{Event: "released"}
	if err != nil {
		line.Error, line.Kind = output.OneLine(err), exit.Kinds[exit.Status(err)]
		if errors.Is(err, lease.ErrLost) {
			line.Event, line.Grace = "lost", c.guard.GraceRemaining().Milliseconds()
		}
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
	h.out.put(line)
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
		h.out.put(holdLine{Event: "renewed", Deadline: e.Deadline})
	case e.Kind == lease.EventAtRisk:
		line := holdLine{Event: "at_risk", Deadline: e.Deadline}
		if e.Err != nil {
			line.Error = output.OneLine(e.Err)
		}
		h.out.put(line)
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

// outbox writes lines in order, and never makes the goroutine that puts them wait: the input is
// read, and its end is seen, even if no program reads the output.
type outbox struct {
	failed chan struct{} // closed when the output cannot be written

	mu     sync.Mutex
	lines  []holdLine
	wake   chan struct{} // has an element if there is something to do
	ending bool
	err    error
	done   chan struct{}
}

func newOutbox(w io.Writer) *outbox {
	o := &outbox{failed: make(chan struct{}), wake: make(chan struct{}, 1), done: make(chan struct{})}
	go o.write(printable.JSON(w))
	return o
}

func (o *outbox) put(line holdLine) {
	line.Time, line.Deadline = time.Now().UTC(), line.Deadline.UTC()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.lines) >= maxUnread {
		o.fail(fmt.Errorf("your program has not read %d lines of the output", maxUnread))
	}
	if o.err == nil {
		o.lines = append(o.lines, line)
		o.ring()
	}
}

func (o *outbox) ring() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// fail ends the output. The caller holds the mutex.
func (o *outbox) fail(err error) {
	if o.err == nil {
		o.err, o.lines = err, nil
		close(o.failed)
		o.ring()
	}
}

func (o *outbox) write(out *json.Encoder) {
	defer close(o.done)
	for range o.wake {
		o.mu.Lock()
		lines, ending := o.lines, o.ending || o.err != nil
		o.lines = nil
		o.mu.Unlock()
		for _, line := range lines {
			if err := out.Encode(line); err != nil {
				o.mu.Lock()
				o.fail(err)
				o.mu.Unlock()
				return
			}
		}
		if ending {
			return
		}
	}
}

// close waits until all lines are written, or the reader has not taken them for a time.
func (o *outbox) close(within time.Duration) error {
	o.mu.Lock()
	o.ending = true
	o.ring()
	o.mu.Unlock()
	select {
	case <-o.done:
	case <-time.After(within):
		return fmt.Errorf("your program has not read the output for %v", within)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}
