package objecttest

import (
	"fmt"
	"io"

	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

func readCases() []testCase {
	return []testCase{
		{"Range", "A range gives exactly the bytes it names, and the size of the whole.", caseRange},
		{"RangeBehindEnd", "An offset at or behind the end is refused with ErrRange; offset 0 always fits.", caseRangeBehindEnd},
		{"GetIfMatch", "Get with IfMatch gives that state or a conflict, never another state.", func(e *env) {
			v1 := e.put("a", "one", nil)
			if got, _ := e.read("a", &object.GetOptions{IfMatch: v1, Offset: 1}); got != "ne" {
				e.Errorf("got %q", got)
			}
			e.put("a", "two", nil)
			_, err := e.other.Get(e.ctx, "a", &object.GetOptions{IfMatch: v1})
			e.conflict("a get of a state that was replaced", err)
			e.delete("a")
			_, err = e.other.Get(e.ctx, "a", &object.GetOptions{IfMatch: v1})
			e.conflict("a get of a state that was deleted", err)
		}},
		{"GetIfChanged", "Get with IfChanged answers ErrNotChanged while the state is the one named, and gives any other.", func(e *env) {
			v1 := e.put("a", "one", nil)
			_, err := e.other.Get(e.ctx, "a", &object.GetOptions{IfChanged: v1})
			e.WantErr("the call", err, object.ErrNotChanged)
			e.put("a", "two", nil)
			if got, _ := e.read("a", &object.GetOptions{IfChanged: v1}); got != "two" {
				e.Errorf("got %q", got)
			}
			e.delete("a")
			_, err = e.other.Get(e.ctx, "a", &object.GetOptions{IfChanged: v1})
			e.WantErr("after a delete", err, store.ErrNotFound)
		}},
		{"ReaderKeepsState", "An open reader gives one state to its end, or an error, also when the object is replaced or deleted meanwhile.", caseReaderKeepsState},
		{"CloseEarly", "A reader may be closed before its end.", func(e *env) {
			v := e.put("a", e.large(), nil)
			for range 3 {
				r, err := e.other.Get(e.ctx, "a", nil)
				e.Must("get", err)
				e.OK("read", suitetest.ErrOf(r.Read(make([]byte, 10))))
				r.Close()
			}
			if info, err := e.other.Stat(e.ctx, "a"); err != nil || info.Version != v {
				e.Errorf("stat: %v, %v", info, err)
			}
		}},
	}
}

func (e *env) delete(key string) {
	e.Must(fmt.Sprintf("delete %q", key), e.b.Delete(e.ctx, key, nil))
}

func caseRange(e *env) {
	const body = "0123456789"
	e.put("a", body, nil)
	for _, c := range []struct {
		offset, length int64
		want           string
	}{
		{0, 0, body}, {0, 4, "0123"}, {3, 4, "3456"}, {3, 0, "3456789"}, {9, 0, "9"}, {9, 1, "9"}, {8, 100, "89"}, {0, 100, body},
	} {
		got, info := e.read("a", &object.GetOptions{Offset: c.offset, Length: c.length})
		if got != c.want {
			e.Errorf("offset %d, length %d: got %q, want %q", c.offset, c.length, got, c.want)
		}
		if info.Size != int64(len(body)) {
			e.Errorf("offset %d, length %d: Info.Size is %d, want the size of the whole object, %d", c.offset, c.length, info.Size, len(body))
		}
	}
	large := e.large()
	e.put("b", large, nil)
	if got, _ := e.read("b", &object.GetOptions{Offset: int64(e.Large) - 5}); got != large[e.Large-5:] {
		e.Errorf("the end of a large body: got %q", got)
	}
}

func caseRangeBehindEnd(e *env) {
	e.put("a", "ten bytes.", nil)
	e.put("empty", "", nil)
	for _, c := range []struct {
		key    string
		offset int64
	}{{"a", 10}, {"a", 11}, {"a", 1 << 40}, {"empty", 1}} {
		r, err := e.other.Get(e.ctx, c.key, &object.GetOptions{Offset: c.offset})
		if err == nil {
			r.Close()
		}
		e.WantErr(fmt.Sprintf("%q from %d", c.key, c.offset), err, object.ErrRange)
	}
	if got, _ := e.read("empty", &object.GetOptions{Length: 5}); got != "" {
		e.Errorf("got %q of an empty body", got)
	}
	for _, opts := range []*object.GetOptions{{Offset: -1}, {Length: -1}, {IfMatch: "x", IfChanged: "y"}} {
		e.WantErr(fmt.Sprintf("%+v", opts), suitetest.ErrOf(e.other.Get(e.ctx, "a", opts)), object.ErrInvalid)
	}
}

func caseReaderKeepsState(e *env) {
	body := e.large()
	e.put("a", body, nil)
	r, err := e.other.Get(e.ctx, "a", nil)
	e.Must("get", err)
	defer r.Close()
	first := make([]byte, 1)
	e.Must("read", suitetest.ErrOf(r.Read(first)))
	e.put("a", "another", nil)
	e.delete("a")
	rest, err := io.ReadAll(r)
	if got := string(first) + string(rest); err == nil && got != body {
		e.Errorf("a reader that was open during a change gave %d bytes that are not the body, and no error", len(got))
	}
}
