package largeitem_test

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/items/storetable"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// whole puts an object, and makes an item refer to it with the right size and hash.
func (s *swept) whole(pk, attr string, id int, body string) (key string) {
	s.t.Helper()
	key = s.object(pk, attr, id)
	s.put(key, body)
	s.table.set(pk, attr, sound(key, body))
	return key
}

func sound(key, body string) string {
	return fmt.Sprintf("%s/%s#sha256=%x&size=%d", sweptBase, key, sha256.Sum256([]byte(body)), len(body))
}

// verified is a report in short words.
func verified(v largeitem.VerifyStats) string {
	return fmt.Sprintf("%d items, %d references, %d bytes, %d moved; %d missing, %d damaged, %d foreign, %d unreadable", v.Items, v.References, v.Bytes, v.Moved, v.Missing, v.Damaged, v.Foreign, v.Unreadable)
}

// TestVerify: every kind of problem is found, reported and counted, and nothing else.
func TestVerify(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSwept(t, nil)
		s.whole("a", "x", 1, "body of a")
		s.whole("a", "y", 2, "")
		s.table.set("a", "plain", "https://example.org/#sha256=x")
		s.table.set("a", "null", nil)
		s.table.set("empty", "n", largeitem.Number("1"))
		if got, err := s.store.Verify(t.Context(), nil); err != nil || verified(got) != "2 items, 2 references, 9 bytes, 0 moved; 0 missing, 0 damaged, 0 foreign, 0 unreadable" || !got.Complete || got.Position != `"empty"` {
			t.Errorf("all is sound: %v, %+v", err, got)
		}

		lost := s.whole("lost", "x", 3, "body")
		if err := s.bucket.Delete(t.Context(), lost, nil); err != nil {
			t.Fatal(err)
		}
		s.put(s.whole("changed", "x", 4, "body"), "BODY")
		s.put(s.whole("longer", "x", 5, "body"), "body and more")
		s.table.set("copy", "x", sound("p/T/pk=a/attr=x/"+fmt.Sprintf("%032x", 1), "body of a"))
		s.table.set("elsewhere", "x", strings.Replace(sound("p/T/pk=elsewhere/attr=x/"+fmt.Sprintf("%032x", 6), ""), "mem:", "s3:", 1))
		s.table.set("half", "x", sweptBase+"/p/T/pk=half")

		kinds := map[string]largeitem.ProblemKind{
			"lost": largeitem.Missing, "changed": largeitem.Damaged, "longer": largeitem.Damaged,
			"copy": largeitem.Foreign, "elsewhere": largeitem.Foreign, "half": largeitem.Unreadable,
		}
		errs := map[largeitem.ProblemKind]error{
			largeitem.Missing: largeitem.ErrMissing, largeitem.Damaged: store.ErrCorrupt, largeitem.Foreign: largeitem.ErrForeign, largeitem.Unreadable: largeitem.ErrInvalid,
		}
		told := map[string]bool{}
		got, err := s.store.Verify(t.Context(), &largeitem.VerifyOptions{Report: func(p largeitem.Problem) {
			pk := p.Key.Partition.Text
			if told[pk] || p.Kind != kinds[pk] || p.Attr != "x" || !errors.Is(p.Err, errs[p.Kind]) || p.URI == "" {
				t.Errorf("told: %+v", p)
			}
			told[pk] = true
		}})
		if want := "8 items, 8 references, 9 bytes, 0 moved; 1 missing, 2 damaged, 2 foreign, 1 unreadable"; verified(got) != want || len(told) != 6 || len(got.Problems) != 6 || !got.Complete {
			t.Errorf("got  %s\nwant %s; told of %v", verified(got), want, told)
		}
		if !errors.Is(err, got.Problems[0].Err) {
			t.Errorf("the error is %v, the first problem %v", err, got.Problems[0].Err)
		}

		got, err = s.store.Verify(t.Context(), &largeitem.VerifyOptions{Quick: true, Attributes: []string{"x"}})
		if want := "8 items, 7 references, 13 bytes, 0 moved; 1 missing, 1 damaged, 2 foreign, 1 unreadable"; verified(got) != want || err == nil {
			t.Errorf("quick: got %s, want %s; %v", verified(got), want, err)
		}
	})
}

// TestVerifyNamedAttributes: where the store knows the names of the large attributes, what
// they have must be references, and what others have is the user's.
func TestVerifyNamedAttributes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSwept(t, &largeitem.Options{Attributes: []string{"x"}})
		s.whole("a", "x", 1, "body")
		s.table.set("a", "y", sound("p/T/none", "of the user's"))
		s.table.set("b", "x", "text")
		s.table.set("c", "x", nil)
		s.table.set("d", "x", []byte("bytes"))
		got, err := s.store.Verify(t.Context(), nil)
		if want := "4 items, 3 references, 4 bytes, 0 moved; 0 missing, 0 damaged, 0 foreign, 2 unreadable"; verified(got) != want || err == nil {
			t.Errorf("got %s, want %s; %v", verified(got), want, err)
		}
	})
}

// TestVerifyMateLayout: in the layout of pynamodb_mate the MD5 in the name is verified, and
// the SHA-256 where the metadata has it.
func TestVerifyMateLayout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newMate(t)
		put := func(pk, named, body, sum string) {
			key := fmt.Sprintf("p/pk=%s/attr=x/md5=%x", pk, md5.Sum([]byte(named)))
			var o object.PutOptions
			if sum != "" {
				o.Metadata = map[string]string{"sha256": fmt.Sprintf("%x", sha256.Sum256([]byte(sum)))}
			}
			if _, err := s.bucket.Put(t.Context(), key, strings.NewReader(body), &o); err != nil {
				t.Fatal(err)
			}
			s.table.set(pk, "x", "s3://bucket/"+key)
		}
		put("theirs", "body", "body", "")
		put("ours", "body", "body", "body")
		put("damaged", "body", "BODY", "")
		put("forged", "body", "body", "BODY") // as if two bodies had one MD5
		got, err := s.store.Verify(t.Context(), nil)
		if want := "4 items, 4 references, 8 bytes, 0 moved; 0 missing, 2 damaged, 0 foreign, 0 unreadable"; verified(got) != want || !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("got %s, want %s; %v", verified(got), want, err)
		}
	})
}

// TestVerifyMoved: an item that changes while its object is read has no problem.
func TestVerifyMoved(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(s *swept)
		want      string
	}{
		"replaced": {func(s *swept) { s.whole("a", "x", 2, "new") }, "1 items, 1 references, 3 bytes, 1 moved; 0 missing, 0 damaged, 0 foreign, 0 unreadable"},
		"removed":  {func(s *swept) { s.table.set("a", "x", nil) }, "1 items, 0 references, 0 bytes, 1 moved; 0 missing, 0 damaged, 0 foreign, 0 unreadable"},
		"deleted": {func(s *swept) {
			s.table.mu.Lock()
			delete(s.table.items, textKey("a"))
			s.table.mu.Unlock()
		}, "1 items, 0 references, 0 bytes, 1 moved; 0 missing, 0 damaged, 0 foreign, 0 unreadable"},
		"repaired":  {func(s *swept) { s.put("p/T/pk=a/attr=x/"+fmt.Sprintf("%032x", 1), "body") }, "1 items, 1 references, 4 bytes, 0 moved; 0 missing, 0 damaged, 0 foreign, 0 unreadable"},
		"as it was": {func(*swept) {}, "1 items, 1 references, 0 bytes, 0 moved; 1 missing, 0 damaged, 0 foreign, 0 unreadable"},
	} {
		bubbles(t, name, func(t *testing.T) {
			s := newSwept(t, nil)
			key := s.whole("a", "x", 1, "body")
			if err := s.bucket.Delete(t.Context(), key, nil); err != nil {
				t.Fatal(err)
			}
			s.table.onLook = func(n int, _ []largeitem.Key) error {
				c.meanwhile(s)
				return nil
			}
			got, err := s.store.Verify(t.Context(), nil)
			if verified(got) != c.want || (err != nil) != (name == "as it was") {
				t.Errorf("got  %s\nwant %s; %v", verified(got), c.want, err)
			}
		})
	}
}

// TestVerifyFailures: an object that cannot be read is reported, and the verification
// continues. A table that fails ends it, also with an error that concerns no single item. A
// body that breaks off is read again.
func TestVerifyFailures(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSwept(t, nil)
		for i := range 20 {
			s.whole(fmt.Sprintf("k%02d", i), "x", 1, "a body of some length")
		}
		b := &breaking{listing: s.list, breaks: 1}
		var err error
		if s.store, err = largeitem.New(s.table, b, &largeitem.Options{Prefix: "p", BaseURI: sweptBase}); err != nil {
			t.Fatal(err)
		}
		if got, err := s.store.Verify(t.Context(), nil); err != nil || got.Bytes != 20*21 {
			t.Errorf("a body broke off once: %v, %s", err, verified(got))
		}
		b.breaks, b.only = 1000, "pk=k07"
		if got, err := s.store.Verify(t.Context(), nil); !errors.Is(err, store.ErrUnavailable) || got.Unreadable != 1 || got.Bytes != 19*21 || !got.Complete {
			t.Errorf("a body breaks off each time: %v, %s", err, verified(got))
		}
		b.breaks = 0
		for _, fails := range []error{errTest, store.ErrCorrupt} {
			s.table.onScan = func(row int) error {
				if at(row, 10) != nil {
					return fails
				}
				return nil
			}
			if got, err := s.store.Verify(t.Context(), nil); !errors.Is(err, fails) || got.Complete {
				t.Errorf("the scan failed: %v, %s", err, verified(got))
			}
		}
	})
}

// breaking is a bucket whose bodies break off.
type breaking struct {
	*listing
	breaks int
	only   string
}

func (b *breaking) Get(ctx context.Context, key string, opts *object.GetOptions) (*object.Reader, error) {
	r, err := b.listing.Get(ctx, key, opts)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil && b.breaks > 0 && strings.Contains(key, b.only) {
		b.breaks--
		r.ReadCloser = io.NopCloser(io.MultiReader(io.LimitReader(r.ReadCloser, 5), broken{}))
	}
	return r, err
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, store.ErrUnavailable }

// TestVerifyResumed: a verification continues after the last position, and what it costs is
// one request for each reference. The position stays before the first problem: otherwise the verification that continues
// there would report that there is none.
func TestVerifyResumed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSwept(t, nil)
		keys := make([]string, 1000)
		for i := range keys {
			keys[i] = s.whole(fmt.Sprintf("k%05d", i), "x", 1, "body")
		}
		var positions []string
		stop := func(at string) error {
			positions = append(positions, at)
			if len(positions) == 2 {
				return errTest
			}
			return nil
		}
		first, err := s.store.Verify(t.Context(), &largeitem.VerifyOptions{Checkpoint: stop})
		if !errors.Is(err, errTest) || first.Complete || first.Position != positions[1] || first.References != 512 {
			t.Errorf("%v, %+v, positions %q", err, first, positions)
		}
		began := time.Now()
		second, err := s.store.Verify(t.Context(), &largeitem.VerifyOptions{After: first.Position, Rate: 100})
		if err != nil || !second.Complete || first.Items+second.Items != 1000 || second.References != 488 {
			t.Errorf("%v, %+v", err, second)
		}
		if took := time.Since(began); took < 4870*time.Millisecond || took > 4890*time.Millisecond {
			t.Errorf("488 references, 100 a second, took %v", took)
		}
		if got := s.list.made(); got != "get 1000" || s.table.many != 0 {
			t.Errorf("requests: %s, and %d look-ups", got, s.table.many)
		}
		if err := s.bucket.Delete(t.Context(), keys[300], nil); err != nil {
			t.Fatal(err)
		}
		var reached []string
		third, err := s.store.Verify(t.Context(), &largeitem.VerifyOptions{Checkpoint: func(at string) error { reached = append(reached, at); return nil }})
		if !errors.Is(err, largeitem.ErrMissing) || !third.Complete || third.Position != positions[0] || !slices.Equal(reached, positions[:1]) {
			t.Errorf("after a problem: %v, %+v, positions %q", err, third, reached)
		}
		for _, o := range []largeitem.VerifyOptions{{Parallel: -1}, {Parallel: 65}, {Rate: -1}, {Attributes: []string{}}} {
			if _, err := s.store.Verify(t.Context(), &o); !errors.Is(err, largeitem.ErrInvalid) {
				t.Errorf("%+v: %v", o, err)
			}
		}
	})
}

// TestVerifyDamagedItem: an item that cannot be read is a problem, and the items after it are
// verified. A sweep then removes nothing, since the item may refer to anything.
func TestVerifyDamagedItem(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		st, bucket := memstore.New(), membucket.New()
		if err := storetable.Create(ctx, st, nil); err != nil {
			t.Fatal(err)
		}
		table, err := storetable.New(st, nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := largeitem.New(table, bucket, &largeitem.Options{BaseURI: sweptBase})
		if err != nil {
			t.Fatal(err)
		}
		schema, err := table.Schema(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for i, pk := range []string{"a", "b", "c"} {
			if _, err := s.Create(ctx, textKey(pk), nil, largeitem.Large{"x": largeitem.Text("body of " + pk)}, nil); err != nil {
				t.Fatal(err)
			}
			orphan := largeitem.ObjectName(schema, textKey(pk), "x", fmt.Sprintf("%032x", i))
			if _, err := bucket.Put(ctx, orphan, strings.NewReader("orphan"), nil); err != nil {
				t.Fatal(err)
			}
		}
		whole, v, err := st.Get(ctx, "items/pk=b")
		if err == nil {
			_, err = st.Put(ctx, "items/pk=b", v, []byte("damaged"))
		}
		if err != nil {
			t.Fatal(err)
		}
		var positions []string
		var reported []largeitem.Problem
		got, err := s.Verify(ctx, &largeitem.VerifyOptions{
			Checkpoint: func(at string) error { positions = append(positions, at); return nil },
			Report:     func(p largeitem.Problem) { reported = append(reported, p) },
		})
		if want := "3 items, 3 references, 18 bytes, 0 moved; 0 missing, 0 damaged, 0 foreign, 1 unreadable"; verified(got) != want || !errors.Is(err, store.ErrCorrupt) || !got.Complete {
			t.Errorf("got %s, want %s; complete %v, %v", verified(got), want, got.Complete, err)
		}
		if len(reported) != 1 || reported[0].Attr != "" || !strings.Contains(fmt.Sprint(reported[0].Err), "items/pk=b") || len(positions) != 0 || got.Position != "" {
			t.Errorf("reported %+v, positions %q", reported, positions)
		}

		time.Sleep(day + time.Second)
		sweep := func(scan bool) (largeitem.SweepStats, error) {
			return s.Sweep(ctx, &largeitem.SweepOptions{Scan: scan, Dir: t.TempDir()})
		}
		for _, scan := range []bool{false, true} {
			if got, err := sweep(scan); !errors.Is(err, store.ErrCorrupt) || got.Deleted != 0 || got.Complete {
				t.Errorf("a sweep, scan %v: %v, %+v", scan, err, got)
			}
		}
		_, damaged, err := st.Get(ctx, "items/pk=b")
		if err == nil {
			_, err = st.Put(ctx, "items/pk=b", damaged, whole)
		}
		if got, swept := sweep(true); err != nil || swept != nil || got.Deleted != 3 || got.Referenced != 3 {
			t.Errorf("the control, repaired: %v, %v, %+v", err, swept, got)
		}
	})
}
