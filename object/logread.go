package object

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/holdfast-go/holdfast/store"
)

const (
	// After this many entries, or this many bytes of them, Read checks that they are part
	// of the log, and then yields them.
	readEntries = 64
	readBytes   = 1 << 20
)

// Read yields the entries in the order of their numbers, up to the last entry. It begins with the
// entry that has the given number. If the number is 0, Read begins with the first entry of the log.
// To continue later, pass the number of the last entry plus 1.
//
// Read yields every entry whose append returned before the call, or an error. If a Trim has removed
// the first entry to read, the error is a [*TrimmedError]; its First is the number of the present
// first entry. If an entry does not have the id of the entry before it, another program has changed
// the objects, and the error matches [store.ErrCorrupt]. The iteration ends after an error.
//
// Read sends one request for each entry and one request at the end. Read holds up to 64 entries (or
// 1 MiB of entries) in memory. Before Read yields these entries, it checks by one more request that
// no Trim has removed them.
func (l *Log) Read(ctx context.Context, from uint64) iter.Seq2[LogEntry, error] {
	return func(yield func(LogEntry, error) bool) {
		err := l.read(ctx, from, func(e LogEntry) bool { return yield(e, nil) })
		if err != nil {
			yield(LogEntry{}, l.fail("read log", err))
		}
	}
}

func (l *Log) read(ctx context.Context, from uint64, yield func(LogEntry) bool) error {
	if from == 0 {
		f, err := l.readFloor(ctx)
		if err != nil {
			return err
		}
		from = max(f.Floor, 1)
	}
	prev, _ := l.known(from - 1)
	for {
		entries, end, err := l.readSome(ctx, from)
		if err != nil {
			return err
		}
		if from == 1 {
			prev, _ = l.known(0) // the id of the log is known since
		}
		for _, e := range entries {
			if prev.ID != "" && e.before[0] != prev.ID {
				return fmt.Errorf("%w: entry %d names %q as the entry before it, but entry %d has the id %q; another program has changed the log", store.ErrCorrupt, e.Number, e.before[0], prev.Number, prev.ID)
			}
			prev = e
			l.remember(prev)
			if !yield(e) {
				return nil
			}
		}
		if end {
			return nil
		}
		from = prev.Number + 1
	}
}

// readSome reads some entries that are part of the log, and says whether the log ends
// there.
func (l *Log) readSome(ctx context.Context, from uint64) (entries []LogEntry, end bool, err error) {
	entries, end, atFloor, err := l.readOnce(ctx, from)
	if atFloor {
		// After this read, a writer can have written the entry, and a trim can have made it
		// the first one. Since then it exists, or is below the floor.
		entries, end, atFloor, err = l.readOnce(ctx, from)
	}
	if atFloor {
		err = floor{Floor: from}.missing()
	}
	return entries, end, err
}

// readOnce is readSome. It says whether there was no entry from, although the floor was
// there afterwards.
func (l *Log) readOnce(ctx context.Context, from uint64) (entries []LogEntry, end, atFloor bool, err error) {
	size := 0
	for n := from; len(entries) < readEntries && size < readBytes; n++ {
		body, info, err := ReadAll(ctx, l.c.bucket, l.key(n), MaxEntry, nil)
		if errors.Is(err, store.ErrNotFound) {
			end = true
			break
		}
		var e LogEntry
		if err == nil {
			e, err = entryOf(n, withWriteInfo(info))
		}
		if err != nil {
			return nil, false, false, err
		}
		e.Body = body
		size += len(body)
		entries = append(entries, e)
	}
	f, err := l.readFloor(ctx)
	switch {
	case err != nil:
	case f.Floor == 0 && len(entries) > 0:
		err = l.withoutFloor()
	case f.Floor > from:
		err = &TrimmedError{from, f.Floor}
	case f.Floor == from && from > 1 && len(entries) == 0:
		atFloor = true
	}
	return entries, end, atFloor, err
}

// Latest returns the last entry, without its body. If the log is empty, the number is zero. The
// entry was the last entry at some moment during the call.
//
// Latest begins at the last entry that this Log knows, and requests later entries at growing
// distances (1, 2, 4, ...). At the end it reads the floor. If there is no new entry, Latest sends
// two requests. For n new entries, it sends about 2*log2(n) requests. If this Log knows no entry,
// Latest first reads the floor, which costs one more request. Latest sends no LIST.
func (l *Log) Latest(ctx context.Context) (LogEntry, error) {
	e, err := l.latest(ctx)
	return e, l.fail("latest", err)
}

func (l *Log) latest(ctx context.Context) (last LogEntry, err error) {
	l.mu.Lock()
	last = l.last
	l.mu.Unlock()
	if last.Number == 0 {
		f, err := l.readFloor(ctx)
		if err != nil || f.Floor == 0 {
			return LogEntry{}, err
		}
		last.Number = f.Floor - 1 // whether it is there does not matter
	}
	// There is an entry at last, or it is what the search begins at; there was none at
	// beyond.
	beyond := uint64(0)
	for step := uint64(1); beyond == 0 || beyond-last.Number > 1; {
		next := last.Number + step
		if beyond > 0 {
			next = last.Number + (beyond-last.Number)/2
		}
		e, err := l.stat(ctx, next)
		switch {
		case err != nil:
			return LogEntry{}, err
		case e.ID == "":
			beyond = next
		default:
			last = e
			step *= 2
		}
	}
	f, err := l.readFloor(ctx)
	switch {
	case err != nil:
		return LogEntry{}, err
	case last.ID == "" && f.Floor == 1:
		return LogEntry{}, nil
	case last.ID == "" && f.Floor == last.Number+1:
		return LogEntry{}, f.missing()
	case last.Number < f.Floor:
		l.forget(f.Floor)
		return l.latest(ctx) // the log was trimmed meanwhile
	}
	l.remember(last)
	return last, nil
}

// forget forgets entries below the floor.
func (l *Log) forget(floor uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last.Number < floor {
		l.last = LogEntry{}
	}
}
