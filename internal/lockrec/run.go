package lockrec

import (
	"encoding/json"
	"fmt"
	"time"
)

type RunOutcome string

// The outcomes of a run.
const (
	// RunRunning: the run has begun, and its grant was not released. The process of the holder
	// may be dead.
	RunRunning RunOutcome = "running"

	// RunDone: the function returned nil.
	RunDone RunOutcome = "done"

	// RunFailed: the function returned an error, or did not return (a panic).
	RunFailed RunOutcome = "failed"

	// RunDied: the grant of the run is over, but the record does not show how the run ended. The process
	// died, the lease was lost, or the guard was released before the function returned.
	RunDied RunOutcome = "died"
)

// Run is the last run of a job that runs once in each period. It is a part of the record of the job's
// lock. All times are by the clock of the machine of the run.
type Run struct {
	Period    string    // period in the program of the run, for people
	Began     time.Time // start of the run; the run counts for the period that contains this time
	PeriodEnd time.Time // end of that period
	Ended     time.Time // end of a run with the outcome RunDone or RunFailed; otherwise zero
	Outcome   RunOutcome
	Error     string // error of the run, at most 256 bytes
	Holder    string // Options.Holder of the client of the run
	Attempts  int    // number of runs that have begun in that period, including this run
	Grant     string // id of the grant of the run

	// RerunAllowed says that the job may run again in this period, because an operator has called
	// lease.Client.Break after the run.
	RerunAllowed bool

	// unknown keeps the fields of later versions as they came.
	unknown map[string]json.RawMessage
}

// Due reports whether a new run may begin, and sets the field Attempts of this run, the parameter next.
// The parameter last is the last run, or nil if there was none. The period of the new run begins at
// start. The parameter open says that a client can take the lock; then a last run without an end has
// died.
func Due(next, last *Run, start time.Time, retries int, open bool) bool {
	next.Attempts = 1
	switch {
	case last == nil || last.Began.Before(start) || last.Outcome == RunRunning && !open:
	case last.RerunAllowed:
		next.Attempts = last.Attempts
	case !last.Began.Before(next.PeriodEnd), last.Outcome == RunDone, last.Attempts > retries:
		return false // a run of a later period began by a clock that is ahead, or this one was set back
	default:
		next.Attempts = last.Attempts + 1
	}
	return true
}

// lastRun returns the last run with its outcome as the rest of the record shows it: a run
// without an end has died when its grant is not in force any more.
func lastRun(r *Record) *Run {
	run := r.Run
	if run == nil || run.Outcome != RunRunning || r.State != Free && r.Grant == run.Grant {
		return run
	}
	died := *run
	died.Outcome = RunDied
	return &died
}

// AllowRerun returns the last run in r as a break writes it, with RerunAllowed. The job may then run
// again in the same period.
func AllowRerun(r *Record) *Run {
	if r.Run == nil || r.State != Free && r.Grant != r.Run.Grant {
		return r.Run
	}
	again := *r.Run
	again.RerunAllowed = true
	return &again
}

// runFields is the JSON form of a Run.
type runFields struct {
	Period       string     `json:"period"`
	Began        time.Time  `json:"began"`
	PeriodEnd    time.Time  `json:"until"`
	Ended        time.Time  `json:"ended,omitzero"`
	Outcome      RunOutcome `json:"outcome"`
	Error        string     `json:"error,omitempty"`
	Holder       string     `json:"holder,omitempty"`
	Attempts     int        `json:"tries"`
	Grant        string     `json:"grant"`
	RerunAllowed bool       `json:"again,omitempty"`

	unknown map[string]json.RawMessage // no field of the form
}

var knownRunFields = []string{"period", "began", "until", "ended", "outcome", "error", "holder", "tries", "grant", "again"}

// Encode returns the JSON form of the run.
func (r Run) encode() (json.RawMessage, error) {
	r.Began, r.PeriodEnd, r.Ended = r.Began.UTC(), r.PeriodEnd.UTC(), r.Ended.UTC()
	object, err := marshal(runFields(r))
	if err != nil {
		return nil, err
	}
	return withUnknown(object, r.unknown)
}

// decodeRun reads the JSON form of a run.
func decodeRun(value json.RawMessage) (*Run, error) {
	var f runFields
	if err := decodeObject(value, &f, &f.unknown, knownRunFields); err != nil {
		return nil, err
	}
	r := Run(f)
	switch {
	case f.Outcome != RunRunning && f.Outcome != RunDone && f.Outcome != RunFailed && f.Outcome != RunDied:
		return nil, fmt.Errorf("the run has the unknown outcome %q", f.Outcome)
	case f.Began.IsZero() || !f.PeriodEnd.After(f.Began):
		return nil, fmt.Errorf("the run began at %v, but its period ended at %v", f.Began, f.PeriodEnd)
	case f.Attempts < 1:
		return nil, fmt.Errorf("the run counts %d attempts; there must be at least 1", f.Attempts)
	}
	return &r, nil
}

// bare returns the run without what is for people, and without the fields of others.
func (r *Run) bare() *Run {
	if r == nil {
		return nil
	}
	bare := *r
	bare.Period, bare.Error, bare.Holder, bare.unknown = "", "", "", nil
	return &bare
}
