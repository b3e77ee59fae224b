package objecttest

import (
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/object"
)

func listCases() []testCase {
	return []testCase{
		{"ListPrefix", "A prefix is any text, compared byte for byte.", func(e *env) {
			for _, key := range []string{"job", "job-2", "job/1", "job/2", "Job", "jo", "x/job"} {
				e.put(key, "", nil)
			}
			for prefix, want := range map[string][]string{
				"":      {"Job", "jo", "job", "job-2", "job/1", "job/2", "x/job"},
				"job":   {"job", "job-2", "job/1", "job/2"},
				"job/":  {"job/1", "job/2"},
				"job/1": {"job/1"},
				"y":     nil,
			} {
				if got := e.list(prefix, nil); !slices.Equal(got, want) {
					e.Errorf("prefix %q: got %q, want %q", prefix, got, want)
				}
			}
		}},
		{"ListAfter", "After leaves out what is not greater.", func(e *env) {
			for _, key := range []string{"a", "b", "b0", "c", "d/e"} {
				e.put(key, "", nil)
			}
			if got, want := e.list("", &object.ListOptions{After: "b"}), []string{"b0", "c", "d/e"}; !slices.Equal(got, want) {
				e.Errorf("got %q, want %q", got, want)
			}
			if got := e.list("b", &object.ListOptions{After: "b0"}); len(got) != 0 {
				e.Errorf("got %q, want nothing", got)
			}
		}},
		{"ListInfo", "A listing has version, size and time of each object.", func(e *env) {
			put := e.putInfo("a", "twelve bytes", nil)
			for info, err := range e.other.List(e.ctx, "", nil) {
				e.Must("list", err)
				if info.Key != "a" || info.Version != put.Version || info.Size != 12 || info.Modified.IsZero() {
					e.Errorf("got %+v; put returned version %q", info, put.Version)
				}
			}
		}},
		{"ListLong", "A listing of more than a page is complete, with each key once.", func(e *env) {
			var want []string
			for i := range e.Keys {
				want = append(want, fmt.Sprintf("many/%05d", i))
			}
			e.putAll(want)
			if got := e.list("many/", nil); !slices.Equal(got, want) {
				e.Errorf("got %d keys, want %d", len(got), len(want))
			}
			if got := e.list("many/", &object.ListOptions{After: want[len(want)/2]}); !slices.Equal(got, want[len(want)/2+1:]) {
				e.Errorf("after the middle: got %d keys, want %d", len(got), len(want)-len(want)/2-1)
			}
		}},
		{"ListEnds", "A loop over a listing may be left early.", func(e *env) {
			e.put("a", "", nil)
			e.put("b", "", nil)
			for range e.other.List(e.ctx, "", nil) {
				break
			}
		}},
		{"ListAtOnce", "A listing that starts after a write was answered shows it.", func(e *env) {
			for i := range 20 {
				key := fmt.Sprintf("k%d", i)
				e.put(key, "", nil)
				if got := e.list(key, nil); !slices.Contains(got, key) {
					e.Errorf("%q is missing after its put", key)
				}
				e.delete(key)
				if got := e.list(key, nil); slices.Contains(got, key) {
					e.Errorf("%q is there after its delete", key)
				}
			}
		}},
	}
}

// putAll puts an empty object at each key, several at a time.
func (e *env) putAll(keys []string) {
	e.race(func(i int) {
		for n := i; n < len(keys); n += e.Racers {
			if _, err := e.handle(i).Put(e.ctx, keys[n], readerOnly{emptyBody{}}, nil); err != nil {
				e.Errorf("put %q: %v", keys[n], err)
				return
			}
		}
	})
}
