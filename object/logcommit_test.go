package object_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/store"
)

// Writers that commit at the same time lose no entry, and each has seen all entries before its
// own when it writes: the body is their number.
func TestLogCommit(t *testing.T) {
	b := membucket.New()
	const writers, each = 4, 10
	var all sync.WaitGroup
	for range writers {
		l := newLog(t, b)
		all.Go(func() {
			last, seen := uint64(0), 0
			apply := func(e object.LogEntry) error {
				if e.Number != last+1 {
					t.Errorf("entry %d is applied after entry %d", e.Number, last)
				}
				last, seen = e.Number, seen+1
				return nil
			}
			for range each {
				e, err := l.Commit(t.Context(), last, apply, func() ([]byte, error) { return fmt.Append(nil, seen+1), nil })
				if err != nil {
					t.Error(err)
					return
				}
				if err := apply(e); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	n := 0
	for e, err := range newLog(t, b).Read(t.Context(), 0) {
		if n++; err != nil || string(e.Body) != fmt.Sprint(n) {
			t.Errorf("entry %d: %s, %v", e.Number, e.Body, err)
		}
	}
	if n != writers*each {
		t.Errorf("%d entries, want %d", n, writers*each)
	}
}

// What the functions return ends a commit, and nothing is appended. Entries that were removed
// are a TrimmedError.
func TestLogCommitEnds(t *testing.T) {
	b := membucket.New()
	l := newLog(t, b)
	fill(t, l, 5)
	errMine := errors.New("mine")
	entry := func() ([]byte, error) { return []byte("6"), nil }
	unchanged := func(what string, err error) {
		t.Helper()
		if store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("%s: the outcome of %v is %v", what, err, store.OutcomeOf(err))
		}
		if last, err := l.Latest(t.Context()); err != nil || last.Number != 5 {
			t.Errorf("%s: the last entry is %d, %v", what, last.Number, err)
		}
	}
	_, err := l.Commit(t.Context(), 5, nil, func() ([]byte, error) { return nil, errMine })
	if unchanged("body", err); !errors.Is(err, errMine) {
		t.Errorf("body: %v", err)
	}
	var seen []string
	_, err = l.Commit(t.Context(), 2, func(e object.LogEntry) error {
		if seen = append(seen, string(e.Body)); len(seen) == 2 {
			return errMine
		}
		return nil
	}, entry)
	if unchanged("apply", err); !errors.Is(err, errMine) || !slices.Equal(seen, strings.Fields("3 4")) {
		t.Errorf("apply of %v: %v", seen, err)
	}
	if err := l.Trim(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	_, err = newLog(t, b).Commit(t.Context(), 1, nil, entry)
	var trimmed *object.TrimmedError
	if unchanged("trimmed", err); !errors.As(err, &trimmed) || trimmed.First != 4 {
		t.Errorf("trimmed: %v", err)
	}
	if e, err := l.Commit(t.Context(), 4, nil, entry); err != nil || e.Number != 6 {
		t.Errorf("entry %d, %v", e.Number, err)
	}
}

// If the store refuses an entry several times because of the write of another writer, Commit tries again.
func TestLogCommitBusy(t *testing.T) {
	b := &changed{Bucket: membucket.New()}
	l := newLog(t, b)
	fill(t, l, 2)
	b.busy = 8
	e, err := l.Commit(t.Context(), 2, nil, func() ([]byte, error) { return nil, nil })
	if err != nil || e.Number != 3 {
		t.Errorf("entry %d, %v", e.Number, err)
	}
}
