package object

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

const (
	// MaxEntry is the largest body of an entry of a [Log], in bytes: 16 MiB. Store larger data in
	// separate objects, and put their names into the entry.
	MaxEntry = 16 << 20

	// floorFresh is how long after a read of the floor an append is sent without
	// another read. Only the clarity of a refusal depends on it.
	floorFresh = 10 * time.Second
)

// Log is a sequence of immutable objects, numbered from 1. Any number of writers append to it. If
// several writers append after the same entry, exactly one writer succeeds. Table formats use such
// logs: each entry is a commit, and its body says what has changed. Call [Log.Read] to process all
// entries. Then call [Log.Commit] to append an entry after them. [Log.Append] makes one attempt of
// a Commit. [Log.Latest] finds the last entry. [Log.Trim] removes old entries.
//
// The entries are the objects PREFIX/00000000000000000001, PREFIX/00000000000000000002 and so on.
// Their bodies are the callers' bytes. The object PREFIX/floor is called the floor. It contains the
// number of the first entry. Entries with lower numbers may have been removed. The log never
// deletes the floor.
//
// # Order
//
// The caller of an append passes the number of the last entry that it has processed. The append
// succeeds only if that entry is still the last one. The log has no gaps. A reader sees the entries
// in the order of their numbers. It sees every entry whose append returned before the read began.
//
// # Trim
//
// [Log.Trim] removes old entries after it has raised the floor. It never removes the last entry. A
// writer that was stopped during a trim may later write an object with the number of a removed
// entry. Such an object is never part of the log. Every append and every read reads the floor at
// the end, and ignores objects with numbers below the first entry.
//
// # Outcomes
//
// The error of an append has one of the three outcomes of [store.OutcomeOf]. After a lost reply,
// the log finds the outcome, because each entry has a random id and the ids of up to eight earlier
// entries. If the entry does not exist, the log sends the entry again with the same id. The outcome
// stays unknown in three cases: the context ends, the store does not answer five requests, or the
// entries with the id were removed.
//
// # Requests
//
// If a Log has read or appended the last entry, an append sends two requests: one writes the entry,
// and one reads the floor. If the Log has not read the floor for ten seconds, it also reads the
// floor before it writes. A refused append costs three requests.
//
// A Log has no goroutines and needs no Close. Any number of goroutines may call its methods.
type Log struct {
	c      *Client
	prefix string
	o      LogOptions

	mu          sync.Mutex
	id          string    // of the log itself; empty while it is not known
	last        LogEntry  // the newest one that this handle knows to be part of the log, without its body
	floor       uint64    // as the last read has found it
	floorReadAt time.Time // when that was
}

// LogEntry is one entry of a [Log].
type LogEntry struct {
	Number uint64 // from 1 on
	ID     string // random and unique
	Body   []byte // owned by the caller; nil in a result of [Log.Latest]

	// Modified is the time of the write of the entry, by the store's clock.
	Modified time.Time

	// before holds the ids of up to eight entries before it, the nearest first. The id of the
	// log is there as that of the entry before the first.
	before []string
}

// TrimmedError says that [Log.Trim] has removed an entry. The log now begins at the entry with the
// number First. A TrimmedError also matches [store.ErrConflict]. Its outcome is NotApplied.
type TrimmedError struct {
	Number uint64 // number of the requested entry
	First  uint64
}

func (e *TrimmedError) Error() string {
	return fmt.Sprintf("entry %d was removed; the log now begins at entry %d", e.Number, e.First)
}

// Is makes a TrimmedError match store.ErrConflict: the log has newer entries.
func (e *TrimmedError) Is(target error) bool { return target == store.ErrConflict }

// Outcome returns NotApplied.
func (e *TrimmedError) Outcome() store.Outcome { return store.NotApplied }

// LogOptions are the options of [OpenLog].
type LogOptions struct {
	// ContentType of the entries is a MIME type; empty means application/octet-stream.
	ContentType string
}

// OpenLog returns the log with this prefix. The prefix is a key without a slash at its end. OpenLog
// sends no request. The first append creates the log. A log that does not exist yet is an empty
// log.
func OpenLog(c *Client, prefix string, opts *LogOptions) (*Log, error) {
	l := &Log{c: c, prefix: prefix, o: *cmp.Or(opts, &LogOptions{})}
	err := CheckKey(l.key(math.MaxUint64))
	switch {
	case err != nil:
	case c == nil:
		err = fmt.Errorf("%w: the client is nil", ErrInvalid)
	case prefix == "" || strings.HasSuffix(prefix, "/"):
		err = fmt.Errorf("%w: the prefix of a log must not be empty or end with a slash", store.ErrKey)
	}
	if err != nil {
		return nil, l.fail("open log", err)
	}
	return l, nil
}

// key returns the key of an entry: all have the same length, so that they sort.
func (l *Log) key(number uint64) string { return fmt.Sprintf("%s/%020d", l.prefix, number) }

func (l *Log) fail(op store.Kind, err error) error {
	if err == nil {
		return nil
	}
	return &store.OpError{Op: op, Key: l.prefix, Err: err}
}

// Append adds an entry after the entry that the caller has processed last. The caller passes the
// number of that entry, or 0 if the log is empty. The new entry gets the next number. If several
// callers pass the same number, exactly one caller succeeds. After Append has returned, the caller
// may change the body.
//
//   - nil: the entry is part of the log, and durable.
//   - An error that matches [store.ErrConflict]: not applied, because another entry already has the
//     next number. Read the entries from after+1, decide again, and append after the last entry. If
//     the error is a [*TrimmedError], the entry after+1 no longer exists: read from the error's
//     First.
//   - [ErrInvalid]: not applied, because no entry of the log has the number that the caller has
//     passed.
//   - If [store.OutcomeOf] returns Unknown, the entry may be part of the log now or later.
//
// The context bounds the call, including the retries after a lost reply.
func (l *Log) Append(ctx context.Context, after uint64, body []byte) (LogEntry, error) {
	return traced(ctx, l.c, "append", l.prefix, func(ctx context.Context) (LogEntry, error) {
		e, err := l.append(ctx, after, body)
		return e, l.fail("append", err)
	})
}

func (l *Log) append(ctx context.Context, after uint64, body []byte) (LogEntry, error) {
	switch {
	case len(body) > MaxEntry:
		return LogEntry{}, fmt.Errorf("%w: the entry has %d bytes; at most %d are allowed", store.ErrTooLarge, len(body), MaxEntry)
	case after == math.MaxUint64:
		return LogEntry{}, fmt.Errorf("%w: no entry can follow entry %d", ErrInvalid, after)
	}
	base, err := l.base(ctx, after)
	if err != nil {
		return LogEntry{}, store.MarkNotApplied(err)
	}
	a := &appending{l: l, entry: LogEntry{Number: after + 1, ID: newID(), Body: slices.Clone(body), before: base.writeInfo().idsForNext()}}
	if err := a.run(ctx); err != nil {
		return LogEntry{}, err
	}
	l.remember(a.entry)
	return a.entry, nil
}

// writeInfo returns the write info of an entry: its id is that of the write. Previous has the
// ids of the entries before it, where another object has those of the writes before.
func (e *LogEntry) writeInfo() WriteInfo { return WriteInfo{ID: e.ID, Previous: e.before, known: true} }

// base returns the entry that an append follows. The number 0 is the beginning, whose id is
// that of the log. An append never follows an entry that is not known to be part of the log.
func (l *Log) base(ctx context.Context, number uint64) (LogEntry, error) {
	known, fresh := l.known(number)
	if known.ID != "" && fresh {
		return known, nil
	}
	if known.ID == "" && number > 0 {
		var err error
		if known, err = l.stat(ctx, number); err != nil {
			return LogEntry{}, err
		}
	}
	// The floor is read after the entry: an entry that is not below the floor now was part
	// of the log then.
	f, err := l.readFloor(ctx)
	if err == nil && f.Floor == 0 && number == 0 {
		f, err = l.create(ctx)
	}
	switch {
	case err != nil:
		return LogEntry{}, err
	case f.Floor > max(number, 1):
		return LogEntry{}, &TrimmedError{number + 1, f.Floor}
	case number == 0:
		return LogEntry{ID: f.Log}, nil
	case known.ID == "":
		return LogEntry{}, fmt.Errorf("%w: the log has no entry %d; append after the last entry of the log", ErrInvalid, number)
	case f.Floor == 0:
		return LogEntry{}, l.withoutFloor()
	}
	l.remember(known)
	return known, nil
}

// known returns what this handle knows of an entry, with a zero id if that is nothing. fresh
// says that it has read the floor lately and did not find it above the entry.
func (l *Log) known(number uint64) (e LogEntry, fresh bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch number {
	case 0:
		e.ID = l.id
	case l.last.Number:
		e = l.last
	}
	return e, !l.floorReadAt.IsZero() && time.Since(l.floorReadAt) < floorFresh && l.floor <= max(number, 1)
}

// remember keeps an entry that is part of the log, if it is the newest.
func (l *Log) remember(e LogEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Number > l.last.Number {
		e.Body = nil
		l.last = e
	}
}

// stat returns the entry at a number, without its body; a zero one if there is none. Only a
// later read of the floor shows whether it is part of the log.
func (l *Log) stat(ctx context.Context, number uint64) (LogEntry, error) {
	info, err := l.c.stat(ctx, l.key(number))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return LogEntry{}, nil
	case err != nil:
		return LogEntry{}, err
	}
	return entryOf(number, info)
}

func entryOf(number uint64, info Info) (LogEntry, error) {
	s := info.WriteInfo
	if s.ID == "" || len(s.Previous) == 0 || s.Deleted {
		return LogEntry{}, fmt.Errorf("%w: %q is not an entry of a log", store.ErrCorrupt, info.Key)
	}
	return LogEntry{Number: number, ID: s.ID, Modified: info.Modified, before: s.Previous}, nil
}

// appending is one append under way.
type appending struct {
	l     *Log
	entry LogEntry
	floor floor // as seen by the last judgement
}

// run writes the entry, and again under the same id until its outcome is known. No object
// disappears at a number that is not below the floor. So at most one of the tries becomes
// part of the log, and none does once another writer's entry exists.
func (a *appending) run(ctx context.Context) error {
	var doubt error // the first failure after which the entry may have been written
	for try := 1; ; try++ {
		err := a.put(ctx)
		refused := store.OutcomeOf(err) == store.NotApplied
		conflict := refused && errors.Is(err, store.ErrConflict)
		switch {
		case err == nil:
		case !refused && doubt == nil:
			doubt = err
		case refused && !conflict && doubt == nil:
			return err
		}
		// The object that a later try finds may be that of an earlier one.
		resolution, resolveErr := a.resolve(ctx, err == nil, conflict && doubt == nil)
		switch resolution {
		case store.ResolutionApplied, store.ResolutionSuperseded:
			return nil
		case store.ResolutionNotApplied:
			if a.floor.Floor > a.entry.Number {
				return &TrimmedError{a.entry.Number, a.floor.Floor}
			}
			return &ConflictError{Key: a.l.key(a.entry.Number)}
		case store.ResolutionPending:
			if !store.Permanent(err) && try < a.l.c.o.tries && sleep(ctx, a.l.c.o.pause, try) {
				continue
			}
		}
		return a.unknown(resolveErr, doubt)
	}
}

func (a *appending) put(ctx context.Context) error {
	stamp := a.entry.writeInfo()
	info, err := a.l.c.put(ctx, a.l.key(a.entry.Number), bytes.NewReader(a.entry.Body), WriteOptions{
		IfAbsent: true, ContentType: a.l.o.ContentType, writeInfo: &stamp,
	})
	a.entry.Modified = info.Modified
	return err
}

// unknown is the error of an append whose outcome was not found. It must not look like a
// conflict.
func (a *appending) unknown(judging, doubt error) error {
	what := errors.New("the store has the entry")
	if doubt != nil {
		what = fmt.Errorf("the store may have the entry: %w", doubt)
	}
	switch {
	case judging != nil:
		judging = fmt.Errorf("%w; the client could not find out whether the entry is part of the log: %v", what, judging)
	case a.floor.Floor > a.entry.Number:
		judging = fmt.Errorf("%w; the log now begins at entry %d, and the client cannot find out whether it was trimmed before or after this append", what, a.floor.Floor)
	default:
		judging = what
	}
	return &store.InDoubtError{Version: store.Version(a.entry.ID), Err: judging}
}

// resolve judges until that succeeds, or no try is left.
func (a *appending) resolve(ctx context.Context, written, conflict bool) (store.Resolution, error) {
	for try := 1; ; try++ {
		resolution, err := a.resolution(ctx, written, conflict)
		if err == nil || store.Permanent(err) || try >= a.l.c.o.tries || !sleep(ctx, a.l.c.o.pause, try) {
			return resolution, err
		}
	}
}

// resolution finds the outcome of the append. Either the store has answered that it wrote
// the entry, or the client has seen another entry (conflict), or resolution reads the object.
// It reads the floor after each read of an object: what it has seen counts only if the floor is
// not above it afterwards.
func (a *appending) resolution(ctx context.Context, written, conflict bool) (store.Resolution, error) {
	n := a.entry.Number
	var found LogEntry
	var err error
	if !written && !conflict {
		if found, err = a.l.stat(ctx, n); err != nil {
			return store.ResolutionUnknown, err
		}
	}
	if a.floor, err = a.l.readFloor(ctx); err != nil {
		return store.ResolutionUnknown, err
	}
	mine := written || found.ID == a.entry.ID
	switch {
	case a.floor.Floor > n:
		return a.resolutionBelow(ctx, mine)
	case mine:
		return store.ResolutionApplied, nil
	case found.ID == "" && !conflict:
		return store.ResolutionPending, nil
	}
	return store.ResolutionNotApplied, nil
}

// resolutionBelow finds the outcome for an entry below the floor: it was part of the log, or it was
// written after the trim. The entry at the floor carries the ids of those before it. In either
// case no reader needs the object.
func (a *appending) resolutionBelow(ctx context.Context, mine bool) (store.Resolution, error) {
	for {
		f := a.floor
		at, err := a.l.stat(ctx, f.Floor)
		if err != nil {
			return store.ResolutionUnknown, err
		}
		if a.floor, err = a.l.readFloor(ctx); err != nil {
			return store.ResolutionUnknown, err
		}
		if a.floor.Floor > f.Floor {
			continue
		}
		if mine {
			// What cannot be removed stays below the floor.
			_ = a.l.remove(ctx, a.entry.Number)
		}
		distance := f.Floor - a.entry.Number
		switch {
		case at.ID == "":
			return store.ResolutionUnknown, f.missing()
		case distance > uint64(len(at.before)):
			return store.ResolutionUnknown, nil
		case at.before[distance-1] == a.entry.ID:
			return store.ResolutionSuperseded, nil
		}
		return store.ResolutionNotApplied, nil
	}
}

// remove removes the object at a number below the floor.
func (l *Log) remove(ctx context.Context, number uint64) error {
	return l.c.remove(ctx, l.key(number), state{any: true}, false)
}
