package storetable_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/items/itemtest"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/items/storetable"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
	"github.com/holdfast-go/holdfast/store/filestore"
	"github.com/holdfast-go/holdfast/store/memstore"
)

func newTable(t *testing.T, st store.Store, opts *storetable.Options) *storetable.Table {
	t.Helper()
	if err := storetable.Create(t.Context(), st, opts); err != nil {
		t.Fatal(err)
	}
	table, err := storetable.New(st, opts)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func newKey(t *testing.T, partition any, sort ...any) largeitem.Key {
	t.Helper()
	key, err := largeitem.NewKey(partition, sort...)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// inStore is a table that knows its store.
type inStore struct {
	*storetable.Table
	st   store.Store
	opts *storetable.Options
}

func TestTable(t *testing.T) {
	add := func(attr string, n int) any {
		return largeitem.ChangeFunc(func(item largeitem.Attributes) error {
			item[attr] = largeitem.Number(strconv.Itoa(number(item[attr]) + n))
			return nil
		})
	}
	above := func(attr string, n int) any {
		return largeitem.ConditionFunc(func(item largeitem.Attributes) bool { return item[attr] != nil && number(item[attr]) > n })
	}
	second := func(t *testing.T, first largeitem.Table) largeitem.Table {
		f := first.(inStore)
		table, err := storetable.New(f.st, f.opts)
		if err != nil {
			t.Fatal(err)
		}
		return table
	}
	memory := func(*testing.T) store.Store { return memstore.New() }
	text, num := largeitem.KeyAttribute{Name: "sk"}, largeitem.KeyAttribute{Name: "id", Number: true}
	for name, c := range map[string]struct {
		store func(t *testing.T) store.Store
		opts  *storetable.Options
		suite itemtest.Options
	}{
		"memory":  {memory, nil, itemtest.Options{}},
		"numbers": {memory, &storetable.Options{Table: "a-table.of_mine", Partition: num}, itemtest.Options{Items: 100, Rounds: 5}},
		"sorted":  {memory, &storetable.Options{Sort: text}, itemtest.Options{Items: 100, Rounds: 5}},
		"prefix": {func(t *testing.T) store.Store {
			st, err := store.Prefix(memstore.New(), "app/"+strings.Repeat("p", 200))
			if err != nil {
				t.Fatal(err)
			}
			return st
		}, &storetable.Options{Sort: num}, itemtest.Options{Items: 100, Rounds: 5}},
		"files": {func(t *testing.T) store.Store {
			st, err := filestore.Open(t.TempDir(), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { st.Close() })
			return st
		}, &storetable.Options{Sort: text}, itemtest.Options{Items: 60, Rounds: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.suite.Reopen, c.suite.Add, c.suite.Above, c.suite.Large = second, add, above, 65_000
			itemtest.Run(t, func(t *testing.T) largeitem.Table {
				st := c.store(t)
				return inStore{newTable(t, st, c.opts), st, c.opts}
			}, &c.suite)
		})
	}
}

func number(v any) int {
	n, _ := strconv.Atoi(fmt.Sprint(v))
	return n
}

// What is in the registers: earlier versions wrote it, and it must stay readable.
func TestStored(t *testing.T) {
	st := memstore.New()
	ctx := t.Context()
	if _, err := st.Put(ctx, "items/schema", "", []byte(`{"holdfastItems":1,"id":"registers:ABC","partition":{"name":"pk"},"sort":{"name":"sk","number":true}}`)); err != nil {
		t.Fatal(err)
	}
	table, err := storetable.New(st, nil)
	if err != nil {
		t.Fatal(err)
	}
	schema, err := table.Schema(ctx)
	want := largeitem.Schema{Name: "memory, table items", Table: "items", ID: "registers:ABC@" + store.TraitsOf(st).ID + "/", MaxItem: store.MaxValue,
		Partition: largeitem.KeyAttribute{Name: "pk"}, Sort: largeitem.KeyAttribute{Name: "sk", Number: true}}
	if err != nil || schema != want {
		t.Errorf("got %+v, %v", schema, err)
	}
	long := strings.Repeat("x", 250)
	for _, c := range []struct {
		key             largeitem.Key
		register, value string
	}{
		{newKey(t, "a/é. <!", -7), "items/pk=a!2Fé.!20!3C!21/sk=-7", `{"v":1,"key":["a/é. <!",-7],"item":{"a":{"S":"x"}}}`},
		// U+10D4A is a letter since version 16 of Unicode.
		{newKey(t, "\U00010D4A \U0001F512", 2), "items/pk=\U00010D4A!20\U0001F512/sk=2", `{"v":1,"key":["` + "\U00010D4A \U0001F512" + `",2],"item":{"a":{"S":"x"}}}`},
		{newKey(t, long, 1), "items/key=a5f09ed924905a904f359eb24cd2a7332c0257502db5b8095447f4f63167b38d", `{"v":1,"key":["` + long + `",1],"item":{"a":{"S":"x"}}}`},
	} {
		if _, err := table.Put(ctx, c.key, largeitem.Attributes{"a": "x"}, nil); err != nil {
			t.Error(err)
		}
		value, _, err := st.Get(ctx, c.register)
		if err != nil || string(value) != c.value {
			t.Errorf("%s: got %s, %v", c.register, value, err)
			for key := range st.List(ctx, "items") {
				t.Log(key)
			}
		}
	}
}

// Create makes a table once, and never changes one.
func TestCreate(t *testing.T) {
	ctx, st := t.Context(), memstore.New()
	table, err := storetable.New(st, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := table.Put(ctx, newKey(t, "a"), nil, nil); !errors.Is(err, store.ErrMisconfigured) || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("without a table: %v", err)
	}
	var ids []string
	for range 2 {
		if err := storetable.Create(ctx, st, nil); err != nil {
			t.Error(err)
		}
		schema, err := table.Schema(ctx)
		if err != nil {
			t.Error(err)
		}
		ids = append(ids, schema.ID)
	}
	if ids[0] != ids[1] {
		t.Errorf("a second Create changed the ID: %q", ids)
	}
	for _, o := range []storetable.Options{
		{Partition: largeitem.KeyAttribute{Name: "pk", Number: true}}, {Partition: largeitem.KeyAttribute{Name: "id"}}, {Sort: largeitem.KeyAttribute{Name: "sk"}},
	} {
		if err := storetable.Create(ctx, st, &o); !errors.Is(err, store.ErrMisconfigured) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if err := storetable.Create(ctx, memstore.New(), &storetable.Options{Table: "items"}); err != nil {
		t.Error(err)
	}
	_, v, err := st.Get(ctx, "items/schema")
	if err == nil {
		err = st.Delete(ctx, "items/schema", v)
	}
	if err != nil {
		t.Fatal(err)
	}
	anew := newTable(t, st, nil)
	if schema, err := anew.Schema(ctx); err != nil || schema.ID == ids[0] {
		t.Errorf("a table made anew has the ID %s again, %v", schema.ID, err)
	}
	for _, o := range []storetable.Options{{Table: "a/b"}, {Table: ".."}, {Table: "é"}, {Table: strings.Repeat("x", 101)}, {Sort: largeitem.KeyAttribute{Name: "pk"}}, {Sort: largeitem.KeyAttribute{Number: true}}} {
		if err := storetable.Create(ctx, memstore.New(), &o); !errors.Is(err, largeitem.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := storetable.New(nil, nil); !errors.Is(err, largeitem.ErrInvalid) {
		t.Errorf("no store: %v", err)
	}
}

// A register that is no item of its own name is reported, and neither read, nor taken for
// absent, nor written over.
func TestForeignRegisters(t *testing.T) {
	ctx, st := t.Context(), memstore.New()
	table := newTable(t, st, nil)
	good := newKey(t, "good")
	if _, err := table.Put(ctx, good, largeitem.Attributes{"a": "x"}, nil); err != nil {
		t.Fatal(err)
	}
	copied, _, err := st.Get(ctx, "items/pk=good")
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{
		"", "null", "{}", "text", string(copied), `{"v":2,"key":["bad"],"item":{}}`, `{"v":1,"key":["bad"]}`, `{"v":1,"key":["bad","x"],"item":{}}`,
		`{"v":1,"item":{}}`, `{"v":1,"key":["bad"],"item":{"a":"x"}}`, `{"v":1,"key":["bad"],"item":{}} {}`, `{"v":1,"key":"bad","item":{}}`, `{"v":1,"key":[],"item":{}}`,
	} {
		_, v, _ := st.Get(ctx, "items/pk=bad")
		if _, err := st.Put(ctx, "items/pk=bad", v, []byte(value)); err != nil {
			t.Fatal(err)
		}
		bad := newKey(t, "bad")
		if _, err := table.Get(ctx, bad, nil); !errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrNotFound) {
			t.Errorf("get of %s: %v", value, err)
		}
		_, putErr := table.Put(ctx, bad, nil, nil)
		_, deleteErr := table.Delete(ctx, bad, nil)
		for _, err := range []error{putErr, deleteErr} {
			if !errors.Is(err, store.ErrCorrupt) || store.OutcomeOf(err) != store.NotApplied {
				t.Errorf("a write over %s: %v (%v)", value, err, store.OutcomeOf(err))
			}
		}
		var scanned []string
		for row, err := range table.Scan(ctx, nil) {
			scanned = append(scanned, fmt.Sprintln(row.Position, row.Key == good, errors.Is(err, store.ErrCorrupt)))
		}
		if want := []string{"pk=bad false true\n", "pk=good true false\n"}; !slices.Equal(scanned, want) { // the items after it, too
			t.Errorf("the scan over %s: got %q, want %q", value, scanned, want)
		}
		for range table.Scan(ctx, nil) {
			break
		}
	}
	// A scan skips registers that are no items.
	_, v, _ := st.Get(ctx, "items/pk=bad")
	if err := st.Delete(ctx, "items/pk=bad", v); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"items/other", "items/other/pk=good", "itemsx/pk=a", "other"} {
		if _, err := st.Put(ctx, key, "", nil); err != nil {
			t.Fatal(err)
		}
	}
	for row, err := range table.Scan(ctx, nil) {
		if err != nil || row.Key != good {
			t.Errorf("got %v, %v", row.Key, err)
		}
	}
	for _, schema := range []string{"", "{}", `{"holdfastItems":2,"id":"x","partition":{"name":"pk"}}`, `{"holdfastItems":1,"id":"","partition":{"name":"pk"}}`, `{"holdfastItems":1,"id":"x"}`} {
		st := memstore.New()
		if _, err := st.Put(ctx, "items/schema", "", []byte(schema)); err != nil {
			t.Fatal(err)
		}
		table, err := storetable.New(st, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := table.Delete(ctx, good, nil); !errors.Is(err, store.ErrCorrupt) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("the schema %q: %v (%v)", schema, err, store.OutcomeOf(err))
		}
	}
}

// An item that fits by its attributes and not as JSON is refused.
func TestTooLargeAsJSON(t *testing.T) {
	ctx := t.Context()
	table, key := newTable(t, memstore.New(), nil), newKey(t, "a")
	for _, value := range []any{make([]byte, 50_000), strings.Repeat("\n", 12_000), strings.Repeat("x", 65_500)} {
		if _, err := table.Put(ctx, key, largeitem.Attributes{"a": value}, nil); !errors.Is(err, store.ErrTooLarge) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("%T: %v", value, err)
		}
	}
	if _, err := table.Get(ctx, key, nil); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
}

// TestOutcomes: whichever request of a write fails, loses its reply, arrives late or is
// carried out twice, the table knows the outcome of the write, and the register agrees.
func TestOutcomes(t *testing.T) {
	before := largeitem.Attributes{"n": "before"}
	for _, c := range []struct {
		schedule string
		unknown  bool // that the outcome is unknown is right
		applied  bool // else
	}{
		{"", false, true},
		{"put #1 lose", false, true},
		{"put #1 drop", false, true},
		{"put #1-3 drop", false, true},
		{"put #1 late +1", false, true},
		{"put #1 lose; resolve #1-4 fail", false, true},
		{"put #1 fail", false, false},
		{"get #2 fail", false, false},
		{"put drop", true, false},
		{"put lose; resolve fail", true, true},
		{"delete #1 lose", false, true},
		{"delete #1 drop", false, true},
		{"delete #1-3 drop", false, true},
		{"delete #1 fail", false, false},
		{"delete drop", true, false},
	} {
		for _, kind := range []string{"put", "update", "delete"} {
			if strings.HasPrefix(c.schedule, "delete") != (kind == "delete") {
				continue
			}
			t.Run(c.schedule+"/"+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := memstore.New()
					key := newKey(t, "a")
					if _, err := newTable(t, m, nil).Put(t.Context(), key, before, nil); err != nil {
						t.Fatal(err)
					}
					schedule, err := faultstore.Parse(strings.NewReplacer("put ", "put items/pk=a ", "resolve ", "resolve items/pk=a ", "delete ", "delete items/pk=a ", "get #2", "get items/pk=a #1").Replace(c.schedule))
					if err != nil {
						t.Fatal(err)
					}
					table, err := storetable.New(faultstore.New(m, schedule), nil)
					if err != nil {
						t.Fatal(err)
					}
					start := time.Now()
					want := largeitem.Attributes{"n": "after"}
					cond := &largeitem.Condition{Equal: before}
					switch kind {
					case "put":
						_, err = table.Put(t.Context(), key, want, cond)
					case "update":
						_, err = table.Update(t.Context(), key, largeitem.Change{Set: want}, cond)
					case "delete":
						want = nil
						_, err = table.Delete(t.Context(), key, cond)
					}
					if took := time.Since(start); took > 30*time.Second {
						t.Errorf("it took %v", took)
					}
					got := store.OutcomeOf(err)
					if c.unknown != (got == store.Unknown) || !c.unknown && c.applied != (got == store.Applied) || errors.Is(err, store.ErrConflict) {
						t.Errorf("got %v (%v)", err, got)
					}
					if !c.applied {
						want = before
					}
					plain, err := storetable.New(m, nil)
					if err != nil {
						t.Fatal(err)
					}
					now, err := plain.Get(t.Context(), key, nil)
					if want == nil && !errors.Is(err, store.ErrNotFound) || want != nil && !largeitem.Equal(map[string]any(now), map[string]any(want)) {
						t.Errorf("the item is %v, %v", now, err)
					}
				})
			})
		}
	}
}

// Another writer that is faster makes the write decide again, on what that one wrote.
func TestDecidesAgain(t *testing.T) {
	ctx, st, key := t.Context(), memstore.New(), newKey(t, "a")
	other := newTable(t, st, nil)
	if _, err := other.Put(ctx, key, largeitem.Attributes{"n": "one"}, nil); err != nil {
		t.Fatal(err)
	}
	meanwhile := func() {}
	between := store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
		if op.Kind == store.OpPut {
			f := meanwhile
			meanwhile = func() {}
			f()
		}
		return next(ctx, op)
	})
	table, err := storetable.New(between, nil)
	if err != nil {
		t.Fatal(err)
	}
	meanwhile = func() {
		if _, err := other.Update(ctx, key, largeitem.Change{Set: largeitem.Attributes{"m": "theirs"}}, nil); err != nil {
			t.Error(err)
		}
	}
	got, err := table.Update(ctx, key, largeitem.Change{Set: largeitem.Attributes{"n": "two"}}, &largeitem.Condition{Equal: largeitem.Attributes{"n": "one"}})
	if err != nil || !largeitem.Equal(map[string]any(got), map[string]any{"n": "two", "m": "theirs"}) {
		t.Errorf("got %v, %v", got, err)
	}
	meanwhile = func() {
		if _, err := other.Delete(ctx, key, nil); err != nil {
			t.Error(err)
		}
	}
	var refused *largeitem.ConditionFailedError
	_, err = table.Update(ctx, key, largeitem.Change{}, &largeitem.Condition{Exists: true})
	if !errors.As(err, &refused) || !refused.HasCurrent || refused.Current != nil {
		t.Errorf("after a delete: %v", err)
	}
}

// A scan of more items than it holds names of yields all, in order, and can be continued.
func TestScanPages(t *testing.T) {
	ctx := t.Context()
	table := newTable(t, memstore.New(), nil)
	want := map[string]bool{}
	for i := range 100 {
		key := newKey(t, fmt.Sprintf("%03d", i*7%100)+strings.Repeat("x", i%3*200))
		want[key.Partition.Text] = true
		if _, err := table.Put(ctx, key, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, page := range []int{1, 7, 50, 99, 100, 1000} {
		table.SetPage(page)
		got := map[string]bool{}
		var positions []string
		for row, err := range table.Scan(ctx, nil) {
			if err != nil {
				t.Fatal(err)
			}
			got[row.Key.Partition.Text] = true
			positions = append(positions, row.Position)
		}
		if !maps.Equal(got, want) || len(positions) != 100 || !slices.IsSorted(positions) {
			t.Errorf("pages of %d: %d items", page, len(positions))
		}
	}
	for _, err := range table.Scan(ctx, &largeitem.ScanOptions{After: `["a"]`}) {
		if !errors.Is(err, largeitem.ErrInvalid) {
			t.Errorf("another table's position: %v", err)
		}
	}
}

// A copy of a directory has the ID of the table in it, and is another table; by another path
// it is the same one.
func TestCopies(t *testing.T) {
	dir := t.TempDir()
	one, two, link := filepath.Join(dir, "one"), filepath.Join(dir, "two"), filepath.Join(dir, "link")
	id := func(path string) string {
		t.Helper()
		st, err := filestore.Open(path, &filestore.Options{Unsafe: []string{"link"}})
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		schema, err := newTable(t, st, nil).Schema(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return schema.ID
	}
	first := id(one)
	if err := errors.Join(os.CopyFS(two, os.DirFS(one)), os.Chmod(two, 0o700), os.Symlink("one", link)); err != nil {
		t.Fatal(err)
	}
	mark, _, _ := strings.Cut(first, "@")
	if copied := id(two); copied == first || !strings.HasPrefix(copied, mark+"@") {
		t.Errorf("a copy has the ID %s, the original %s", copied, first)
	}
	if again := id(link); again != first {
		t.Errorf("by a link the ID is %s, else %s", again, first)
	}
}
