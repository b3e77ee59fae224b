package object

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// floor is the object that says up to where the entries of a log may have been removed.
// It makes the log, its number only grows, and it is never deleted.
type floor struct {
	Format int    `json:"holdfast"`
	Kind   string `json:"kind"`

	// Log is the id of the log: another one here means that the log was removed and
	// made anew. The first entry names it as the one before it.
	Log string `json:"log"`

	// Floor is the number of the first entry that is part of the log for certain. All
	// before it may be gone, and what stands there is not part of the log.
	Floor uint64 `json:"floor"`

	// Removed says that the entries before this number are gone; those from here to
	// Floor may be.
	Removed uint64 `json:"removed"`

	// Nonce makes the body, and so its version, unique.
	Nonce string `json:"nonce"`

	info Info // of the object; a zero version means that there is none
}

const (
	floorFormat = 1
	floorKind   = "log"
	maxFloor    = 64 << 10
)

func (l *Log) floorKey() string { return l.prefix + "/floor" }

// missing is the error for a log whose entry at the floor is not there.
func (f floor) missing() error {
	return fmt.Errorf("%w: the log begins at entry %d, and there is no such entry", store.ErrCorrupt, f.Floor)
}

// look reads the floor. Its number is 0 if there is no log.
func (l *Log) readFloor(ctx context.Context) (floor, error) {
	body, info, err := ReadAll(ctx, l.c.bucket, l.floorKey(), maxFloor, nil)
	var f floor
	switch {
	case err == nil:
		f, err = decodeFloor(body)
		f.info = withWriteInfo(info)
	case errors.Is(err, store.ErrNotFound):
		err = nil
	}
	if err != nil {
		return floor{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.id != "" && f.Log != l.id {
		return floor{}, fmt.Errorf("%w: the log was removed since this handle was opened (its id was %q, now it is %q)", store.ErrCorrupt, l.id, f.Log)
	}
	if f.Log != "" {
		l.id, l.floor, l.floorReadAt = f.Log, f.Floor, time.Now()
	}
	return f, nil
}

func decodeFloor(body []byte) (floor, error) {
	var f floor
	err := json.Unmarshal(body, &f)
	switch {
	case err != nil:
		err = fmt.Errorf("%w: the floor of the log: %v", store.ErrCorrupt, err)
	case f.Kind != floorKind || f.Format < 1 || !isID(f.Log) || f.Floor < 1 || f.Removed < 1 || f.Removed > f.Floor:
		err = fmt.Errorf("%w: the floor of the log is none", store.ErrCorrupt)
	case f.Format > floorFormat:
		err = fmt.Errorf("%w: the log has the format %d; this version of Holdfast knows %d", store.ErrCorrupt, f.Format, floorFormat)
	}
	if err != nil {
		return floor{}, err
	}
	return f, nil
}

// putFloor writes the floor if it is still in the state f.info.
func (l *Log) putFloor(ctx context.Context, f floor) (floor, error) {
	f.Format, f.Kind, f.Nonce = floorFormat, floorKind, newID()
	body, err := json.Marshal(f)
	if err != nil {
		return floor{}, store.MarkNotApplied(err)
	}
	o := WriteOptions{IfAbsent: true, ContentType: "application/json"}
	if f.info.Version != "" {
		o.IfAbsent, o.Base = false, &f.info
	}
	f.info, err = l.c.put(ctx, l.floorKey(), bytes.NewReader(append(body, '\n')), o)
	return f, err
}

// create makes the log.
func (l *Log) create(ctx context.Context) (floor, error) {
	entries := false
	for info, err := range l.c.bucket.List(ctx, l.prefix+"/", nil) {
		if err != nil {
			return floor{}, err
		}
		if _, entries = l.number(info.Key); entries {
			break
		}
	}
	var lost error
	if !entries {
		_, lost = l.putFloor(ctx, floor{Log: newID(), Floor: 1, Removed: 1})
	}
	// Another writer may have made it, in either case.
	f, err := l.readFloor(ctx)
	switch {
	case err != nil || f.Floor > 0:
	case lost != nil:
		err = lost
	default:
		err = fmt.Errorf("%w: there are entries, but the object %q is missing", store.ErrCorrupt, l.floorKey())
	}
	return f, err
}

// number returns the number of the entry that has this key.
func (l *Log) number(key string) (uint64, bool) {
	digits, ok := strings.CutPrefix(key, l.prefix+"/")
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, ok && err == nil && key == l.key(n)
}

// Trim removes the entries before the one with the number below, which must exist and
// becomes the first one. It says so in the floor object before it removes anything, then
// removes from the lowest number on. A clean-up that was cut off is completed by the
// next one. Cleaning up to a number that the log has already left behind only does that.
//
// Readers and writers need not stop. One that still needs an entry that was removed gets a
// [*TrimmedError]. The caller decides what is old enough: usually what a later entry
// repeats as a whole.
//
// The outcome of an error does not matter: call Clean again. It costs five requests at
// most, and one for each entry that it removes.
func (l *Log) Trim(ctx context.Context, below uint64) error {
	f, err := l.raise(ctx, below)
	for n := f.Removed; err == nil && n < f.Floor; n++ {
		err = l.remove(ctx, n)
	}
	if err == nil && f.Removed < f.Floor {
		f.Removed = f.Floor
		// Where another clean-up has begun, its own mark counts. Without a mark the
		// next one removes again what is gone.
		if _, err = l.putFloor(ctx, f); errors.Is(err, store.ErrConflict) {
			err = nil
		}
	}
	if err != nil {
		return l.fail("clean", err)
	}
	return nil
}

// raise raises the floor to a number, if it is not there yet.
func (l *Log) raise(ctx context.Context, below uint64) (floor, error) {
	for try := 1; ; try++ {
		f, err := l.readFloor(ctx)
		if err != nil || f.Floor >= below {
			return f, err
		}
		// If the entry is there, and the floor is not above it when it is raised, then the
		// entry is part of the log.
		first, err := l.stat(ctx, below)
		switch {
		case err != nil:
			return floor{}, err
		case first.ID == "":
			return floor{}, fmt.Errorf("%w: there is no entry %d, which would be the first one", ErrInvalid, below)
		}
		f.Floor = below
		f, err = l.putFloor(ctx, f)
		switch {
		case err == nil && f.info.Version != "":
			return f, nil
		case err == nil:
			continue // another clean-up has raised it further
		}
		if store.Permanent(err) || try >= l.c.o.Tries || !sleep(ctx, l.c.o.Pause, try) {
			return floor{}, err
		}
	}
}

// Sweep removes the objects before the first entry that no clean-up will remove: those
// that writers left which were stopped during one. They cost space and nothing else.
// Sweep lists the whole log.
func (l *Log) Sweep(ctx context.Context) error {
	f, err := l.readFloor(ctx)
	if err == nil && f.Floor > 1 {
		for info, listErr := range l.c.bucket.List(ctx, l.prefix+"/", nil) {
			if err = listErr; err != nil {
				break
			}
			if n, ok := l.number(info.Key); ok && n < f.Floor {
				if err = l.remove(ctx, n); err != nil {
					break
				}
			}
		}
	}
	if err != nil {
		return l.fail("sweep", err)
	}
	return nil
}
