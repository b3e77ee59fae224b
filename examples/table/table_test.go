package table_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/examples/table"
	"github.com/holdfast-go/holdfast/examples/table/tabletest"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/dirbucket"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// The test binary is also the program.
func TestMain(m *testing.M) {
	if role := os.Getenv("HOLDFAST_TABLE_ROLE"); role != "" {
		tab, err := open(os.Getenv("HOLDFAST_TABLE_DIR"))
		if err == nil {
			err = tabletest.Work(context.Background(), tab, role, os.Stdout)
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// open opens the table in a directory, for as long as the process lives.
func open(dir string) (*table.Table, error) {
	bucket, err := dirbucket.Open(filepath.Join(dir, "objects"), nil)
	if err != nil {
		return nil, err
	}
	locks, err := filestore.Open(filepath.Join(dir, "locks"), nil)
	if err != nil {
		return nil, err
	}
	return on(bucket, locks)
}

func on(bucket object.Bucket, locks store.Store) (*table.Table, error) {
	client, err := object.New(bucket, nil)
	if err != nil {
		return nil, err
	}
	leases, err := lease.New(locks, &lease.Options{TTL: 2 * time.Second})
	if err != nil {
		return nil, err
	}
	return table.Open(client, leases, "orders")
}

// TestKilledAtRandom kills writers, compactors and readers of a table in a directory.
func TestKilledAtRandom(t *testing.T) {
	d := 4 * time.Second
	if os.Getenv("HOLDFAST_TORTURE") != "" {
		d = 3 * time.Minute
	}
	dir := t.TempDir()
	command := func(role string) *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "HOLDFAST_TABLE_ROLE="+role, "HOLDFAST_TABLE_DIR="+dir)
		return cmd
	}
	tabletest.Run(t, func() (*table.Table, error) { return open(dir) }, command, d)
}

// world is a table in memory.
type world struct {
	bucket *membucket.Bucket
	locks  *memstore.Store
}

func newWorld() *world { return &world{membucket.New(), memstore.New()} }

// open opens the table, as another process would, and lets its requests meet faults.
func (w *world) open(t *testing.T, decide func(objecttest.Call) objecttest.Fault) (*table.Table, *objecttest.Faulty) {
	t.Helper()
	b := objecttest.NewFaulty(w.bucket, decide)
	tab, err := on(b, w.locks)
	if err != nil {
		t.Fatal(err)
	}
	return tab, b
}

func insert(t *testing.T, tab *table.Table, rows ...string) {
	t.Helper()
	if err := tab.Insert(t.Context(), rows...); err != nil {
		t.Fatal(err)
	}
}

func compact(t *testing.T, tab *table.Table, times int) {
	t.Helper()
	for range times {
		if err := tab.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func rows(t *testing.T, tab *table.Table) string {
	t.Helper()
	all, err := tab.Rows(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// TestRowsAboveTheBound: what is committed can be read again. A table above the bound of a file keeps its files.
func TestRowsAboveTheBound(t *testing.T) {
	w := newWorld()
	tab, _ := w.open(t, nil)
	row := strings.Repeat("x", 33<<20)
	if err := tab.Insert(t.Context(), row, row); store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("66 MiB at once: %v", err)
	}
	insert(t, tab, row)
	insert(t, tab, row)
	if err := tab.Compact(t.Context()); err == nil {
		t.Error("a file of 66 MiB")
	}
	if rows, err := tab.Rows(t.Context()); err != nil || len(rows) != 2 {
		t.Errorf("%d rows, %v; want 2", len(rows), err)
	}
}

// TestSlowWriter: a writer is stopped between its upload and its commit, while two
// compactions remove what was begun before them. Its rows get into the table all the same.
func TestSlowWriter(t *testing.T) {
	w := newWorld()
	other, _ := w.open(t, nil)
	insert(t, other, "one")
	stopped := false
	slow, _ := w.open(t, func(c objecttest.Call) objecttest.Fault {
		if c.Op == "put" && strings.Contains(c.Key, "/log/") && !stopped {
			stopped = true
			insert(t, other, "two")
			compact(t, other, 3)
			if missing, unnamed, err := other.Check(t.Context()); err != nil || len(missing) > 0 || len(unnamed) > 0 {
				t.Errorf("missing %q, left over %q, %v", missing, unnamed, err)
			}
		}
		return objecttest.Pass
	})
	insert(t, slow, "slow")
	if got := rows(t, other); got != "one slow two" {
		t.Errorf("the rows are %q", got)
	}
}

// TestUploadDuringCompaction: a writer is stopped between its upload and its commit during
// one compaction. It need not upload again.
func TestUploadDuringCompaction(t *testing.T) {
	w := newWorld()
	other, _ := w.open(t, nil)
	insert(t, other, "one")
	compact(t, other, 1)
	stopped := false
	slow, calls := w.open(t, func(c objecttest.Call) objecttest.Fault {
		if c.Op == "put" && strings.Contains(c.Key, "/log/") && !stopped {
			stopped = true
			compact(t, other, 1)
		}
		return objecttest.Pass
	})
	insert(t, slow, "slow")
	uploads := 0
	for _, c := range calls.Calls() {
		if c.Op == "put" && strings.Contains(c.Key, "/data/") {
			uploads++
		}
	}
	if got := rows(t, other); got != "one slow" || uploads != 1 {
		t.Errorf("the rows are %q, after %d uploads", got, uploads)
	}
}

// TestStoppedCompactor: a compactor is stopped before its commit, past its lease, and
// another one compacts meanwhile. The first is refused.
func TestStoppedCompactor(t *testing.T) {
	w := newWorld()
	other, _ := w.open(t, nil)
	insert(t, other, "one")
	insert(t, other, "two")
	puts := 0
	var slow *table.Table
	slow, _ = w.open(t, func(c objecttest.Call) objecttest.Fault {
		if c.Op == "put" && strings.Contains(c.Key, "/log/") {
			if puts++; puts == 2 {
				w.locks = memstore.New() // the lease has expired
				next, err := on(w.bucket, w.locks)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Millisecond) // a token is the time at which the lock was made
				compact(t, next, 1)
				insert(t, next, "three")
			}
		}
		return objecttest.Pass
	})
	err := slow.Compact(t.Context())
	if err == nil || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("the stopped compactor: %v", err)
	}
	if got := rows(t, other); got != "one three two" {
		t.Errorf("the rows are %q", got)
	}
}

// TestReaderOfAnOldSnapshot: the files that a reader is about to read are compacted and
// removed.
func TestReaderOfAnOldSnapshot(t *testing.T) {
	w := newWorld()
	other, _ := w.open(t, nil)
	for _, row := range []string{"one", "two", "three"} {
		insert(t, other, row)
	}
	stopped := false
	reader, _ := w.open(t, func(c objecttest.Call) objecttest.Fault {
		if strings.Contains(c.Key, "/data/") && !stopped {
			stopped = true
			compact(t, other, 3)
		}
		return objecttest.Pass
	})
	if got := rows(t, reader); got != "one three two" {
		t.Errorf("the rows are %q", got)
	}
}

// TestDamaged: a file of the table is missing. Rows reports that, and ends.
func TestDamaged(t *testing.T) {
	w := newWorld()
	tab, _ := w.open(t, nil)
	insert(t, tab, "one")
	for info := range w.bucket.List(t.Context(), "orders/data/", nil) {
		if err := w.bucket.Delete(t.Context(), info.Key, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tab.Rows(t.Context()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if missing, _, err := tab.Check(t.Context()); err != nil || len(missing) != 1 {
		t.Errorf("missing: %q, %v", missing, err)
	}
	if err := tab.Insert(t.Context(), "a\nb"); store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("a row of two lines: %v", err)
	}
}
