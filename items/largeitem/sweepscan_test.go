package largeitem_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// newMate returns a swept in the layout of pynamodb_mate.
func newMate(t *testing.T) *swept {
	t.Helper()
	s := newSwept(t, &largeitem.Options{Layout: largeitem.PynamoDBMateLayout(), BaseURI: "s3://bucket"})
	if err := s.bucket.Delete(t.Context(), "p/T/.table", nil); err != nil {
		t.Fatal(err)
	}
	s.put("p/.table", s.markerText())
	return s
}

// mate puts an object named by its content and, if id is not 0, by a write of ours.
func (s *swept) mate(pk, attr string, md5, id int) (key, reference string) {
	s.t.Helper()
	key = fmt.Sprintf("p/pk=%s/attr=%s/md5=%032x", pk, attr, md5)
	if id != 0 {
		key += fmt.Sprintf(".id=%032x", id)
	}
	s.put(key, "body")
	return key, "s3://bucket/" + key
}

// TestSweepMateLayout: in the layout of pynamodb_mate the whole table is read first. Objects
// that a write of this package named are removed; those named by their content alone only
// where no other program writes.
func TestSweepMateLayout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newMate(t)
		theirs, theirReference := s.mate("a", "x", 1, 0)
		ours, ourReference := s.mate("b", "x", 1, 1)
		s.table.set("a", "x", theirReference)
		s.table.set("b", "x", ourReference)
		theirOrphan, _ := s.mate("a", "x", 2, 0)
		ourOrphan, _ := s.mate("b", "x", 1, 2)
		copied, copiedReference := s.mate("c", "x", 1, 3)
		s.table.set("copy", "y", copiedReference)
		ambiguous := "p/pk=a/sk=b/attr=x/md5=" + strings.Repeat("0", 32)
		s.put(ambiguous, "one of two keys")
		s.put("p/pk=a/attr=x/md5=new", "not a hash")
		time.Sleep(day + time.Second)
		young, _ := s.mate("d", "x", 1, 4)
		s.table.items[textKey("null")] = largeitem.Attributes{"x": nil}

		s.expect(&largeitem.SweepOptions{DryRun: true, Exclusive: true}, largeitem.SweepStats{Foreign: 2, TooYoung: 1, Referenced: 3, Deleted: 2})
		s.expect(nil, largeitem.SweepStats{Foreign: 2, TooYoung: 1, Referenced: 3, Shared: 1, Deleted: 1})
		if s.has(ourOrphan) || !s.has(theirOrphan) {
			t.Errorf("there are %q", s.keys())
		}
		s.expect(&largeitem.SweepOptions{Exclusive: true}, largeitem.SweepStats{Foreign: 2, TooYoung: 1, Referenced: 3, Deleted: 1})
		for _, key := range []string{theirs, ours, copied, ambiguous, young} {
			if !s.has(key) {
				t.Errorf("%s was removed", key)
			}
		}
		if s.has(theirOrphan) {
			t.Errorf("%s is left", theirOrphan)
		}
	})
}

// TestSweepScanLooksAgain: a sweep that scans looks at the item of each orphan again, after
// it has listed the bucket.
func TestSweepScanLooksAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newMate(t)
		orphan, reference := s.mate("a", "x", 1, 1)
		time.Sleep(day + time.Second)
		s.table.onLook = func(int, []largeitem.Key) error {
			s.table.set("a", "x", reference)
			return nil
		}
		s.expect(nil, largeitem.SweepStats{Referenced: 1})
		s.table.set("a", "x", "s3://other/pk=a/attr=x/md5="+strings.Repeat("0", 32))
		s.table.onLook = nil
		s.expect(nil, largeitem.SweepStats{Unreadable: 1})
		if !s.has(orphan) {
			t.Error("the object was removed")
		}
	})
}

// TestSweepScanTakesLong: objects that became old while the table was scanned are kept,
// since the scan may have passed their items before they were written.
func TestSweepScanTakesLong(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSwept(t, nil)
		time.Sleep(time.Hour)
		key := s.object("a", "x", 1)
		s.table.onScan = func(int) error {
			time.Sleep(2 * day)
			return nil
		}
		s.expect(&largeitem.SweepOptions{Scan: true}, largeitem.SweepStats{TooYoung: 1})
		s.expect(&largeitem.SweepOptions{Scan: true}, largeitem.SweepStats{Deleted: 1})
		if s.has(key) {
			t.Error("the control: it is old enough for the second sweep")
		}
	})
}

// TestSweepScanFailures: nothing is removed unless the scan and the listing were complete,
// and no temporary file is left.
func TestSweepScanFailures(t *testing.T) {
	for name, fail := range map[string]func(s *swept, o *largeitem.SweepOptions){
		"first row": func(s *swept, _ *largeitem.SweepOptions) { s.table.onScan = func(row int) error { return at(row, 0) } },
		"middle":    func(s *swept, _ *largeitem.SweepOptions) { s.table.onScan = func(row int) error { return at(row, 50) } },
		"end": func(s *swept, _ *largeitem.SweepOptions) {
			s.table.onScan = func(row int) error { return at(row, 100) }
		},
		"listing":      func(s *swept, _ *largeitem.SweepOptions) { s.list.cut = errTest },
		"no directory": func(_ *swept, o *largeitem.SweepOptions) { o.Dir += "/none" },
		"stat": func(s *swept, _ *largeitem.SweepOptions) {
			s.list.stat = func(info object.Info) object.Info { info.Now = time.Time{}; return info }
		},
		"look-up": func(s *swept, _ *largeitem.SweepOptions) {
			s.table.onLook = func(int, []largeitem.Key) error { return errTest }
		},
	} {
		bubbles(t, name, func(t *testing.T) {
			s := newSwept(t, nil)
			for i := range 100 {
				pk := fmt.Sprintf("k%05d", i)
				s.table.set(pk, "x", refer(s.object(pk, "x", 1)))
				s.object(pk, "x", 2)
			}
			time.Sleep(day + time.Second)
			o := largeitem.SweepOptions{Scan: true, Dir: t.TempDir()}
			dir := o.Dir
			fail(s, &o)
			got, err := s.sweep(&o)
			if name == "stat" {
				if err != nil || got.Undated != 200 {
					t.Errorf("without a time at which the scan began: %v, %+v", err, got)
				}
			} else if err == nil || name != "no directory" && !errors.Is(err, errTest) {
				t.Errorf("the error is %v", err)
			}
			if got.Deleted != 0 || len(s.keys()) != 201 {
				t.Errorf("%d objects are left: %+v", len(s.keys()), got)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("temporary files are left: %v, %v", left, err)
			}
		})
	}
}

func at(row, n int) error {
	if row == n {
		return errTest
	}
	return nil
}

// TestSweepScanCalls: how many requests a sweep makes that scans.
func TestSweepScanCalls(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSwept(t, nil)
		for i := range 3000 {
			pk := fmt.Sprintf("k%05d", i)
			key := s.object(pk, "x", 1)
			if i >= 250 {
				s.table.set(pk, "x", refer(key))
			}
		}
		time.Sleep(day + time.Second)
		s.expect(&largeitem.SweepOptions{Scan: true, Dir: t.TempDir()}, largeitem.SweepStats{Referenced: 2750, Deleted: 250})
		if got, want := s.list.made(), "delete 250, get 1, list 1, stat 1"; got != want || s.table.many != 3 || s.table.looks != 250 {
			t.Errorf("requests: %s, %d look-ups at %d items; want %s, 3 at 250", got, s.table.many, s.table.looks, want)
		}
	})
}

// TestSweepHashedNames: where the name has only a hash of the key, the metadata has the
// key, and must fit to the name.
func TestSweepHashedNames(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSwept(t, nil)
		long := strings.Repeat("long ", 100)
		name := func(id int) string { return s.hashedName(long, "x", id) }
		if !strings.HasPrefix(name(1), "p/T/key=") {
			t.Fatalf("the name is %s", name(1))
		}
		write := func(id int, metadata map[string]string) string {
			if _, err := s.bucket.Put(t.Context(), name(id), strings.NewReader("body"), &object.PutOptions{Metadata: metadata}); err != nil {
				t.Fatal(err)
			}
			return name(id)
		}
		quoted := fmt.Sprintf("%q", long)
		kept, orphan := write(1, map[string]string{"pk": quoted}), write(2, map[string]string{"pk": quoted})
		foreign := []string{
			write(3, nil), write(4, map[string]string{"pk": `"another"`}), write(5, map[string]string{"pk": `"`}),
			write(6, map[string]string{"pk": quoted, "sk": `"b"`}), write(7, map[string]string{"pk": "7"}),
		}
		s.table.set(long, "x", refer(kept))
		time.Sleep(day + time.Second)
		young := write(8, nil)
		want := largeitem.SweepStats{Foreign: 5, TooYoung: 1, Referenced: 1, Deleted: 1}
		s.expect(&largeitem.SweepOptions{Scan: true, DryRun: true}, want)
		s.list.calls = nil
		s.expect(nil, want)
		if got, want := s.list.made(), "delete 1, get 1, list 1, stat 7"; got != want {
			t.Errorf("requests: %s, want %s: none for what is young", got, want)
		}
		for _, key := range append(foreign, kept, young) {
			if !s.has(key) {
				t.Errorf("%s was removed", key)
			}
		}
		if s.has(orphan) {
			t.Errorf("%s is left", orphan)
		}
	})
}

// TestSweepNothing: where nothing was ever written there is nothing to sweep.
func TestSweepNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSwept(t, nil)
		if err := s.bucket.Delete(t.Context(), "p/T/.table", nil); err != nil {
			t.Fatal(err)
		}
		s.put("p/Tb/.table", "")
		for _, o := range []largeitem.SweepOptions{{}, {Scan: true}} {
			if got, err := s.sweep(&o); err != nil || !got.Complete || got.Seen != 0 {
				t.Errorf("%v, %+v", err, got)
			}
		}
		if got := s.keys(); !slices.Equal(got, []string{"p/Tb/.table"}) {
			t.Errorf("there are %q", got)
		}
	})
}

// versioned is a bucket that keeps versions, or says so.
type versioned struct {
	*listing
	keeps   bool
	denied  error
	refuses bool
	removed []string
}

func (v *versioned) KeepsVersions(context.Context) (bool, error) { return v.keeps, v.denied }

func (v *versioned) RemoveVersion(ctx context.Context, listed object.Info) error {
	if v.refuses {
		return &object.UnsupportedError{Ability: object.RemoveVersion}
	}
	now, err := v.Bucket.Stat(ctx, listed.Key)
	if err == nil && !now.Modified.Equal(listed.Modified) {
		err = &object.ConflictError{Key: listed.Key}
	}
	if err == nil {
		v.removed = append(v.removed, listed.Key)
		err = v.Bucket.Delete(ctx, listed.Key, nil)
	}
	return err
}

// TestSweepVersions: objects that are named by their content alone are removed by version
// where the bucket keeps versions, and kept elsewhere.
func TestSweepVersions(t *testing.T) {
	for name, c := range map[string]struct {
		bucket versioned
		again  bool // the content is uploaded again meanwhile
		want   largeitem.SweepStats
	}{
		"kept":            {versioned{keeps: true}, false, largeitem.SweepStats{Deleted: 2}},
		"not kept":        {versioned{}, false, largeitem.SweepStats{Deleted: 1, Shared: 1}},
		"not any more":    {versioned{keeps: true, refuses: true}, false, largeitem.SweepStats{Deleted: 1, Shared: 1}},
		"no right to ask": {versioned{denied: store.ErrDenied}, false, largeitem.SweepStats{Deleted: 1, Shared: 1}},
		"uploaded again":  {versioned{keeps: true}, true, largeitem.SweepStats{Deleted: 1, ChangedMeanwhile: 1}},
	} {
		bubbles(t, name, func(t *testing.T) {
			s := newMate(t)
			theirs, _ := s.mate("a", "x", 1, 0)
			ours, _ := s.mate("a", "x", 1, 1)
			time.Sleep(day + time.Second)
			b := &c.bucket
			b.listing = s.list
			var err error
			if s.store, err = largeitem.New(s.table, b, &largeitem.Options{Prefix: "p", BaseURI: "s3://bucket", Layout: largeitem.PynamoDBMateLayout()}); err != nil {
				t.Fatal(err)
			}
			s.table.onLook = func(int, []largeitem.Key) error {
				if c.again {
					s.put(theirs, "body")
				}
				return nil
			}
			s.expect(nil, c.want)
			if s.has(ours) || s.has(theirs) == (len(b.removed) == 1) {
				t.Errorf("there are %q; by version were removed %q", s.keys(), b.removed)
			}
		})
	}
}
