package largeitem

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

// TestMarks: a set that does not fit into memory knows what was added, and nothing else.
func TestMarks(t *testing.T) {
	for _, c := range []struct{ held, n, fences int }{
		{10, 0, 1}, {20, 9, 1}, {10, 7, 1}, {10, 8, 1}, {10, 10, 9}, {10, 11, 9}, {1, 3, 9}, {100, 5000, 9999}, {100, 5000, 700}, {700, 20_000, 3}, {4096, 4096 * 3, 2},
	} {
		dir := t.TempDir()
		m := &fingerprintSet{dir: dir, max: c.held, maxIndex: int64(c.fences)}
		text := func(i int) string { return fmt.Sprint("text ", i) }
		for _, n := range []int{c.n / 2, c.n} { // half of the texts twice
			for _, i := range rand.Perm(n) {
				if err := m.add(text(i)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := m.seal(); err != nil {
			t.Fatal(err)
		}
		if spilled := m.sorted != nil; spilled != (c.n/2+c.n > c.held) || spilled && m.n != int64(c.n) {
			t.Errorf("%d texts, %d held: spilled: %v, %d in the file", c.n, c.held, spilled, m.n)
		}
		for i := range c.n + 100 {
			found, err := m.has(text(i))
			if err != nil || found != (i < c.n) {
				t.Fatalf("%d texts, %d held: text %d: %v, %v", c.n, c.held, i, found, err)
			}
		}
		if err := m.close(); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("files are left: %v, %v", left, err)
		}
	}
}

// TestMarksFileFails: a file that cannot be written, or was cut, is an error: never a text
// that was not found.
func TestMarksFileFails(t *testing.T) {
	fill := func(m *fingerprintSet) (err error) {
		for i := range 1000 {
			err = errors.Join(err, m.add(fmt.Sprint(i)))
		}
		return err
	}
	m := &fingerprintSet{dir: filepath.Join(t.TempDir(), "none"), max: 100, maxIndex: 10}
	if err := fill(m); err == nil {
		t.Error("no file could be made, and there is no error")
	}
	m = &fingerprintSet{dir: t.TempDir(), max: 100, maxIndex: 10}
	if err := fill(m); err != nil {
		t.Fatal(err)
	}
	if err := m.runs.Truncate(100); err != nil {
		t.Fatal(err)
	}
	if err := m.seal(); err == nil {
		t.Error("the runs were cut, and there is no error")
	}
	m = &fingerprintSet{dir: t.TempDir(), max: 100, maxIndex: 10}
	if err := errors.Join(fill(m), m.runs.File.Close()); err != nil {
		t.Fatal(err)
	}
	if err := m.seal(); err == nil {
		t.Error("the last run could not be written, and there is no error")
	}
	m = &fingerprintSet{dir: t.TempDir(), max: 100, maxIndex: 10}
	if err := errors.Join(fill(m), m.seal(), m.sorted.Truncate(0)); err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		if found, err := m.has(fmt.Sprint(i)); err == nil && !found {
			t.Fatalf("the file was cut, and text %d is not found without an error", i)
		}
	}
	if err := m.close(); err != nil {
		t.Error(err)
	}
}

// checkNonZero checks that no field of a struct is zero: a test of all fields notices a new one.
func checkNonZero(t *testing.T, v reflect.Value) {
	t.Helper()
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.Struct && v.Field(i).Type() != reflect.TypeFor[time.Time]() {
			checkNonZero(t, v.Field(i))
		} else if v.Field(i).IsZero() {
			t.Errorf("%s.%s is not set", v.Type(), v.Type().Field(i).Name)
		}
	}
}

// TestQueue: orphans come back as they were, whatever bytes their names have.
func TestQueue(t *testing.T) {
	q, err := newQueue(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer q.file.Close()
	var want []Orphan
	for i := range 3000 {
		o := Orphan{
			Object: fmt.Sprintf("k/\xff%d", i), Version: "v \"", Size: int64(i + 1), Modified: time.Unix(int64(i), 5).UTC(),
			Owner: Owner{Table: "T", Key: mustKey("a", i), Attr: "\n", ID: "id"},
		}
		o.Owner.Key.Partition.Number = true // no field is zero
		if i == 0 {
			checkNonZero(t, reflect.ValueOf(o))
		}
		want = append(want, o)
		if err := q.add(o); err != nil {
			t.Fatal(err)
		}
	}
	for o, err := range q.all {
		if err != nil || o != want[0] {
			t.Fatalf("got %+v, %v, want %+v", o, err, want[0])
		}
		want = want[1:]
	}
	if len(want) > 0 {
		t.Errorf("%d are missing", len(want))
	}
	q, err = newQueue(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for range 2000 { // more than the buffer holds, so that a part is in the file
		if err := q.add(Orphan{Object: "object"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.file.File.Close(); err != nil {
		t.Fatal(err)
	}
	for o, err := range q.all {
		if err == nil {
			t.Fatalf("the file could not be written, and there is %+v", o)
		}
	}
}
