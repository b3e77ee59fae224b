// Package doctor examines whether leases are safe on a store.
//
// A [Target] is a store to examine. [Run] tests everything on the store that Holdfast needs. Run creates
// its own registers and objects below a random prefix, and removes them again, even if it is interrupted.
// It never changes other data.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/trial"
	"github.com/holdfast-go/holdfast/internal/workerpool"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// Schema is the version of the JSON form of a [Report]. A version may get new fields, but the meaning of
// a field does not change.
const Schema = 1

// Result is the outcome of one check.
type Result string

// The results, as in JSON.
const (
	OK        Result = "ok"
	Warning   Result = "warning"    // leases are safe in spite of the warning
	Unsafe    Result = "unsafe"     // two programs could hold one lock, or no program could get it; for a table of reservations see package awsdoctor
	NotTested Result = "not_tested" // the test was not possible; Found says why
)

// Verdict is the summary of all checks.
type Verdict string

// The verdicts, as in JSON.
const (
	Safe      Verdict = "safe"    // everything that leases need works
	NotSafe   Verdict = "unsafe"  // something that leases need does not work
	Denied    Verdict = "denied"  // a right that leases need is missing
	NotProven Verdict = "unknown" // something that leases need could not be tested
)

// Check is one check of an examination, with its result.
type Check struct {
	ID     string `json:"id"`   // the same in all versions
	What   string `json:"what"` // what doctor checked, for people
	Result Result `json:"result"`
	Found  string `json:"found"`           // what the store did
	Means  string `json:"means,omitempty"` // the consequence, and what Holdfast does instead

	Needed  bool     `json:"-"` // leases need it
	Objects bool     `json:"-"` // writes of objects need it, and leases do not
	Last    bool     `json:"-"` // the other checks are not worth trying
	Advice  []Advice `json:"-"` // for the report

	denied      bool          // it is not known for lack of rights
	write, read time.Duration // medians that were measured
}

// Advice is a text for the user to copy, such as a lifecycle rule.
type Advice struct {
	What string `json:"what"`
	Text string `json:"text"`
}

// Report is the result of an examination. Its JSON form is stable; see [Schema].
type Report struct {
	Schema     int      `json:"schema"`
	Store      string   `json:"store"`
	Kind       string   `json:"kind"` // file, s3, dynamodb, redis, gcs, or other
	Verdict    Verdict  `json:"verdict"`
	Safe       bool     `json:"safe"` // leases are safe; and reservations, if the target has a table of reservations
	Summary    string   `json:"summary"`
	WriteUS    float64  `json:"write_us"` // median of one conditional write, in microseconds; 0: not measured
	ReadUS     float64  `json:"read_us"`  // median of one read
	Checks     []Check  `json:"checks"`
	Advice     []Advice `json:"advice"`
	NotRemoved []string `json:"leftovers"` // test data that doctor could not remove
}

// Options are the options of [Run].
type Options struct {
	// Run calls Progress before each check, with the name of the check. Progress may be nil.
	Progress func(what string)

	// stepTimeout bounds each step. rounds is how often writers race, and samples how many
	// writes and reads are measured. Tests set them; 0 means 30 s, 3 and 20.
	stepTimeout     time.Duration
	rounds, samples int
}

// racers is how many write at the same time.
const racers = 16

// grace is how long a step that was asked to end is waited for, and cleanTime how
// long removing may take.
const (
	grace     = 3 * time.Second
	cleanTime = 30 * time.Second
)

// Step is a part of the examination.
type Step struct {
	ID, What string
	Needed   bool // leases need it
	Run      func(ctx context.Context) []Check
}

// Target is a store to examine. Use a Target for one call of Run only.
type Target struct {
	Kind, Name string

	// Begin makes what is needed and touches the store for the first time. Its error
	// means that there is nothing to examine: the store is not there, or not
	// reachable.
	Begin func(ctx context.Context, e *Examination) error

	// Steps are those of this kind of store, before those of every store.
	Steps func(e *Examination) []Step

	// Clean removes what was made, and says what could not be removed.
	Clean func(ctx context.Context, e *Examination) (left []string)

	// Killed removes what killed examinations left; nil: nothing but registers.
	Killed Sweeper

	// Right names the right that a request needs: get, put, delete or list.
	Right func(op string) string

	Reserver     object.Reserver // with it writers of objects make reservations; nil: they make none
	Reservations string          // the table of it, for people
}

// Examination is one run of doctor.
type Examination struct {
	o      Options
	Target *Target
	Dir    string // random; everything is below it
	report *Report

	// Handles are two handles of the registers below Dir, so that what one of them
	// remembers does not hide what the store does.
	Handles [2]store.Store

	whole store.Store // all registers of the store; nil if the examination has a store of its own

	// atOnce says that the rules of registers are tried at the same time: every write waits
	// for a pause. Each rule has keys of its own.
	atOnce bool

	mu      sync.Mutex
	keys    map[string]int // of registers: the writes that may have made them
	objects map[string]int // of objects
	wrong   error          // the set-up is wrong, so there is nothing to examine
}

// Run examines a store. If Run returns an error, the examination was not possible, or the context ended.
// Run removes its test data in any case. After an error, the report lists no checks, but only the test
// data that Run could not remove.
func Run(ctx context.Context, t *Target, opts *Options) (*Report, error) {
	e := &Examination{Target: t, o: *cmp.Or(opts, &Options{}), Dir: Dir + "/" + trial.Name(time.Now()), keys: make(map[string]int), objects: make(map[string]int)}
	e.o.rounds, e.o.samples = cmp.Or(e.o.rounds, 3), cmp.Or(e.o.samples, 20)
	e.o.stepTimeout = cmp.Or(e.o.stepTimeout, 30*time.Second)
	e.report = &Report{Schema: Schema, Store: t.Name, Kind: t.Kind, Checks: []Check{}, Advice: []Advice{}, NotRemoved: []string{}}
	began, err := e.begin(ctx)
	if err == nil {
		e.examine(ctx)
		err = e.wrongSetUp()
	}
	if began {
		e.clean(ctx)
	}
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return &Report{Schema: Schema, Store: t.Name, Kind: t.Kind, NotRemoved: e.report.NotRemoved}, err
	}
	e.conclude()
	return e.report, nil
}

// begin touches the store for the first time. If the store does not answer, began is false: Begin still runs.
func (e *Examination) begin(ctx context.Context) (began bool, err error) {
	e.progress("the store")
	ctx, cancel := context.WithTimeout(ctx, e.o.stepTimeout)
	defer cancel()
	err, began = within(ctx, func() error { return e.Target.Begin(ctx, e) })
	if !began {
		err = fmt.Errorf("%w: %s did not answer: %w", store.ErrUnavailable, e.Target.Name, context.Cause(ctx))
	}
	return began, err
}

// examine runs all steps. Without the rights that leases need, the rest would only
// say so again and again.
func (e *Examination) examine(ctx context.Context) {
	var steps []Step
	if e.Target.Steps != nil {
		steps = e.Target.Steps(e)
	}
	steps = append(steps, (&registers{e}).steps()...)
	for len(steps) > 0 && ctx.Err() == nil {
		n := 1
		// Not the first rule, which shows missing rights, nor the last, which measures.
		if e.atOnce && steps[0].ID == firstAtOnce {
			n = len(steps) - 1
		}
		checks := e.together(ctx, steps[:n])
		steps = steps[n:]
		e.report.Checks = append(e.report.Checks, checks...)
		stop := false
		for _, c := range checks {
			e.report.Advice = append(e.report.Advice, c.Advice...)
			if c.write > 0 {
				e.report.WriteUS, e.report.ReadUS = micros(c.write), micros(c.read)
			}
			stop = stop || c.denied && c.Needed || c.Last
		}
		if stop {
			return
		}
	}
}

// together runs steps at the same time.
func (e *Examination) together(ctx context.Context, steps []Step) (checks []Check) {
	what := steps[0].What
	if len(steps) > 1 {
		what = fmt.Sprintf("%d more rules of a register at once", len(steps))
	}
	e.progress(what)
	found := make([][]Check, len(steps))
	workerpool.Each(len(steps), len(steps), func(i int) error {
		found[i] = e.step(ctx, steps[i])
		return nil
	})
	return slices.Concat(found...)
}

// step runs one step within its time.
func (e *Examination) step(ctx context.Context, s Step) []Check {
	ctx, cancel := context.WithTimeout(ctx, e.o.stepTimeout)
	defer cancel()
	checks, done := within(ctx, func() []Check { return s.Run(ctx) })
	if !done {
		checks = []Check{{ID: s.ID, What: s.What, Result: NotTested, Found: fmt.Sprintf("the store did not answer within %v", e.o.stepTimeout), Needed: s.Needed}}
	}
	return checks
}

// within calls f and returns its result. If f does not return until the context has ended and [grace] is over,
// done is false, and f is left running: a system call that hangs cannot be stopped.
func within[T any](ctx context.Context, f func() T) (result T, done bool) {
	results := make(chan T, 1)
	go func() { results <- f() }()
	select {
	case result = <-results:
		return result, true
	case <-ctx.Done():
	}
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case result = <-results:
		return result, true
	case <-t.C:
		return result, false
	}
}

// clean removes what was made, also when the context has ended.
func (e *Examination) clean(ctx context.Context) {
	if e.Target.Clean == nil {
		return
	}
	e.progress("removing the test data of doctor")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	done := make(chan []string, 1)
	go func() { done <- e.Target.Clean(ctx, e) }()
	select {
	case left := <-done:
		e.report.NotRemoved = append(e.report.NotRemoved, left...)
	case <-ctx.Done():
		e.report.NotRemoved = append(e.report.NotRemoved, e.Dir)
	}
}

func (e *Examination) progress(what string) {
	if e.o.Progress != nil {
		e.o.Progress(what)
	}
}

// conclude sums up: what is known to be wrong counts more than what could not be tested.
func (e *Examination) conclude() {
	r := e.report
	counts := make(map[Verdict][]string)
	var objects []string
	warnings := 0
	for _, c := range r.Checks {
		switch {
		case c.Result == Unsafe && c.Objects:
			objects = append(objects, c.What)
		case c.Result == Unsafe:
			counts[NotSafe] = append(counts[NotSafe], c.What)
		case c.Result == Warning:
			warnings++
		case c.Result == NotTested && c.Needed && c.denied:
			counts[Denied] = append(counts[Denied], c.What)
		case c.Result == NotTested && c.Needed:
			counts[NotProven] = append(counts[NotProven], c.What)
		}
	}
	switch {
	case len(counts[NotSafe]) > 0:
		r.Verdict, r.Summary = NotSafe, "leases are NOT safe on this store: "+Some(counts[NotSafe])
	case len(objects) > 0:
		r.Verdict, r.Summary = NotSafe, "writes of objects with these reservations are NOT safe, or not possible: "+Some(objects)
	case len(counts[Denied]) > 0:
		r.Verdict, r.Summary = Denied, "leases cannot be used here, because rights are missing: "+Some(counts[Denied])
	case len(counts[NotProven]) > 0:
		r.Verdict, r.Summary = NotProven, "leases were NOT proven to be safe, because a test could not run: "+Some(counts[NotProven])
	default:
		r.Verdict, r.Summary = Safe, "leases are safe on this store"
		if warnings == 1 {
			r.Summary += " (one warning)"
		} else if warnings > 1 {
			r.Summary += fmt.Sprintf(" (%d warnings)", warnings)
		}
	}
	r.Safe = r.Verdict == Safe
}

// Some names the first of several.
func Some(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return fmt.Sprintf("%s, and %d more", names[0], len(names)-1)
}

// Use makes e examine the registers of two handles, below its own prefix if within.
func (e *Examination) Use(within bool, handles ...store.Store) error {
	for i := range e.Handles {
		st := handles[i%len(handles)]
		if within {
			e.whole = st
			var err error
			if st, err = store.Prefix(st, e.Dir); err != nil {
				return err
			}
		}
		e.Handles[i] = store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
			if op.Kind.Write() {
				return e.note(e.keys, op.Key, func() error { return next(ctx, op) })
			}
			return next(ctx, op)
		})
	}
	return nil
}

// UseNew makes e examine two new handles below its own prefix, and returns the second one.
func UseNew[S store.Store](e *Examination, open func() (S, error)) (S, error) {
	first, err := open()
	if err != nil {
		return first, err
	}
	second, err := open()
	if err != nil {
		return second, err
	}
	return second, e.Use(true, first, second)
}

// Slow makes the examination of a store shorter in which each write waits for a pause: e tries the rules of
// registers at the same time.
func (e *Examination) Slow(pause time.Duration) {
	e.o.rounds, e.o.samples, e.atOnce = 1, min(e.o.samples, 3), true
	e.o.stepTimeout = max(e.o.stepTimeout, 30*pause)
}

// NoteObject records, before write runs, that write may make the object.
func (e *Examination) NoteObject(key string, write func() error) error {
	return e.note(e.objects, key, write)
}

// note records, before write runs, that write may make the key. If the store has refused each write of the key, the
// key was not made. A conflict proves nothing: the server that doctor tests may have written.
func (e *Examination) note(keys map[string]int, key string, write func() error) error {
	add := func(n int) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if keys[key] += n; keys[key] == 0 {
			delete(keys, key)
		}
	}
	add(1)
	err := write()
	if store.OutcomeOf(err) == store.NotApplied && !errors.Is(err, store.ErrConflict) {
		add(-1)
	}
	return err
}

// wrongSetUp returns the error of a check that leases need, if the error says that the set-up is wrong, and no check
// has found out what is wrong. All further checks would repeat this error.
func (e *Examination) wrongSetUp() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if slices.ContainsFunc(e.report.Checks, func(c Check) bool { return c.Result == Unsafe }) {
		return nil
	}
	return e.wrong
}

// Made returns the keys of registers that may have been made, below the store's own prefix.
func (e *Examination) Made() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var keys []string
	for key := range e.keys {
		keys = append(keys, e.Dir+"/"+key)
	}
	return keys
}

// Objects returns the keys of objects that may have been made.
func (e *Examination) Objects() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.objects)
}

// Single returns a step that makes one check, with the id and the name of the step.
func Single(id, what string, needed bool, run func(ctx context.Context, c Check) []Check) Step {
	return Step{id, what, needed, func(ctx context.Context) []Check { return run(ctx, Finding(id, what, needed)) }}
}

// Folder returns a prefix with a slash at its end; nothing for an empty one.
func Folder(prefix string) string {
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	return prefix
}

// Finding returns a check that has no result yet.
func Finding(id, what string, needed bool) Check { return Check{ID: id, What: what, Needed: needed} }

// As ends a check.
func (c Check) As(r Result, found, means string) []Check {
	c.Result, c.Found, c.Means = r, found, means
	return []Check{c}
}

// OK, [Check.Warn] and [Check.Unsafe] end a check.
func (c Check) OK(format string, args ...any) []Check {
	return c.As(OK, fmt.Sprintf(format, args...), "")
}

// Warn ends a check: leases are safe in spite of what was found.
func (c Check) Warn(found, means string) []Check { return c.As(Warning, found, means) }

// Unsafe ends a check: see the result [Unsafe].
func (c Check) Unsafe(found, means string) []Check { return c.As(Unsafe, found, means) }

// Failed ends a check that doctor could not make.
func (e *Examination) Failed(c Check, err error) []Check {
	c.Result, c.Found = NotTested, err.Error()
	switch {
	case errors.Is(err, store.ErrUnsafe):
		c.Result, c.Means = Unsafe, "Holdfast refuses leases here"
	case errors.Is(err, store.ErrDenied):
		c.denied = true
		if op, _ := request(err); op != "" && e.Target.Right != nil {
			if right := e.Target.Right(op); right != "" {
				c.Found, c.Means = Reason(err), "needs the right "+right
			}
		}
	case errors.Is(err, store.ErrMisconfigured) && c.Needed && !errors.Is(err, errors.ErrUnsupported):
		c.Last = true
		e.mu.Lock()
		e.wrong = cmp.Or(e.wrong, err)
		e.mu.Unlock()
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		// All that follows would say so again and again, and prove nothing.
		c.Means, c.Needed, c.Last = "the disk or a quota is full: free some space, then run doctor again", true, true
	case errors.Is(err, context.DeadlineExceeded):
		c.Found = fmt.Sprintf("the store did not answer within %v", e.o.stepTimeout)
	}
	return []Check{c}
}

// Reason returns an error without its operations and keys, and without what it says about
// rights: doctor finds those out itself.
func Reason(err error) string {
	_, err = request(err)
	text, _, _ := strings.Cut(err.Error(), " (without the right")
	return text
}

// request returns the innermost operation of an error, which is the request, and the error
// of that request.
func request(err error) (op string, inner error) {
	for {
		var o *store.OpError
		if !errors.As(err, &o) || o.Err == nil {
			return op, err
		}
		op, err = string(o.Op), o.Err
	}
}

// Registers returns the target of any store of registers. If the store cannot erase registers, the
// registers of the examination remain as tombstones.
func Registers(name string, st store.Store) *Target {
	return &Target{
		Kind: "other", Name: name,
		Begin: func(ctx context.Context, e *Examination) error {
			if err := e.Use(true, st); err != nil {
				return err
			}
			if err := e.Look(ctx); err != nil {
				return err
			}
			// Some stores wait with every write until they are certain of its outcome.
			began := time.Now()
			_, _ = e.Handles[0].Put(ctx, "pace", "", Value()) // what is wrong is found below
			if took := time.Since(began); took > slow {
				e.o.rounds, e.o.samples, e.o.stepTimeout = 1, 3, max(e.o.stepTimeout, 30*took)
			}
			return nil
		},
		Clean: func(ctx context.Context, e *Examination) (left []string) {
			keys := e.Made()
			errs := workerpool.Each(len(keys), len(keys), func(i int) error { return trial.Remove(ctx, st, keys[i]) }) // all at once: see above
			for i, err := range errs {
				if err != nil {
					left = append(left, keys[i])
				}
			}
			return left
		},
	}
}

// Look reads a key that does not exist. So doctor reports at once a store that cannot be
// reached, or that is set up wrongly. The checks report missing rights.
func (e *Examination) Look(ctx context.Context) error {
	_, _, err := e.Handles[0].Get(ctx, "nothing")
	if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrMisconfigured) {
		return err
	}
	return ctx.Err()
}

// Rights collects which rights are missing.
type Rights struct{ Missing []Check }

// Tried notes the outcome of a request that needs a right.
func (r *Rights) Tried(right, without string, needed bool, err error) {
	if errors.Is(err, store.ErrDenied) {
		c := Finding("right-"+right, "the right "+right, needed)
		c.Result, c.Found, c.Means, c.denied = NotTested, Reason(err), without, true
		r.Missing = append(r.Missing, c)
	}
}
