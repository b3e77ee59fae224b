package engine_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

// fault is how a request goes wrong.
type fault int

const (
	right         fault = iota
	lost                // applied, reply lost
	dropped             // not applied, reply lost
	twice               // applied, then repeated on the way: the answer is that to the repetition
	busy                // refused for now
	denied              // refused for good
	delayed             // reply lost, and applied when release is called
	faster              // the write of another program is applied first
	fasterTen           // ten writes of other programs are applied first
	fasterDeleted       // another program creates and deletes it first
	lostFaster
	lostSeven
	lostEight
	lostDeleted
	twiceSeven // applied, and superseded by seven writes; the answer is that to a repetition
	twiceEight
)

var errLost = fmt.Errorf("%w: the reply was lost", store.ErrUnavailable)

// server is a table with compare-and-swap in memory. Its requests go wrong by a list.
type server struct {
	tags         bool // it gives states tags, and compares those
	carriesState bool // its refusals carry the current state
	number       bool

	broken

	mu     sync.Mutex
	rows   map[string]engine.Stored
	tag    int
	faults []fault          // of the next writes
	each   func(n int) bool // whether the reply to request n is lost
	before func(n int)      // called before request n
	count  int
	calls  []string
	late   []func()
}

// broken is what is wrong with a server.
type broken struct {
	ignoresAbsent, ignoresMatch, createsOnMatch, writesAnyway, sameTags, noConditions bool
}

func (s *server) open(t *testing.T, change func(*engine.Options)) *engine.Store {
	t.Helper()
	o := engine.Options{
		Traits: store.Traits{Name: "table", ConflictCarriesState: s.carriesState}, Trusted: true, Tags: s.tags, Numbered: s.number,
	}
	if change != nil {
		change(&o)
	}
	st, err := engine.New(s, &o)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func (s *server) note(call string) (loses bool) {
	s.calls = append(s.calls, call)
	s.count++
	return s.each != nil && s.each(s.count)
}

// requests returns the calls since the last time.
func (s *server) requests() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := strings.Join(s.calls, " ")
	s.calls = nil
	return calls
}

// begin calls what the test wants to happen before the request that begins.
func (s *server) begin() {
	if s.before != nil {
		s.before(s.count + 1)
	}
}

func (s *server) Read(_ context.Context, key string, seen engine.Tag) (engine.Stored, error) {
	s.begin()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.note("read") {
		return engine.Stored{}, errLost
	}
	row, ok := s.rows[key]
	switch {
	case !ok:
		return engine.Stored{}, store.ErrNotFound
	case seen != "" && row.Tag == seen:
		return engine.Stored{}, engine.ErrUnchanged
	}
	return row, nil
}

func (s *server) Write(ctx context.Context, key string, on engine.Stored, e engine.Envelope) (engine.Tag, error) {
	s.begin()
	s.mu.Lock()
	loses := s.note("write")
	next := right
	if len(s.faults) > 0 {
		next, s.faults = s.faults[0], s.faults[1:]
	}
	s.mu.Unlock()
	write := func() (engine.Tag, error) { return s.swap(key, on, e) }
	others := map[fault]int{faster: 1, fasterTen: 10, lostFaster: 1, lostSeven: 7, lostEight: 8, twiceSeven: 7, twiceEight: 8}[next]
	switch next {
	case dropped:
		return "", errLost
	case busy:
		return "", engine.ErrBusy
	case denied:
		return "", store.ErrDenied
	case delayed:
		s.late = append(s.late, func() { _, _ = write() })
		return "", errLost
	case faster, fasterTen:
		s.others(ctx, key, others)
	case fasterDeleted:
		s.others(ctx, key, 1)
		s.remove(ctx, key)
	case twice, twiceSeven, twiceEight:
		_, _ = write()
		s.others(ctx, key, others)
	}
	tag, err := write()
	switch next {
	case lostFaster, lostSeven, lostEight:
		s.others(ctx, key, others)
	case lostDeleted:
		s.remove(ctx, key)
	case lost:
	default:
		if !loses {
			return tag, err
		}
	}
	return "", errLost
}

// swap is the atomic step.
func (s *server) swap(key string, on engine.Stored, e engine.Envelope) (engine.Tag, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.noConditions {
		return "", store.MarkNotApplied(errors.ErrUnsupported)
	}
	row, there := s.rows[key]
	fits := there == !on.Absent() && row.ID() == on.ID()
	if s.tags {
		fits = there == !on.Absent() && row.Tag == on.Tag
	}
	switch {
	case on.Absent():
		fits = fits || s.ignoresAbsent
	case !there:
		fits = s.ignoresMatch || s.createsOnMatch
	default:
		fits = fits || s.ignoresMatch
	}
	if fits || s.writesAnyway {
		s.tag++
		made := engine.Stored{Envelope: e}
		if s.tags {
			made.Tag = engine.Tag(fmt.Sprintf("%q", fmt.Sprintf("%08x", s.tag)))
			if s.sameTags {
				made.Tag = "tag"
			}
		}
		if s.rows == nil {
			s.rows = make(map[string]engine.Stored)
		}
		s.rows[key] = made
		if fits {
			return made.Tag, nil
		}
	}
	if s.carriesState {
		return "", &engine.ConditionFailedError{HasCurrent: true, Current: row}
	}
	return "", store.ErrConflict
}

func (s *server) List(_ context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		s.mu.Lock()
		rows := maps.Clone(s.rows)
		s.mu.Unlock()
		for _, key := range slices.Sorted(maps.Keys(rows)) {
			if !rows[key].Deleted && (prefix == "" || strings.HasPrefix(key, prefix+"/")) && !yield(key, nil) {
				return
			}
		}
	}
}

func (s *server) Remove(_ context.Context, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	loses := s.note("remove")
	delete(s.rows, key)
	if loses {
		return errLost
	}
	return nil
}

// honest returns another program's store on the same rows; the server honours its
// conditions.
func (s *server) honest() *engine.Store {
	st, err := engine.New(&honest{s}, &engine.Options{Traits: store.Traits{Name: "table"}, Trusted: true, Tags: s.tags, Numbered: s.number})
	if err != nil {
		panic(err)
	}
	return st
}

type honest struct{ *server }

func (h *honest) Read(_ context.Context, key string, _ engine.Tag) (engine.Stored, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if row, ok := h.rows[key]; ok {
		return row, nil
	}
	return engine.Stored{}, store.ErrNotFound
}

func (h *honest) Write(_ context.Context, key string, on engine.Stored, e engine.Envelope) (engine.Tag, error) {
	return h.swap(key, on, e)
}

// others writes to a register as another process does.
func (s *server) others(ctx context.Context, key string, count int) {
	st := s.honest()
	for i := range count {
		_, v, err := st.Get(ctx, key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			panic(err)
		}
		if _, err := st.Put(ctx, key, v, fmt.Appendf(nil, "another's %d", i)); err != nil {
			panic(err)
		}
	}
}

func (s *server) remove(ctx context.Context, key string) {
	st := s.honest()
	_, v, err := st.Get(ctx, key)
	if err == nil {
		err = st.Delete(ctx, key, v)
	}
	if err != nil {
		panic(err)
	}
}

// release delivers the delayed requests.
func (s *server) release() {
	for _, write := range s.late {
		write()
	}
	s.late = nil
}

// kinds runs f on each kind of server.
func kinds(t *testing.T, f func(t *testing.T, s *server)) {
	t.Run("tags", func(t *testing.T) { f(t, &server{tags: true}) })
	t.Run("carries the state", func(t *testing.T) { f(t, &server{carriesState: true, number: true}) })
	t.Run("silent", func(t *testing.T) { f(t, &server{}) })
}
