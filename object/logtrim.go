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

// floor is the object that names the first entry of a log: those before it may have been
// removed. A log exists once its floor does. The number only grows, and the object is never
// deleted.
type floor struct {
	Format int    `json:"holdfast"`
	Kind   string `json:"kind"`

	// Log is the id of the log. Another id here means that the log was removed and created
	// again. The first entry names it as the id of the entry before it.
	Log string `json:"log"`

	// Floor is the number of the first entry that certainly is part of the log. Those before
	// it may have been removed. An object at a lower number is not part of the log.
	Floor uint64 `json:"floor"`

	// Removed says that the entries before this number are removed; those from here to
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

// missing is the error for a log whose entry at the floor does not exist.
func (f floor) missing() error {
	return fmt.Errorf("%w: the log begins at entry %d, but this entry does not exist", store.ErrCorrupt, f.Floor)
}

// withoutFloor is the error for a log whose floor another program has removed.
func (l *Log) withoutFloor() error {
	return fmt.Errorf("%w: the log has entries, but the object %q is missing", store.ErrCorrupt, l.floorKey())
}

// readFloor reads the floor. Its number is 0 if there is no log.
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
		return floor{}, fmt.Errorf("%w: after this Log was opened, the log was removed and created again (the id was %q, now it is %q); open the Log again", store.ErrCorrupt, l.id, f.Log)
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
		err = fmt.Errorf("%w: the floor of the log cannot be decoded: %v", store.ErrCorrupt, err)
	case f.Kind != floorKind || f.Format < 1 || !isID(f.Log) || f.Floor < 1 || f.Removed < 1 || f.Removed > f.Floor:
		err = fmt.Errorf("%w: the floor of the log has an unknown kind, or a number or id that is not valid", store.ErrCorrupt)
	case f.Format > floorFormat:
		err = fmt.Errorf("%w: the log has format %d, but this version of Holdfast reads only format %d", store.ErrCorrupt, f.Format, floorFormat)
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
		err = l.withoutFloor()
	}
	return f, err
}

// number returns the number of the entry that has this key.
func (l *Log) number(key string) (uint64, bool) {
	digits, ok := strings.CutPrefix(key, l.prefix+"/")
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, ok && err == nil && key == l.key(n)
}

// Trim removes all entries before the entry with the given number. This entry must exist, and
// becomes the first entry. Trim first raises the floor, and then removes the entries in the order
// of their numbers. Each Trim also completes an earlier Trim that was interrupted.
//
// Readers and writers may continue during a Trim. If they need a removed entry, they get a
// [*TrimmedError]. Remove only entries that no reader needs. For example, a later entry can contain
// their whole content.
//
// After an error, call Trim again. Trim sends at most five requests, and one more for each removed
// entry.
func (l *Log) Trim(ctx context.Context, below uint64) error {
	_, err := traced(ctx, l.c, "trim", l.prefix, func(ctx context.Context) (struct{}, error) { return struct{}{}, l.trim(ctx, below) })
	return err
}

func (l *Log) trim(ctx context.Context, below uint64) error {
	f, err := l.raise(ctx, below)
	for n := f.Removed; err == nil && n < f.Floor; n++ {
		err = l.remove(ctx, n)
	}
	if err == nil && f.Removed < f.Floor {
		f.Removed = f.Floor
		// If another trim has begun, its own number counts. Without it the next trim
		// removes again what does not exist any more.
		if _, err = l.putFloor(ctx, f); errors.Is(err, store.ErrConflict) {
			err = nil
		}
	}
	return l.fail("trim", err)
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
			return floor{}, fmt.Errorf("%w: the log has no entry %d, which would become the first entry", ErrInvalid, below)
		case f.Floor == 0:
			return floor{}, l.withoutFloor()
		}
		f.Floor = below
		f, err = l.putFloor(ctx, f)
		switch {
		case err == nil && f.info.Version != "":
			return f, nil
		case err == nil:
			continue // another trim has raised it further
		}
		if store.Permanent(err) || try >= l.c.o.tries || !sleep(ctx, l.c.o.pause, try) {
			return floor{}, err
		}
	}
}

// Sweep removes objects with numbers below the first entry. Such objects can remain if a writer is
// stopped during a Trim. They only use space. Sweep lists the whole log.
func (l *Log) Sweep(ctx context.Context) error {
	_, err := traced(ctx, l.c, "sweep", l.prefix, func(ctx context.Context) (struct{}, error) { return struct{}{}, l.sweep(ctx) })
	return err
}

func (l *Log) sweep(ctx context.Context) error {
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
	return l.fail("sweep", err)
}
