package reserve_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/compat/reserve"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/store"
)

var errLost = fmt.Errorf("%w: the reply is lost", store.ErrUnavailable)

// table is a table in memory, as DynamoDB would be one.
type table struct {
	mu    sync.Mutex
	rows  map[string]reserve.Row
	calls []string

	// inner has the rows instead, if it is not nil. released is when a row was last released there.
	inner    reserve.Table
	released time.Time

	// fault is asked before each call, with its number from 1 on.
	fault func(number int, op string) fault
}

type fault struct {
	before, after time.Duration // until the call takes effect, and until it is answered
	lose, fail    bool          // the answer is lost; the request is lost
}

func newTable() *table { return &table{rows: make(map[string]reserve.Row)} }

func (*table) id(r reserve.Row) string {
	return r.Key + "\x00" + string(r.Version)
}

// call writes a row, by inner or if the row that is there holds.
func (t *table) call(op string, row reserve.Row, holds func(current reserve.Row, found bool) bool, inner func() (reserve.WriteResult, error)) (reserve.WriteResult, error) {
	t.mu.Lock()
	t.calls = append(t.calls, op)
	var f fault
	if t.fault != nil {
		f = t.fault(len(t.calls), op)
	}
	t.mu.Unlock()
	time.Sleep(f.before)
	if f.fail {
		return reserve.WriteResult{}, errLost
	}
	var placed reserve.WriteResult
	var err error
	if t.inner != nil {
		placed, err = inner()
		if row.Timeout == 0 {
			t.mu.Lock()
			t.released = time.Now()
			t.mu.Unlock()
		}
	} else {
		t.mu.Lock()
		current, found := t.rows[t.id(row)]
		if holds(current, found) {
			row.Tag = fmt.Sprint(row.TTL)
			t.rows[t.id(row)] = row
		} else {
			err = &reserve.ConflictError{HasRow: found, Row: current}
		}
		t.mu.Unlock()
		placed.Tag = fmt.Sprint(row.TTL)
	}
	time.Sleep(f.after)
	if f.lose {
		return reserve.WriteResult{}, errLost
	}
	placed.Now = time.Now()
	return placed, err
}

func (t *table) Insert(ctx context.Context, row reserve.Row) (reserve.WriteResult, error) {
	return t.call("insert", row, func(_ reserve.Row, found bool) bool { return !found }, func() (reserve.WriteResult, error) { return t.inner.Insert(ctx, row) })
}

func (t *table) Replace(ctx context.Context, seen, row reserve.Row) (reserve.WriteResult, error) {
	return t.call("replace", row, func(current reserve.Row, found bool) bool {
		return found && current.Generation == seen.Generation && current.TTL == seen.TTL && current.Nonce == seen.Nonce
	}, func() (reserve.WriteResult, error) { return t.inner.Replace(ctx, seen, row) })
}

// put writes a row as another program would.
func (t *table) put(row reserve.Row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	row.Tag = fmt.Sprint(row.TTL)
	t.rows[t.id(row)] = row
}

func (t *table) row(key string, v object.Version) (reserve.Row, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, ok := t.rows[t.id(reserve.Row{Key: key, Version: v})]
	return r, ok
}

func (t *table) remove(key string, v object.Version) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.rows, t.id(reserve.Row{Key: key, Version: v}))
}

// reset forgets the calls and returns them.
func (t *table) reset() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	calls := t.calls
	t.calls = nil
	return calls
}

// bucket counts the requests of a bucket.
type bucket struct {
	object.Bucket
	mu    sync.Mutex
	stats int
}

func newBucket() *bucket { return &bucket{Bucket: membucket.New()} }

func (b *bucket) Stat(ctx context.Context, key string) (object.Info, error) {
	b.mu.Lock()
	b.stats++
	b.mu.Unlock()
	return b.Bucket.Stat(ctx, key)
}

func (b *bucket) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.stats
	b.stats = 0
	return n
}

// write writes a body without a condition.
func (b *bucket) write(t testing.TB, key, body string) object.Version {
	t.Helper()
	info, err := b.Put(context.Background(), key, strings.NewReader(body), nil)
	if err != nil {
		t.Fatal(err)
	}
	return info.Version
}

// put returns an operation that writes a body without a condition.
func (b *bucket) put(key, body string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := b.Put(ctx, key, strings.NewReader(body), nil)
		return err
	}
}

func (b *bucket) body(t testing.TB, key string) string {
	t.Helper()
	body, _, err := object.ReadAll(context.Background(), b.Bucket, key, 1<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// timeout is that of the tests' Reservers, and rule how long a waiter waits for one of
// their rows.
const (
	timeout = time.Second
	rule    = 3 * timeout
)

func reserver(t testing.TB, tab reserve.Table) *reserve.Reserver {
	t.Helper()
	r, err := reserve.New(tab, &reserve.Options{Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// foreign is a row as object_store writes it.
func foreign(key string, v object.Version, generation uint64) reserve.Row {
	return reserve.Row{Key: key, Version: v, Generation: generation, Timeout: timeout, TTL: time.Now().Add(time.Hour).Unix()}
}

// objectStore is a conditional operation with the rules of object_store.
func objectStore(tab *table, key string, base object.Version, timeout time.Duration, check, operate func(context.Context) error) error {
	ctx := context.Background()
	if err := check(ctx); err != nil {
		return err
	}
	var seen *reserve.Row
	for {
		row := foreign(key, base, 0)
		row.Timeout = timeout
		sent := time.Now()
		put := func() error {
			if seen == nil {
				_, err := tab.Insert(ctx, row)
				return err
			}
			row.Generation = seen.Generation + 1
			_, err := tab.call("replace", row, func(current reserve.Row, found bool) bool { return found && current.Generation == seen.Generation }, nil)
			return err
		}
		err := put()
		for errors.Is(err, store.ErrUnavailable) { // its HTTP client repeats it
			err = put()
		}
		var met *reserve.ConflictError
		if !errors.As(err, &met) {
			ctx, cancel := context.WithDeadline(ctx, sent.Add(timeout))
			defer cancel()
			return operate(ctx)
		}
		if !met.HasRow {
			return errors.New("failed to extract lease")
		}
		for since := time.Now(); ; time.Sleep(100 * time.Millisecond) {
			if err := check(ctx); err != nil {
				return err
			}
			if time.Since(since) > 3*met.Row.Timeout {
				seen = &met.Row
				break
			}
		}
	}
}

var errNothingDone = store.MarkNotApplied(errors.New("nothing was done"))
