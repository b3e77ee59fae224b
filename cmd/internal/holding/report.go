package holding

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/lease"
)

// report is what --report writes: the result of holdfast itself, apart from the status of
// the command.
type report struct {
	path string
	file io.Writer
	done func(whole bool) error // closes the file, which gets its name if it is whole

	started bool // the command was started

	Names    []string          `json:"names"`
	Command  []string          `json:"command"`
	Result   string            `json:"result"` // ran, already_ran, busy, lost, timed_out or failed
	Status   int               `json:"status"` // the exit status of holdfast
	Error    string            `json:"error,omitempty"`
	Started  time.Time         `json:"started"`
	Acquired *time.Time        `json:"acquired,omitempty"`
	Ended    time.Time         `json:"ended"`
	Locks    []leases.HeldLock `json:"locks,omitempty"`
}

// openReport opens the file before run takes any lock, so that run reports early that it
// cannot write the file. The file is new, and only this user can read it, since it holds
// the command's arguments. It has its name when it is complete; until then no report of an earlier
// run has that name. A device is written to as it is. Links and pipes are refused. With an empty path
// the report is written to no file.
func openReport(path string, names, argv []string) (*report, error) {
	r := &report{path: path, Names: names, Command: argv, Started: time.Now()}
	if path == "" {
		return r, nil
	}
	if err := r.open(path); err != nil {
		return nil, cmdline.Unwritable("--report", path, err)
	}
	return r, nil
}

func (r *report) open(path string) error {
	name := filepath.Base(path)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case info.Mode()&fs.ModeCharDevice != 0:
		device, err := os.OpenFile(path, os.O_WRONLY, 0)
		r.file, r.done = device, func(bool) error { return device.Close() }
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s exists, and is not a regular file", path)
	}
	dir, err := safefile.OpenAnyDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	file, err := dir.CreateUnnamed(".report-", 0o600)
	if err != nil {
		dir.Close()
		return err
	}
	r.file = file
	r.done = func(whole bool) error {
		defer dir.Close()
		defer file.Discard()
		if !whole {
			return nil
		}
		return errors.Join(file.Sync(), file.Install(name))
	}
	if info != nil {
		if err := dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(err, r.done(false))
		}
	}
	return nil
}

func (r *report) acquired(set *lease.GuardSet, url func(*lease.Guard) string) {
	now := time.Now()
	r.Acquired = &now
	for _, g := range set.Guards() {
		r.Locks = append(r.Locks, leases.HeldLock{Store: url(g), Name: g.Name(), Token: g.Token(), Slot: g.Slot()})
	}
}

// finish completes the report with the result of run, and returns that result. If the
// report cannot be written and run has succeeded, it returns that failure; if run has
// failed, it prints the failure to write as a note.
func (a *access) finish(r *report, result error) error {
	if r.file == nil {
		return result
	}
	err := r.write(result)
	switch {
	case err == nil:
		return result
	case result == nil:
		return exit.With(exit.Failed, fmt.Errorf("--report: %w", err))
	}
	a.Warnf("--report: %s", output.OneLine(err))
	return result
}

// write writes the report with a result.
func (r *report) write(result error) error {
	r.Ended, r.Status = time.Now(), exit.Status(result)
	r.Result = resultOf(r.Acquired != nil, r.started, result)
	if exit.Reportable(result) {
		r.Error = output.OneLine(result)
	}
	enc := printable.JSON(r.file)
	enc.SetIndent("", "  ")
	err := enc.Encode(r)
	return output.Under(r.path, errors.Join(err, r.done(err == nil)))
}

// resultOf returns the result of a run in one word. acquired says whether the run has acquired its
// locks, and started whether it has started the command.
func resultOf(acquired, started bool, result error) string {
	status := exit.Status(result)
	switch {
	case !acquired && result == nil:
		return "already_ran"
	case !acquired && !errors.Is(result, lease.ErrUnresponsive) && (errors.Is(result, lease.ErrHeld) || status == exit.Busy):
		return "busy"
	case errors.Is(result, lease.ErrLost):
		return "lost"
	case errors.Is(result, errTimedOut):
		return "timed_out"
	case !started:
		return "failed" // the command never ran
	}
	return "ran"
}
