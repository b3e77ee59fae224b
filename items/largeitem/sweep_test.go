package largeitem_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/store"
)

// sweptTable is a table for tests of sweeps: what it answers can be made to fail.
type sweptTable struct {
	largeitem.Table // nil: nothing else is called
	schema          largeitem.Schema

	mu    sync.Mutex
	items map[largeitem.Key]largeitem.Attributes
	looks int // at items, together

	onLook func(n int, keys []largeitem.Key) error // before the n-th look-up
	onScan func(row int) error                     // before each row, and the end
	fewer  bool                                    // answers of look-ups lack their last item
	many   int                                     // calls of GetMany
}

func newSweptTable() *sweptTable {
	return &sweptTable{
		schema: largeitem.Schema{Name: "test", Table: "T", ID: "test:T", Partition: largeitem.KeyAttribute{Name: "pk"}},
		items:  map[largeitem.Key]largeitem.Attributes{},
	}
}

func (t *sweptTable) Schema(context.Context) (largeitem.Schema, error) { return t.schema, nil }

func (t *sweptTable) GetMany(ctx context.Context, keys []largeitem.Key, opts *largeitem.GetOptions) ([]largeitem.Attributes, error) {
	t.mu.Lock()
	t.many++
	n, hook := t.many, t.onLook
	t.looks += len(keys)
	t.mu.Unlock()
	if hook != nil {
		if err := hook(n, keys); err != nil {
			return nil, err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var found []largeitem.Attributes
	for _, key := range keys {
		var item largeitem.Attributes
		if whole, ok := t.items[key]; ok {
			item = maps.Clone(whole)
			maps.DeleteFunc(item, func(name string, _ any) bool { return !slices.Contains(opts.Attributes, name) })
		}
		found = append(found, item)
	}
	if t.fewer {
		found = found[:len(found)-1]
	}
	return found, ctx.Err()
}

func (t *sweptTable) Get(ctx context.Context, key largeitem.Key, opts *largeitem.GetOptions) (largeitem.Attributes, error) {
	items, err := t.GetMany(ctx, []largeitem.Key{key}, opts)
	if err == nil && items[0] == nil {
		err = store.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return items[0], nil
}

func (t *sweptTable) Scan(ctx context.Context, opts *largeitem.ScanOptions) iter.Seq2[largeitem.Row, error] {
	return func(yield func(largeitem.Row, error) bool) {
		t.mu.Lock()
		keys := slices.SortedFunc(maps.Keys(t.items), func(a, b largeitem.Key) int { return cmp.Compare(a.String(), b.String()) })
		t.mu.Unlock()
		for i := 0; ; i++ {
			if t.onScan != nil {
				if err := t.onScan(i); err != nil {
					yield(largeitem.Row{}, err)
					return
				}
			}
			if i == len(keys) {
				return
			}
			t.mu.Lock()
			item := maps.Clone(t.items[keys[i]])
			t.mu.Unlock()
			position := keys[i].String()
			if opts != nil && position <= opts.After {
				continue
			}
			if !yield(largeitem.Row{Key: keys[i], Attributes: item, Position: position}, ctx.Err()) {
				return
			}
		}
	}
}

// set writes an attribute.
func (t *sweptTable) set(pk, attr string, value any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := textKey(pk)
	item := maps.Clone(t.items[key])
	if item == nil {
		item = largeitem.Attributes{}
	}
	item[attr] = value
	t.items[key] = item
}

func textKey(pk string) largeitem.Key {
	return largeitem.Key{Partition: largeitem.KeyValue{Text: pk}}
}

// listing is a bucket whose listings can be changed.
type listing struct {
	object.Bucket
	change func([]object.Info) []object.Info
	stat   func(object.Info) object.Info
	cut    error // ends each listing
	delete func(key string) error

	mu    sync.Mutex
	calls []string
}

func (l *listing) note(call string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, call)
}

// made counts the calls by kind.
func (l *listing) made() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := map[string]int{}
	for _, call := range l.calls {
		counts[call]++
	}
	var text []string
	for _, call := range slices.Sorted(maps.Keys(counts)) {
		text = append(text, fmt.Sprint(call, " ", counts[call]))
	}
	return strings.Join(text, ", ")
}

func (l *listing) List(ctx context.Context, prefix string, opts *object.ListOptions) iter.Seq2[object.Info, error] {
	return func(yield func(object.Info, error) bool) {
		l.note("list")
		var all []object.Info
		for info := range l.Bucket.List(ctx, prefix, opts) {
			all = append(all, info)
		}
		if l.change != nil {
			all = l.change(all)
		}
		for _, info := range all {
			if !yield(info, nil) {
				return
			}
		}
		if l.cut != nil {
			yield(object.Info{}, l.cut)
		}
	}
}

func (l *listing) Get(ctx context.Context, key string, opts *object.GetOptions) (*object.Reader, error) {
	l.note("get")
	return l.Bucket.Get(ctx, key, opts)
}

func (l *listing) Stat(ctx context.Context, key string) (object.Info, error) {
	l.note("stat")
	info, err := l.Bucket.Stat(ctx, key)
	if err == nil && l.stat != nil {
		info = l.stat(info)
	}
	return info, err
}

func (l *listing) Delete(ctx context.Context, key string, opts *object.DeleteOptions) error {
	l.note("delete")
	if l.delete != nil {
		if err := l.delete(key); err != nil {
			return err
		}
	}
	return l.Bucket.Delete(ctx, key, opts)
}

// swept is a table and a bucket with their store.
type swept struct {
	t      *testing.T
	table  *sweptTable
	bucket *membucket.Bucket
	list   *listing
	store  *largeitem.Store
}

const sweptBase = "mem://bucket"

func newSwept(t *testing.T, opts *largeitem.Options) *swept {
	t.Helper()
	s := &swept{t: t, table: newSweptTable(), bucket: membucket.New()}
	s.list = &listing{Bucket: s.bucket}
	s.open(opts)
	s.put("p/T/.table", s.markerText())
	return s
}

// open opens the store with options.
func (s *swept) open(opts *largeitem.Options) {
	s.t.Helper()
	var o largeitem.Options
	if opts != nil {
		o = *opts
	}
	o.Prefix, o.BaseURI = "p", cmp.Or(o.BaseURI, sweptBase)
	var err error
	if s.store, err = largeitem.New(s.table, s.list, &o); err != nil {
		s.t.Fatal(err)
	}
}

// markerText is what says that names belong to the table.
func (s *swept) markerText() string {
	return fmt.Sprintf(`{"table":%q,"name":%q}`, s.table.schema.ID, s.table.schema.Name)
}

// hashedName is the name of an object whose key is too long for it.
func (s *swept) hashedName(pk, attr string, id int) string {
	return "p/" + largeitem.ObjectName(s.table.schema, textKey(pk), attr, fmt.Sprintf("%032x", id))
}

func (s *swept) put(key, body string) {
	s.t.Helper()
	if _, err := s.bucket.Put(s.t.Context(), key, strings.NewReader(body), nil); err != nil {
		s.t.Fatal(err)
	}
}

// object puts an object of an attribute, and returns its key.
func (s *swept) object(pk, attr string, id int) string {
	s.t.Helper()
	key := fmt.Sprintf("p/T/pk=%s/attr=%s/%032x", pk, attr, id)
	s.put(key, "body")
	return key
}

// refer returns the reference to an object.
func refer(key string) string {
	return sweptBase + "/" + key + "#sha256=" + strings.Repeat("0", 64) + "&size=4"
}

// keys returns the keys of the objects that are there.
func (s *swept) keys() []string {
	s.t.Helper()
	var keys []string
	for info, err := range s.bucket.List(s.t.Context(), "", nil) {
		if err != nil {
			s.t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	return keys
}

func (s *swept) has(key string) bool { return slices.Contains(s.keys(), key) }

// sweep sweeps, and checks that the report adds up.
func (s *swept) sweep(opts *largeitem.SweepOptions) (largeitem.SweepStats, error) {
	s.t.Helper()
	got, err := s.store.Sweep(s.t.Context(), opts)
	if sum := got.Foreign + got.TooYoung + got.Undated + got.Referenced + got.Unreadable + got.Shared + got.NotReached + got.ChangedMeanwhile + got.Deleted + got.Failed; sum != got.Seen {
		s.t.Errorf("the counts add up to %d, and %d objects were seen: %+v", sum, got.Seen, got)
	}
	if err == nil && got.Failed > 0 || int64(len(got.Failures)) != min(got.Failed, largeitem.MaxFailures) {
		s.t.Errorf("%d objects failed, %d are listed, and the error is %v", got.Failed, len(got.Failures), err)
	}
	return got, err
}

// expect sweeps, and expects these counts.
func (s *swept) expect(opts *largeitem.SweepOptions, want largeitem.SweepStats) {
	s.t.Helper()
	got, err := s.sweep(opts)
	if err != nil {
		s.t.Errorf("sweep: %v", err)
	}
	for _, r := range []*largeitem.SweepStats{&got, &want} {
		r.Seen, r.Bytes, r.DeletedBytes, r.Elapsed, r.Cursor, r.Items, r.Failures = 0, 0, 0, 0, "", 0, nil
		r.Complete = true
	}
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		s.t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

// bubbles runs a subtest in virtual time.
func bubbles(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { bubble(t, test) })
}

const day = 24 * time.Hour

// TestSweep: what no item refers to is removed, and everything else is kept.
func TestSweep(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSwept(t, nil)
		kept, orphan := s.object("a", "x", 1), s.object("a", "x", 2)
		s.table.set("a", "x", refer(kept))
		s.table.set("a", "other", "text")
		gone := s.object("deleted", "x", 3)
		other := s.object("a", "y", 4)
		strangers := []string{
			"p/T/pk=a/attr=x/notes.txt", "p/T/pk=a/attr=x/0123456789ABCDEF0123456789ABCDEF", "p/T/readme",
			"p/T/sub/T/pk=a/attr=x/00000000000000000000000000000001", "p/T/pk=a/sk=b/attr=x/00000000000000000000000000000001", // no sort key here
			"p/T/pk.n=7/attr=x/00000000000000000000000000000001", "p/T/pk=a=b/attr=x/00000000000000000000000000000001",
		}
		outside := []string{
			"p/Tb/pk=a/attr=x/00000000000000000000000000000001", "p/U/pk=a/attr=x/00000000000000000000000000000001",
			"pp/T/pk=a/attr=x/00000000000000000000000000000001", "T/pk=a/attr=x/00000000000000000000000000000001",
		}
		for _, key := range slices.Concat(strangers, outside) {
			s.put(key, "stranger")
		}
		time.Sleep(day + time.Second)
		young := s.object("a", "x", 5)

		before := s.keys()
		s.expect(&largeitem.SweepOptions{DryRun: true}, largeitem.SweepStats{Foreign: 7, TooYoung: 1, Referenced: 1, Deleted: 3})
		if !slices.Equal(s.keys(), before) {
			t.Errorf("a dry run removed something")
		}
		s.expect(&largeitem.SweepOptions{Attributes: []string{"y"}}, largeitem.SweepStats{Foreign: 11, Deleted: 1})
		for _, key := range before {
			if s.has(key) == (key == other) {
				t.Errorf("attribute y alone: %s is there: %v", key, s.has(key))
			}
		}
		s.expect(nil, largeitem.SweepStats{Foreign: 7, TooYoung: 1, Referenced: 1, Deleted: 2})
		for _, key := range before {
			if removed := key == other || key == orphan || key == gone; s.has(key) == removed {
				t.Errorf("%s is there: %v", key, s.has(key))
			}
		}
		if !s.has(young) || !s.has(kept) {
			t.Error("an object was removed that is in use")
		}
		s.expect(nil, largeitem.SweepStats{Foreign: 7, TooYoung: 1, Referenced: 1})
	})
}

// TestSweepGrace: the orphan age counts by the bucket's clock alone, whatever this machine's
// clock says, and it cannot be made shorter than that of the writers.
func TestSweepGrace(t *testing.T) {
	for name, c := range map[string]struct {
		now  time.Duration // by the bucket's clock, less that of this machine
		age  time.Duration
		want largeitem.SweepStats
	}{
		"just older":                      {0, day + time.Second, largeitem.SweepStats{Deleted: 1}},
		"just as old":                     {0, day, largeitem.SweepStats{TooYoung: 1}},
		"young, and our clock is ahead":   {-1000 * day, day - time.Second, largeitem.SweepStats{TooYoung: 1}},
		"old, and our clock is behind":    {1000 * day, day + time.Second, largeitem.SweepStats{Deleted: 1}},
		"young, and our clock is behind":  {1000 * day, day - time.Second, largeitem.SweepStats{TooYoung: 1}},
		"from the future":                 {0, -day, largeitem.SweepStats{TooYoung: 1}},
		"the bucket's clock went back":    {-3 * day, -2 * day, largeitem.SweepStats{TooYoung: 1}},
		"from the future of a slow clock": {-1000 * day, -999 * day, largeitem.SweepStats{TooYoung: 1}},
	} {
		bubbles(t, name, func(t *testing.T) {
			s := newSwept(t, nil)
			s.object("a", "x", 1)
			s.list.change = func(all []object.Info) []object.Info {
				for i := range all {
					all[i].Now = time.Now().Add(c.now)
					all[i].Modified = all[i].Now.Add(-c.age)
				}
				return all
			}
			s.expect(nil, c.want)
		})
	}
	bubbles(t, "longer", func(t *testing.T) {
		s := newSwept(t, &largeitem.Options{OrphanAge: 2 * day})
		s.object("a", "x", 1)
		time.Sleep(day + time.Second)
		s.expect(nil, largeitem.SweepStats{TooYoung: 1})
		time.Sleep(day)
		s.open(&largeitem.Options{OrphanAge: 3 * day})
		s.expect(nil, largeitem.SweepStats{TooYoung: 1})
		s.open(nil)
		s.expect(nil, largeitem.SweepStats{Deleted: 1})
	})
}

// TestSweepReadsTheTime: where listings do not tell the time, each object is asked for,
// and what still has no age is kept.
func TestSweepReadsTheTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSwept(t, nil)
		orphan, second := s.object("a", "x", 1), s.object("a", "x", 2)
		time.Sleep(day + time.Second)
		s.object("a", "x", 3)
		s.list.change = func(all []object.Info) []object.Info {
			for i := range all {
				all[i].Now = time.Time{}
			}
			return all
		}
		s.list.stat = func(info object.Info) object.Info {
			if info.Key == second {
				info.Now = time.Time{}
			}
			return info
		}
		s.expect(nil, largeitem.SweepStats{TooYoung: 1, Undated: 1, Deleted: 1})
		if s.has(orphan) || !s.has(second) {
			t.Errorf("there are %q", s.keys())
		}
		s.list.stat = func(info object.Info) object.Info {
			info.Modified = time.Time{}
			return info
		}
		s.expect(nil, largeitem.SweepStats{Undated: 2})
	})
}

// TestSweepLooksTwice: an item that refers to an object at the first or at the second look
// keeps it.
func TestSweepLooksTwice(t *testing.T) {
	for look := 1; look <= 3; look++ {
		bubbles(t, fmt.Sprint("from look ", look), func(t *testing.T) {
			s := newSwept(t, nil)
			orphan := s.object("a", "x", 1)
			time.Sleep(day + time.Second)
			s.table.onLook = func(n int, _ []largeitem.Key) error {
				if n == look {
					s.table.set("a", "x", refer(orphan))
				}
				return nil
			}
			want := largeitem.SweepStats{Referenced: 1}
			if look == 3 {
				want = largeitem.SweepStats{Deleted: 1} // the control: there is no third look
			}
			s.expect(nil, want)
		})
	}
}

// TestSweepUnreadable: an item that has something in place of the reference that cannot be
// read keeps what may be meant.
func TestSweepUnreadable(t *testing.T) {
	key := "p/T/pk=a/attr=x/" + strings.Repeat("0", 31) + "1"
	for _, c := range []struct {
		name  string
		value any
		named bool // the attribute is in Options.Attributes
		want  largeitem.SweepStats
	}{
		{"no item", nil, false, largeitem.SweepStats{Deleted: 1}},
		{"null", any(nil), true, largeitem.SweepStats{Deleted: 1}},
		{"another object of the attribute", refer(strings.ReplaceAll(key, "1", "2")), true, largeitem.SweepStats{Deleted: 1}},
		{"the object", refer(key), true, largeitem.SweepStats{Referenced: 1}},
		{"another bucket", strings.ReplaceAll(refer(key), "mem:", "s3:"), false, largeitem.SweepStats{Unreadable: 1}},
		{"a damaged hash", refer(key) + "0", false, largeitem.SweepStats{Referenced: 1}},
		{"no hash", sweptBase + "/" + key, false, largeitem.SweepStats{Referenced: 1}},
		{"half a name", sweptBase + "/p/T/pk=", false, largeitem.SweepStats{Unreadable: 1}},
		{"a list with the reference", []any{"u", map[string]any{"v": refer(key)}}, false, largeitem.SweepStats{Referenced: 1}},
		{"a set with the reference", largeitem.StringSet{refer(key)}, false, largeitem.SweepStats{Referenced: 1}},
		{"a number where references belong", largeitem.Number("7"), true, largeitem.SweepStats{Unreadable: 1}},
		{"a text where references belong", "text", true, largeitem.SweepStats{Unreadable: 1}},
		{"a text of the user's", "text", false, largeitem.SweepStats{Deleted: 1}},
		{"bytes of the user's", []byte("text"), false, largeitem.SweepStats{Deleted: 1}},
	} {
		bubbles(t, c.name, func(t *testing.T) {
			var o largeitem.Options
			if c.named {
				o.Attributes = []string{"x"}
			}
			s := newSwept(t, &o)
			s.put(key, "body")
			time.Sleep(day + time.Second)
			if c.value != nil {
				s.table.set("a", "x", c.value)
			}
			s.expect(nil, c.want)
		})
	}
}

// TestSweepCopiedItem: a reference that was copied to another item keeps the object if the
// table is scanned, or if that item is looked at too.
func TestSweepCopiedItem(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSwept(t, nil)
		copied := s.object("a", "x", 1)
		s.table.set("copy", "renamed", refer(copied))
		neighbour := s.object("b", "x", 2)
		s.table.set("c", "x", refer(neighbour))
		s.object("c", "x", 3)
		time.Sleep(day + time.Second)
		s.expect(&largeitem.SweepOptions{Scan: true, DryRun: true}, largeitem.SweepStats{Referenced: 2, Deleted: 1})
		s.expect(nil, largeitem.SweepStats{Referenced: 1, Deleted: 2})
		if s.has(copied) || !s.has(neighbour) {
			t.Errorf("there are %q", s.keys())
		}
	})
}

// TestSweepListing: a listing that repeats keys, is out of order or names objects that were
// not asked for costs nothing but the cursor.
func TestSweepListing(t *testing.T) {
	for name, c := range map[string]struct {
		change    func([]object.Info) []object.Info
		want      largeitem.SweepStats
		cursorEnd int
	}{
		"repeated": {func(all []object.Info) []object.Info {
			return slices.Concat(all[:2], all[1:2], all[1:])
		}, largeitem.SweepStats{Referenced: 1, Deleted: 2}, 3},
		"backwards": {func(all []object.Info) []object.Info {
			slices.Reverse(all)
			return all
		}, largeitem.SweepStats{Referenced: 1, Deleted: 2, Unordered: true}, 0},
		"not asked for": {func(all []object.Info) []object.Info {
			for _, key := range []string{"p/Tz/pk=b/attr=x/00000000000000000000000000000009", "zzz"} {
				all = append(all, object.Info{Key: key, Now: all[0].Now, Modified: all[0].Modified})
			}
			return all
		}, largeitem.SweepStats{Foreign: 2, Referenced: 1, Deleted: 2}, -1},
	} {
		bubbles(t, name, func(t *testing.T) {
			s := newSwept(t, nil)
			for i := range 3 {
				key := s.object(fmt.Sprint("a", i+1), "x", 1)
				if i == 1 {
					s.table.set("a2", "x", refer(key))
				}
			}
			time.Sleep(day + time.Second)
			s.list.change = c.change
			var cursors []string
			s.expect(&largeitem.SweepOptions{DryRun: true, Checkpoint: func(at string) error {
				cursors = append(cursors, at)
				return nil
			}}, c.want)
			s.expect(nil, c.want)
			if c.cursorEnd == 0 && cursors[0] != "" {
				t.Errorf("a cursor into a listing without order: %q", cursors)
			}
			if c.cursorEnd > 0 && cursors[0] != "p/T/pk=a3/attr=x/"+strings.Repeat("0", 31)+"1" {
				t.Errorf("the cursors are %q", cursors)
			}
		})
	}
}

// TestSweepTwiceListed: an object that is listed twice in one page is removed and counted
// once by a delete with a condition.
func TestSweepTwiceListed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSwept(t, nil)
		s.object("a", "x", 1)
		s.object("b", "x", 1)
		time.Sleep(day + time.Second)
		s.list.change = func(all []object.Info) []object.Info { return append(all, all...) }
		s.expect(&largeitem.SweepOptions{Parallel: 1}, largeitem.SweepStats{Deleted: 2, ChangedMeanwhile: 2, Foreign: 0, Unordered: true})
	})
}

// errTest is what a request of the tests fails with.
var errTest = errors.New("the request of the test failed")

// TestSweepFailures: nothing is removed after a look-up that failed or was not complete. A
// delete that fails keeps no other object, and is reported.
func TestSweepFailures(t *testing.T) {
	open := func(t *testing.T, n int) *swept {
		s := newSwept(t, nil)
		for i := range n {
			s.object(fmt.Sprintf("k%05d", i), "x", 1)
		}
		time.Sleep(day + time.Second)
		return s
	}
	failAt := func(call int, err error) func(int, []largeitem.Key) error {
		return func(n int, _ []largeitem.Key) error {
			if n == call {
				return err
			}
			return nil
		}
	}
	bubble(t, func(t *testing.T) {
		for n := 1; n <= 6; n++ { // three look-ups for each look
			s := open(t, 250)
			s.table.onLook = failAt(n, errTest)
			if got, err := s.sweep(nil); !errors.Is(err, errTest) || got.Deleted != 0 || len(s.keys()) != 251 {
				t.Errorf("look-up %d failed: %v, %+v", n, err, got)
			}
		}
		s := open(t, 250)
		s.table.fewer = true
		if got, err := s.sweep(nil); !errors.Is(err, store.ErrUnavailable) || got.Deleted != 0 || len(s.keys()) != 251 {
			t.Errorf("an answer with fewer items: %v, %+v", err, got)
		}
		s = open(t, 250)
		s.table.onLook = failAt(2, store.ErrUnavailable)
		s.expect(nil, largeitem.SweepStats{Deleted: 250})

		s = open(t, 250)
		s.list.delete = func(key string) error {
			if strings.Contains(key, "7") {
				return errTest
			}
			return nil
		}
		var told int
		got, err := s.sweep(&largeitem.SweepOptions{Report: func(o largeitem.Orphan, err error) {
			if err != nil {
				told++
			}
		}})
		if !errors.Is(err, errTest) || got.Failed != 43 || told != 43 || got.Deleted != 207 || !got.Complete || len(s.keys()) != 44 {
			t.Errorf("deletes failed: %v, %+v", err, got)
		}
		s.list.delete = nil
		s.expect(nil, largeitem.SweepStats{Deleted: 43})

		s = open(t, 250)
		s.list.cut = errTest
		if got, err := s.sweep(nil); !errors.Is(err, errTest) || got.Complete {
			t.Errorf("a listing that ends early: %v, %+v", err, got)
		}
		s = open(t, 250)
		if err := s.bucket.Delete(t.Context(), "p/T/.table", nil); err != nil {
			t.Fatal(err)
		}
		if got, err := s.sweep(nil); err == nil || got.Deleted != 0 {
			t.Errorf("a prefix that does not say whose it is: %v, %+v", err, got)
		}
	})
}

// TestSweepManyFailures: a report lists the first failures, and counts all.
func TestSweepManyFailures(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSwept(t, nil)
		for i := range 2 * largeitem.MaxFailures {
			s.object(fmt.Sprintf("k%05d", i), "x", 1)
		}
		time.Sleep(day + time.Second)
		s.list.delete = func(string) error { return errTest }
		if got, err := s.sweep(nil); !errors.Is(err, errTest) || got.Failed != 2*largeitem.MaxFailures {
			t.Errorf("%v, %+v", err, got)
		}
	})
}

// TestSweepWithoutConditions: a bucket that does not delete conditionally, or does not let
// this caller, is asked once, and deletes without.
func TestSweepWithoutConditions(t *testing.T) {
	for _, why := range []error{&object.UnsupportedError{Ability: object.DeleteIfMatch}, store.ErrDenied} {
		bubbles(t, why.Error(), func(t *testing.T) { sweepWithoutConditions(t, why) })
	}
}

func sweepWithoutConditions(t *testing.T, why error) {
	s := newSwept(t, nil)
	for i := range 5 {
		s.object("a", "x", i)
	}
	time.Sleep(day + time.Second)
	refused := 0
	b := &plainDeletes{listing: s.list, why: why, refused: &refused}
	var err error
	if s.store, err = largeitem.New(s.table, b, &largeitem.Options{Prefix: "p", BaseURI: sweptBase}); err != nil {
		t.Fatal(err)
	}
	s.expect(&largeitem.SweepOptions{Parallel: 1}, largeitem.SweepStats{Deleted: 5})
	if refused != 1 {
		t.Errorf("the bucket refused %d conditions, want 1", refused)
	}
}

type plainDeletes struct {
	*listing
	why     error
	refused *int
}

func (p *plainDeletes) Delete(ctx context.Context, key string, opts *object.DeleteOptions) error {
	if opts != nil && opts.IfMatch != "" {
		*p.refused++
		return p.why
	}
	return p.listing.Delete(ctx, key, opts)
}

// TestSweepRewritten: an object that was written again after it was listed is kept where the
// bucket deletes conditionally.
func TestSweepRewritten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSwept(t, nil)
		orphan := s.object("a", "x", 1)
		time.Sleep(day + time.Second)
		s.table.onLook = func(n int, _ []largeitem.Key) error {
			if n == 2 {
				s.put(orphan, "anew")
			}
			return nil
		}
		s.expect(nil, largeitem.SweepStats{ChangedMeanwhile: 1})
		if !s.has(orphan) {
			t.Error("the new state was removed")
		}
	})
}

// TestSweepCalls: how many requests a sweep makes for each 1,000 objects.
func TestSweepCalls(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSwept(t, nil)
		for i := range 3000 {
			key := s.object(fmt.Sprintf("k%05d", i), "x", 1)
			if i >= 20 {
				s.table.set(fmt.Sprintf("k%05d", i), "x", refer(key))
			}
		}
		time.Sleep(day + time.Second)
		s.expect(nil, largeitem.SweepStats{Referenced: 2980, Deleted: 20})
		// One look-up for each 100 items, and one more for the orphans of a page.
		if got, want := s.list.made(), "delete 20, get 1, list 1"; got != want || s.table.many != 31 || s.table.looks != 3020 {
			t.Errorf("requests: %s, %d look-ups at %d items; want %s, 31 at 3020", got, s.table.many, s.table.looks, want)
		}
	})
}

// TestSweepLimits: the sweep removes no more than it may, and not faster.
func TestSweepLimits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSwept(t, nil)
		for i := range 2500 {
			s.object(fmt.Sprintf("k%05d", i), "x", 1)
		}
		time.Sleep(day + time.Second)
		for _, dry := range []bool{true, false} {
			got, err := s.sweep(&largeitem.SweepOptions{Limit: 1200, DryRun: dry})
			if err != nil || got.Deleted != 1200 || got.NotReached != 800 || got.Complete || got.Cursor != "p/T/pk=k00999/attr=x/"+strings.Repeat("0", 31)+"1" {
				t.Errorf("limited to 1200: %v, %+v", err, got)
			}
		}
		if n := len(s.keys()); n != 1301 {
			t.Errorf("%d objects are left, want 1301", n)
		}
		began := time.Now()
		var last largeitem.SweepStats
		got, err := s.sweep(&largeitem.SweepOptions{Rate: 10, Progress: func(s largeitem.SweepStats) {
			if s.Deleted < last.Deleted || s.Seen < last.Seen {
				t.Errorf("progress falls from %+v to %+v", last, s)
			}
			last = s
		}})
		if err != nil || got.Deleted != 1300 || !got.Complete || last.Deleted != 1300 || last.Seen != 1300 {
			t.Errorf("%v, %+v, progress %+v", err, got, last)
		}
		// 1,300 deletes, 26 look-ups and 2 pages.
		if took := time.Since(began); took < 132*time.Second || took > 134*time.Second {
			t.Errorf("1328 requests, 10 a second, took %v", took)
		}
		if got.Elapsed != time.Since(began) {
			t.Errorf("the report says %v", got.Elapsed)
		}
	})
}

// TestSweepResumed: a sweep that is killed at any call is continued by another one at its
// last checkpoint, and together they remove what one would.
func TestSweepResumed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for n := 1; ; n += 97 {
			s := newSwept(t, nil)
			for i := range 2100 {
				key := s.object(fmt.Sprintf("k%05d", i), "x", 1)
				if i%2 == 0 {
					s.table.set(fmt.Sprintf("k%05d", i), "x", refer(key))
				}
			}
			time.Sleep(day + time.Second)
			faulty := objecttest.NewFaulty(s.bucket, objecttest.Nth(n, objecttest.Cut))
			dying, err := largeitem.New(s.table, faulty, &largeitem.Options{Prefix: "p", BaseURI: sweptBase})
			if err != nil {
				t.Fatal(err)
			}
			cursor := ""
			got, err := dying.Sweep(t.Context(), &largeitem.SweepOptions{Checkpoint: func(at string) error {
				cursor = at
				return nil
			}})
			if cursor != got.Cursor {
				t.Errorf("the last checkpoint is %q, the report says %q", cursor, got.Cursor)
			}
			second, err2 := s.sweep(&largeitem.SweepOptions{After: cursor})
			if err2 != nil || !second.Complete || cursor != "" && second.Seen > 1100 {
				t.Errorf("cut at call %d: %v, %+v", n, err2, second)
			}
			for _, key := range s.keys() {
				if digits, ok := strings.CutPrefix(key, "p/T/pk=k"); ok && strings.ContainsAny(digits[4:5], "13579") {
					t.Fatalf("cut at call %d: %s is left", n, key)
				}
			}
			if len(s.keys()) != 1051 {
				t.Fatalf("cut at call %d: %d objects are left, want 1051", n, len(s.keys()))
			}
			if err == nil {
				if n < 1000 {
					t.Errorf("the sweep had fewer than %d calls", n)
				}
				return
			}
		}
	})
}

// TestSweepTwoAtOnce: two sweeps at a time remove what one would, and do not fail.
func TestSweepTwoAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSwept(t, nil)
		kept := s.object("kept", "x", 1)
		s.table.set("kept", "x", refer(kept))
		for i := range 1500 {
			s.object(fmt.Sprintf("k%05d", i), "x", 1)
		}
		time.Sleep(day + time.Second)
		s.list.delete = func(string) error {
			time.Sleep(time.Millisecond)
			return nil
		}
		var wg sync.WaitGroup
		var deleted [2]int64
		for i := range deleted {
			wg.Go(func() {
				got, err := s.store.Sweep(t.Context(), nil)
				if err != nil || got.Deleted+got.ChangedMeanwhile > 1500 || got.Failed != 0 {
					t.Errorf("sweep %d: %v, %+v", i, err, got)
				}
				deleted[i] = got.Deleted
			})
		}
		wg.Wait()
		if deleted[0]+deleted[1] != 1500 || len(s.keys()) != 2 {
			t.Errorf("%v were removed, and there are %d objects", deleted, len(s.keys()))
		}
	})
}

// TestSweepEnds: a sweep ends with its context, and with an error of its caller.
func TestSweepEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSwept(t, nil)
		for i := range 1500 {
			s.object(fmt.Sprintf("k%05d", i), "x", 1)
		}
		time.Sleep(day + time.Second)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(30*time.Second, func() { cancel(errTest) })
		if got, err := s.store.Sweep(ctx, &largeitem.SweepOptions{Rate: 10}); !errors.Is(err, errTest) || got.Deleted < 250 || got.Deleted > 300 || got.Elapsed != 30*time.Second {
			t.Errorf("the context ended: %v, %+v", err, got)
		}
		got, err := s.sweep(&largeitem.SweepOptions{Checkpoint: func(string) error { return errTest }})
		if !errors.Is(err, errTest) || got.Seen != 1000 {
			t.Errorf("the checkpoint failed: %v, %+v", err, got)
		}
	})
}

// TestSweepOptions: options out of their bounds are refused.
func TestSweepOptions(t *testing.T) {
	s := newSwept(t, nil)
	for name, o := range map[string]largeitem.SweepOptions{
		"parallel":        {Parallel: largeitem.MaxParallel + 1},
		"no parallel":     {Parallel: -1},
		"rate":            {Rate: -1},
		"limit":           {Limit: -1},
		"after":           {After: "elsewhere"},
		"after a scan":    {After: "p/T/pk=a", Scan: true},
		"no attributes":   {Attributes: []string{}},
		"empty attribute": {Attributes: []string{"a", ""}},
	} {
		if _, err := s.sweep(&o); !errors.Is(err, largeitem.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
