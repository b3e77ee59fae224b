package checkpoints

import (
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/jsontest"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
)

// The JSON that programs read stays as it is.
func TestJSON(t *testing.T) {
	past := viewPast("orders", checkpoint.HistoryEntry{
		Kind: checkpoint.HistoryNewToken, Time: time.Date(2026, 11, 20, 2, 0, 0, 0, time.UTC), Write: 3, Token: 9, Exists: true, Sequence: 1<<64 - 1,
	})
	jsontest.Golden(t, map[string]any{
		"checkpoint": viewCheckpoint(checkpoint.Checkpoint{
			Key: "orders", Exists: true, Epoch: 2, Token: 9, Written: time.Date(2026, 11, 20, 2, 0, 0, 0, time.UTC),
			Position: checkpoint.Position{Sequence: 1<<64 - 1, EventID: "orders@17", Data: []byte(`{"a":1}`)},
		}),
		"history": past,
	})
	page := jsontest.Section(t, "`checkpoint history`")
	for _, field := range reflect.VisibleFields(reflect.TypeOf(past)) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/json.md does not have `%s`", name)
		}
	}
	if !strings.Contains(page, "`"+past.Kind+"`") {
		t.Errorf("docs/json.md does not have %q", past.Kind)
	}
}

// An import that does not end is not read for ever: neither one long text, nor blanks.
func TestEndlessImport(t *testing.T) {
	for _, start := range []string{`[{"key":"`, " ", `[`} {
		in := endless(start)
		a := &access{leases.Opener{Invocation: &cmdline.Invocation{Stdin: in}}}
		if _, err := a.readExport("-", 1<<20); err == nil || !strings.Contains(err.Error(), "larger than 1048576 bytes") || exit.Status(err) != exit.Usage {
			t.Errorf("%q: %v", start, err)
		}
	}
}

// An import has all lists of its input. It refuses an input of which it would import only a part.
func TestImportedLists(t *testing.T) {
	list := func(key string) string { return `[{"key":"` + key + `","exists":true,"sequence":1}]` }
	for in, want := range map[string]int{
		"[]": 0, list("a"): 1, list("a") + "\n" + list("b"): 2, "[]" + list("a") + "[]\n": 1,
		"": -1, "null": -1, list("a") + "null": -1, list("a") + "garbage": -1, list("a") + `[{"key":`: -1, list("a") + "]": -1,
		`[{"key":"a","sequence":1}]`: -1, `[{"exists":true,"sequence":1}]`: -1, "[null]": -1,
	} {
		a := &access{leases.Opener{Invocation: &cmdline.Invocation{Stdin: strings.NewReader(in)}}}
		views, err := a.readExport("-", 1<<20)
		if want < 0 && exit.Status(err) != exit.Usage || want >= 0 && (err != nil || len(views) != want) {
			t.Errorf("%q: %d checkpoints, %v", in, len(views), err)
		}
	}
}

// endless repeats blanks after a start, or letters where the start has begun a text.
func endless(start string) io.Reader {
	rest := " "
	if strings.HasSuffix(start, `"`) {
		rest = "a"
	}
	return io.MultiReader(strings.NewReader(start), repeated(rest))
}

type repeated string

func (r repeated) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = r[0]
	}
	return len(p), nil
}
