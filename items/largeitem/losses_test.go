package largeitem_test

import (
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/items/itemtest"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/items/memtable"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/store"
)

// The tests of this file show the ways in which pynamodb_mate loses data, each first with
// its order of steps, and then that the same events do no harm here.

// naive is the order of steps of pynamodb_mate: objects are named by their content, an
// object that is there is not written again, and an item is written without a condition.
type naive struct {
	items   map[string]string // the key of the object
	objects map[string]string
}

func newNaive(content string) *naive {
	n := &naive{map[string]string{}, map[string]string{}}
	if content != "" {
		name, _ := n.put(content, nil)
		n.items["a"] = name
	}
	return n
}

// put writes an object unless it is there. head is the error of the look, which counts as
// "it is not there".
func (n *naive) put(content string, head error) (name string, executed bool) {
	name = fmt.Sprintf("md5=%x", md5.Sum([]byte(content)))
	if _, there := n.objects[name]; there && head == nil {
		return name, false
	}
	n.objects[name] = content
	return name, true
}

func (n *naive) lost() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(n.items)), func(name string) bool { _, ok := n.objects[name]; return !ok })
}

// onFirst returns a decision that runs f when the first call of this kind begins.
func onFirst(op store.Kind, f func()) func(objecttest.Call) objecttest.Fault {
	done := false
	return func(c objecttest.Call) objecttest.Fault {
		if c.Op == op && !done {
			done = true
			f()
		}
		return objecttest.Pass
	}
}

// process is a store of another process, with its own faults.
func (w *world) process(decide func(objecttest.Call) objecttest.Fault, opts *largeitem.Options) *largeitem.Store {
	faults := objecttest.NewFaults(decide)
	return w.open(w.faultyTable(faults), faults.Bucket(w.bucket), opts)
}

func (w *world) faultyTable(faults *objecttest.Faults) *itemtest.Faulty {
	return itemtest.NewFaulty(w.table, faults)
}

func (w *world) update(s *largeitem.Store, content string) {
	w.t.Helper()
	if _, err := s.Update(w.t.Context(), k1, largeitem.Change{}, texts("body", content), nil); err != nil {
		w.t.Error(err)
	}
}

// controlLoses is a control: the order of steps of the other program loses the object.
func controlLoses(t *testing.T, n *naive) {
	t.Helper()
	if !n.lost() {
		t.Error("the control loses nothing: it shows nothing")
	}
}

// TestThereAndBack: A changes v1 to v2. Before A removes the object of v1, B changes v2 back
// to v1.
func TestThereAndBack(t *testing.T) {
	n := newNaive("v1")
	was := n.items["a"]
	n.items["a"], _ = n.put("v2", nil)
	n.items["a"], _ = n.put("v1", nil) // B
	delete(n.objects, was)             // A
	controlLoses(t, n)

	w := newWorld(t, removing())
	w.create(k1, nil, texts("body", "v1"))
	a := w.process(onFirst("delete", func() { w.update(w.store, "v1") }), removing())
	w.update(a, "v2")
	expectText(t, "the item", w.contents(k1), "item body=v1")
}

// TestCleanUpFails: the removal of the old object fails.
func TestCleanUpFails(t *testing.T) {
	n := newNaive("v1")
	n.items["a"], _ = n.put("v2", nil)
	delete(n.objects, n.items["a"]) // the error of the removal makes the program remove what it has uploaded
	controlLoses(t, n)

	w := newWorld(t, nil)
	w.create(k1, nil, texts("body", "v1"))
	a := w.process(func(c objecttest.Call) objecttest.Fault {
		if c.Op == "delete" {
			return objecttest.Fail
		}
		return objecttest.Pass
	}, removing())
	w.update(a, "v2")
	expectText(t, "the item", w.contents(k1), "item body=v2")
}

// TestReplyOfTheItemLost: the item is written, and the reply is lost, as are all later ones.
func TestReplyOfTheItemLost(t *testing.T) {
	n := newNaive("v1")
	n.items["a"], _ = n.put("v2", nil)
	delete(n.objects, n.items["a"])
	controlLoses(t, n)

	for _, op := range []store.Kind{"put", "update"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil)
			if op == "update" {
				w.create(k1, nil, texts("body", "v1"))
			}
			lost := false
			a := w.process(func(c objecttest.Call) objecttest.Fault {
				if lost || c.Op == op && c.Key == k1.String() {
					lost = true
					return objecttest.Lose
				}
				return objecttest.Pass
			}, removing())
			_, err := a.Upsert(t.Context(), k1, largeitem.Change{}, texts("body", "v2"), nil)
			if op == "put" {
				_, err = a.Replace(t.Context(), k1, nil, texts("body", "v2"), nil)
			}
			if store.OutcomeOf(err) != store.Unknown {
				t.Errorf("%s: got %v (%v)", op, err, store.OutcomeOf(err))
			}
			expectText(t, "the item", w.contents(k1), "item body=v2")
		})
	}
}

// TestLookFails: the look whether an object is there fails.
func TestLookFails(t *testing.T) {
	n := newNaive("v1")
	was := n.items["a"]
	name, executed := n.put("v1", store.ErrUnavailable)
	if n.items["a"] = name; executed {
		delete(n.objects, was)
	}
	controlLoses(t, n)

	mate := &largeitem.Options{Layout: largeitem.PynamoDBMateLayout(), BaseURI: "s3://b", RemoveSuperseded: true, RemoveYoung: true, RemoveFailed: true}
	for _, fault := range []objecttest.Fault{objecttest.Pass, objecttest.Fail} {
		w := newWorld(t, mate)
		w.create(k1, nil, texts("body", "v1"))
		before := w.objects()
		a := w.process(func(c objecttest.Call) objecttest.Fault {
			if c.Op == "stat" {
				return fault
			}
			return objecttest.Pass
		}, mate)
		r, err := a.Update(t.Context(), k1, largeitem.Change{}, texts("body", "v1"), nil)
		switch {
		case fault == objecttest.Pass && (err != nil || r.Puts[0].Uploaded):
			t.Errorf("the same content: %+v, %v", r, err)
		case fault == objecttest.Fail && store.OutcomeOf(err) != store.NotApplied:
			t.Errorf("the look fails: %v (%v)", err, store.OutcomeOf(err))
		}
		expectText(t, "the item", w.contents(k1), "item body=v1")
		if !slices.Equal(w.objects(), before) {
			t.Errorf("there is %q, was %q", w.objects(), before)
		}
	}
}

// staleTable answers the first read with the item as it was once.
type staleTable struct {
	largeitem.Table
	once *largeitem.Attributes
}

func (s *staleTable) Get(ctx context.Context, k largeitem.Key, o *largeitem.GetOptions) (largeitem.Attributes, error) {
	if old := s.once; old != nil {
		s.once = nil
		return *old, nil
	}
	return s.Table.Get(ctx, k, o)
}

// TestStaleRead: the item was v0, v1 and v0 again, and the program that makes it v2 learns
// of v1 or of the first v0.
func TestStaleRead(t *testing.T) {
	n := newNaive("v0")
	stale := n.items["a"] // the live object: the program read v1, and v0 before that
	n.items["a"], _ = n.put("v1", nil)
	n.items["a"], _ = n.put("v0", nil)
	delete(n.objects, stale) // removed as superseded by v1
	controlLoses(t, n)

	for at := range 2 {
		w := newWorld(t, nil)
		w.create(k1, nil, texts("body", "v0"))
		var states []largeitem.Attributes
		for _, content := range []string{"v1", "v0"} {
			item, err := w.table.Get(t.Context(), k1, nil)
			if err != nil {
				t.Fatal(err)
			}
			states = append(states, item)
			w.update(w.store, content)
		}
		s := w.open(&staleTable{w.table, &states[at]}, w.bucket, removing())
		w.update(s, "v0") // the content that the stale item has
		expectText(t, "the item", w.contents(k1), "item body=v0")
		w.update(s, "v2")
		expectText(t, "the item", w.contents(k1), "item body=v2")
	}
}

// TestReusedUpload: A has uploaded v2. B writes v2 too and commits. A fails and cleans up.
func TestReusedUpload(t *testing.T) {
	n := newNaive("v1")
	mine, _ := n.put("v2", nil)
	n.items["a"], _ = n.put("v2", nil) // B
	delete(n.objects, mine)            // A
	controlLoses(t, n)

	w := newWorld(t, nil)
	w.create(k1, attrs{"n": "1"}, texts("body", "v1"))
	a := w.process(onFirst("update", func() { w.update(w.store, "v2") }), removing())
	_, err := a.Update(t.Context(), k1, largeitem.Change{}, texts("body", "v2"), &largeitem.WriteOptions{If: largeitem.Condition{Equal: attrs{"n": "2"}}})
	if !errors.Is(err, store.ErrConflict) || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("A: %v", err)
	}
	expectText(t, "the item", w.contents(k1), "item body=v2 n=\"1\"")
}

// TestDeleteAgainstCreate: A deletes the item. Before A removes the object, B creates the
// item again with the same content.
func TestDeleteAgainstCreate(t *testing.T) {
	n := newNaive("v1")
	was := n.items["a"]
	delete(n.items, "a")
	n.items["a"], _ = n.put("v1", nil) // B
	delete(n.objects, was)             // A
	controlLoses(t, n)

	w := newWorld(t, nil)
	w.create(k1, nil, texts("body", "v1"))
	deletes := 0
	a := w.process(func(c objecttest.Call) objecttest.Fault {
		if c.Op == "delete" {
			if deletes++; deletes == 2 { // the first is of the item
				w.create(k1, nil, texts("body", "v1"))
			}
		}
		return objecttest.Pass
	}, removing())
	if _, err := a.Delete(t.Context(), k1, nil); err != nil {
		t.Error(err)
	}
	expectText(t, "the item", w.contents(k1), "item body=v1")
}

// TestSecondUploadFails: nothing is left of the first.
func TestSecondUploadFails(t *testing.T) {
	for _, parallel := range []int{1, 4} {
		w := newWorld(t, nil)
		a := w.process(func(c objecttest.Call) objecttest.Fault {
			if c.Op == "put" && strings.Contains(c.Key, "attr=b/") {
				return objecttest.Fail
			}
			return objecttest.Pass
		}, &largeitem.Options{Parallel: parallel})
		_, err := a.Create(t.Context(), k1, nil, texts("a", "1", "b", "2"), nil)
		if store.OutcomeOf(err) != store.NotApplied || !errors.Is(err, objecttest.ErrFault) || !strings.Contains(err.Error(), `the large attribute "`) {
			t.Errorf("got %v (%v)", err, store.OutcomeOf(err))
		}
		if left := w.objects(); len(left) > 0 {
			t.Errorf("%d at a time: %q is left", parallel, left)
		}
	}
}

// TestNullAttribute: an item whose large attribute is null can be read, updated and deleted.
func TestNullAttribute(t *testing.T) {
	for _, opts := range []*largeitem.Options{removing(), {Attributes: []string{"body", "image"}, RemoveSuperseded: true, RemoveYoung: true}} {
		w := newWorld(t, nil)
		w.create(k1, nil, texts("image", "pic"))
		set := func() {
			if _, err := w.table.Update(t.Context(), k1, largeitem.Change{Set: attrs{"body": nil}}, nil); err != nil {
				t.Fatal(err)
			}
		}
		set()
		s := w.open(w.table, w.bucket, opts)
		expectText(t, "the item", w.contents(k1), "item image=pic body=%!q(<nil>)")
		w.update(s, "v1")
		expectText(t, "the item", w.contents(k1), "item body=v1 image=pic")
		set()
		if _, err := s.Delete(t.Context(), k1, nil); err != nil || w.contents(k1) != "" {
			t.Errorf("delete: %v, and there is %s", err, w.contents(k1))
		}
		if _, err := s.Create(t.Context(), k1, attrs{"note": nil}, large{"body": {}}, nil); !errors.Is(err, largeitem.ErrInvalid) || !strings.Contains(err.Error(), `"body"`) {
			t.Errorf("a large attribute without content: %v", err)
		}
	}
}

// TestKeysThatCollide: in the layout of the other program, two keys have one name. So an
// object of that name is of neither: an item that refers to it does not read nor remove it.
func TestKeysThatCollide(t *testing.T) {
	name := func(pk, sk string) string { return "pk=" + pk + "/sk=" + sk + "/attr=body/md5=" }
	x, y := [2]string{"a/sk=b", "c"}, [2]string{"a", "b/sk=c"}
	if name(x[0], x[1]) != name(y[0], y[1]) {
		t.Error("the control: they have different names")
	}
	table, err := memtable.New(&memtable.Options{Sort: largeitem.KeyAttribute{Name: "sk"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, layout := range []largeitem.Layout{largeitem.DefaultLayout(), largeitem.PynamoDBMateLayout()} {
		w := newWorld(t, nil)
		w.table = table
		w.store = w.open(table, w.bucket, &largeitem.Options{Layout: layout, BaseURI: "s3://b", RemoveSuperseded: true, RemoveYoung: true})
		if layout == largeitem.PynamoDBMateLayout() {
			if _, err := w.store.Create(t.Context(), key(x[0], x[1]), nil, texts("body", "v1"), nil); !errors.Is(err, largeitem.ErrKey) {
				t.Errorf("a create: %v", err)
			}
			w.create(key("x", "y"), nil, texts("body", "v1")) // the prefix is this table's
			object := name(x[0], x[1]) + strings.Repeat("0", 32) + ".id=" + strings.Repeat("1", 32)
			if _, err := w.bucket.Put(t.Context(), object, strings.NewReader("v1"), nil); err != nil {
				t.Fatal(err)
			}
			for _, k := range [][2]string{x, y} {
				if _, err := table.Put(t.Context(), key(k[0], k[1]), attrs{"body": "s3://b/" + object}, nil); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := w.store.Get(t.Context(), key(x[0], x[1]), nil); !errors.Is(err, largeitem.ErrForeign) {
				t.Errorf("a get: %v", err)
			}
			if _, err := w.store.Update(t.Context(), key(x[0], x[1]), largeitem.Change{Set: attrs{"body": "plain"}}, nil, nil); err != nil {
				t.Error(err)
			}
			if _, err := w.store.Delete(t.Context(), key(x[0], x[1]), nil); err != nil {
				t.Error(err)
			}
			if _, err := w.bucket.Stat(t.Context(), object); err != nil {
				t.Errorf("the object that %q refers to: %v", y, err)
			}
			continue
		}
		for _, k := range [][2]string{x, y} {
			w.create(key(k[0], k[1]), nil, texts("body", "v1"))
		}
		if _, err := w.store.Delete(t.Context(), key(x[0], x[1]), nil); err != nil {
			t.Error(err)
		}
		expectText(t, "the other item", w.contents(key(y[0], y[1])), "item body=v1")
		if _, err := w.store.Delete(t.Context(), key(y[0], y[1]), nil); err != nil {
			t.Error(err)
		}
		if left := w.objects(); len(left) > 0 {
			t.Errorf("%q is left", left)
		}
	}
}

// TestMateCustomNames: the other program names its objects by a function of its own. They are
// read, and replaced by objects that it can follow; its own are never removed at once.
func TestMateCustomNames(t *testing.T) {
	layout, err := largeitem.PynamoDBMateCustomLayout(largeitem.CustomNames{
		Name: func(c largeitem.Content) (string, error) {
			return fmt.Sprintf("%s-%s-%x.bin", c.Key.Partition.Text, c.Attr, c.MD5), nil
		},
		Owner: func(name string) (largeitem.Owner, bool) {
			parts := strings.Split(strings.TrimSuffix(name, ".bin"), "-")
			if len(parts) != 3 || parts[0] == "" {
				return largeitem.Owner{}, false
			}
			return largeitem.Owner{Key: key(parts[0]), Attr: parts[1]}, true
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, nil)
	o := &largeitem.Options{Layout: layout, BaseURI: "s3://b", Prefix: "app", RemoveSuperseded: true, RemoveYoung: true}
	if _, err := largeitem.New(w.table, w.bucket, o); !errors.Is(err, largeitem.ErrInvalid) {
		t.Errorf("without Attributes: %v", err)
	}
	o.Attributes = []string{"body"}
	w.store = w.open(w.table, w.bucket, o)
	theirs := "app/p-body-9dd4e461268c8034f5c8564e155c67a6.bin"
	if _, err := w.bucket.Put(t.Context(), theirs, strings.NewReader("x"), nil); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"p", "q"} {
		if _, err := w.table.Put(t.Context(), key(k), attrs{"body": "s3://b/" + theirs, "link": "s3://b/any"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	expectText(t, "their item", w.contents(key("p")), `item body=x link="s3://b/any"`)
	if _, err := w.store.Get(t.Context(), key("q"), nil); !errors.Is(err, largeitem.ErrForeign) {
		t.Errorf("a reference that was copied: %v", err)
	}
	for _, text := range []string{"y", "z"} {
		if _, err := w.store.Update(t.Context(), key("p"), largeitem.Change{}, texts("body", text), nil); err != nil {
			t.Fatal(err)
		}
		expectText(t, "our item", w.contents(key("p")), "item body="+text+` link="s3://b/any"`)
	}
	item, err := w.store.GetMeta(t.Context(), key("p"))
	if err != nil || !strings.HasPrefix(item.Refs["body"].URI, "s3://b/app/p-body-fbade9e36a3f36d3d676c1b808451dd7.bin.id=") {
		t.Errorf("the reference is %+v, %v", item.Refs["body"], err)
	}
	if got := w.objects(); len(got) != 2 { // theirs and our last one
		t.Errorf("there are %q", got)
	}
}

// TestTwoTablesUnderOnePrefix: neither touches, nor reads, the other's objects.
func TestTwoTablesUnderOnePrefix(t *testing.T) {
	var worlds []*world
	for _, name := range []string{"a", "ab"} {
		w := newWorld(t, nil)
		table, err := memtable.New(&memtable.Options{Table: name})
		if err != nil {
			t.Fatal(err)
		}
		w.table = table
		if len(worlds) > 0 {
			w.bucket = worlds[0].bucket
		}
		w.store = w.open(table, w.bucket, removing())
		w.create(k1, nil, texts("body", "v1"))
		worlds = append(worlds, w)
	}
	for _, content := range []string{"v2", "v1"} {
		worlds[0].update(worlds[0].store, content)
		expectText(t, "the other table", worlds[1].contents(k1), "item body=v1")
	}
	if _, err := worlds[0].store.Delete(t.Context(), k1, nil); err != nil {
		t.Error(err)
	}
	expectText(t, "the other table", worlds[1].contents(k1), "item body=v1")
	if n := len(worlds[1].objects()); n != 1 {
		t.Errorf("%d objects", n)
	}
}

// TestRepeatedCreateAfterDelete: a second copy of the write that created an item arrives
// when the item was changed, and deleted. RemoveSuperseded has left what the copy refers to,
// as long as a copy can arrive; with RemoveYoung, it is lost.
func TestRepeatedCreateAfterDelete(t *testing.T) {
	for _, young := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil)
			var again func() // the second copy
			s := w.open(&repeatingTable{w.table, &again}, w.bucket, &largeitem.Options{RemoveSuperseded: true, RemoveYoung: young})
			if _, err := s.Create(t.Context(), k1, nil, texts("body", "v1"), nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(largeitem.DefaultOrphanAge / 2)
			w.update(s, "v2")
			if _, err := s.Delete(t.Context(), k1, nil); err != nil {
				t.Fatal(err)
			}
			again()
			text, err := contents(t.Context(), w.store, k1)
			if lost := errors.Is(err, largeitem.ErrMissing); lost != young || !young && text != "item body=v1" {
				t.Errorf("young: %v: %q, %v", young, text, err)
			}
			// What is older than the orphan age is removed at once.
			time.Sleep(largeitem.DefaultOrphanAge)
			if r, err := s.Delete(t.Context(), k1, nil); err != nil || r.Removed != 1 {
				t.Errorf("young: %v: %+v, %v", young, r, err)
			}
		})
	}
}

// repeatingTable keeps the last put, to be made again.
type repeatingTable struct {
	*memtable.Table
	again *func()
}

func (r *repeatingTable) Put(ctx context.Context, key largeitem.Key, item attrs, cond *largeitem.Condition) (attrs, error) {
	*r.again = func() { _, _ = r.Table.Put(ctx, key, item, cond) }
	return r.Table.Put(ctx, key, item, cond)
}
