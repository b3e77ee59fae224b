package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/internal/private"
	"github.com/holdfast-go/holdfast/lease"
)

// report is what --report writes: the verdict of holdfast itself, apart from the status of
// the command.
type report struct {
	file io.WriteCloser

	Names    []string   `json:"names"`
	Command  []string   `json:"command"`
	Verdict  string     `json:"verdict"` // ran, ran already, busy, lost, timed out or failed
	Status   int        `json:"status"`  // the exit status of holdfast
	Error    string     `json:"error,omitempty"`
	Started  time.Time  `json:"started"`
	Acquired *time.Time `json:"acquired,omitempty"`
	Ended    time.Time  `json:"ended"`
	Locks    []heldLock `json:"locks,omitempty"`
}

// openReport opens the file before run takes any lock, so that run reports early that it
// cannot write the file. The file is new, and only this user can read it, since it holds
// the command's arguments. A device is written to as it is. Links and pipes are refused. A
// nil report writes nothing.
func openReport(path string, names, argv []string) (*report, error) {
	if path == "" {
		return nil, nil
	}
	file, err := newReportFile(path)
	if err != nil {
		return nil, usagef("--report: %w", err)
	}
	return &report{file: file, Names: names, Command: argv, Started: time.Now()}, nil
}

func newReportFile(path string) (io.WriteCloser, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeCharDevice != 0:
		return os.OpenFile(path, os.O_WRONLY, 0)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is there already, and is no file", path)
	}
	dir, err := private.OpenDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	file, err := dir.Create(".report-")
	if err != nil {
		return nil, err
	}
	if err := file.Install(filepath.Base(path)); err != nil {
		file.Discard()
		return nil, err
	}
	return file, nil
}

func (r *report) acquired(set *lease.Set, url func(*lease.Guard) string) {
	if r == nil {
		return
	}
	now := time.Now()
	r.Acquired = &now
	for _, g := range set.Guards() {
		r.Locks = append(r.Locks, heldLock{url(g), g.Name(), g.Token(), g.Slot()})
	}
}

// finish completes the report with the result of run, and returns that result. If the
// report cannot be written and run has succeeded, it returns that failure; if run has
// failed, it prints the failure to write as a note.
func (a *app) finish(r *report, result error) error {
	if r == nil {
		return result
	}
	err := r.write(result)
	switch {
	case err == nil:
		return result
	case result == nil:
		return &statusError{statusFailed, fmt.Errorf("--report: %w", err)}
	}
	a.warnf("--report: %s", oneLine(err))
	return result
}

// write writes the report with a result.
func (r *report) write(result error) error {
	r.Ended, r.Status = time.Now(), statusOf(result)
	r.Verdict = verdictOf(r.Acquired != nil, result)
	if told(result) {
		r.Error = oneLine(result)
	}
	enc := printable.JSON(r.file)
	enc.SetIndent("", "  ")
	return errors.Join(enc.Encode(r), r.file.Close())
}

// verdictOf returns the verdict on a run. acquired says whether the run has acquired its
// locks.
func verdictOf(acquired bool, result error) string {
	status := statusOf(result)
	switch {
	case !acquired && result == nil:
		return "ran already"
	case !acquired && !errors.Is(result, lease.ErrSilent) && (errors.Is(result, lease.ErrHeld) || status == statusBusy):
		return "busy"
	case errors.Is(result, lease.ErrLost):
		return "lost"
	case errors.Is(result, errTimedOut):
		return "timed out"
	case !acquired, status == statusNotExec && told(result):
		return "failed" // the command never ran
	}
	return "ran"
}

// told reports whether a result is an error of holdfast itself, and not the status of the
// command.
func told(result error) bool {
	var own *statusError
	return result != nil && (!errors.As(result, &own) || own.err != nil)
}
