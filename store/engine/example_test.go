package engine_test

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// begin of the driver

// driver keeps the texts of registers. The map stands for your server: each method is one
// request to it.
type driver struct {
	mu   sync.Mutex
	rows map[string][]byte
}

func (d *driver) Read(_ context.Context, key string, _ engine.Tag) (engine.Stored, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	text, there := d.rows[key]
	if !there {
		return engine.Stored{}, store.ErrNotFound
	}
	e, err := engine.Decode(text)
	return engine.Stored{Envelope: e}, err
}

func (d *driver) Write(_ context.Context, key string, on engine.Stored, e engine.Envelope) (engine.Tag, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var current engine.Stored // absent
	if text, there := d.rows[key]; there {
		var err error
		if current.Envelope, err = engine.Decode(text); err != nil {
			return "", store.MarkNotApplied(err)
		}
	}
	if current.ID() != on.ID() {
		return "", &engine.ConditionFailedError{HasCurrent: true, Current: current}
	}
	d.rows[key] = e.Encode()
	return "", nil
}

func (d *driver) List(_ context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		d.mu.Lock()
		rows := maps.Clone(d.rows)
		d.mu.Unlock()
		for key, text := range rows {
			tombstone := len(text) == engine.TombstoneSize
			if !tombstone && (prefix == "" || strings.HasPrefix(key, prefix+"/")) && !yield(key, nil) {
				return
			}
		}
	}
}

// Open returns the registers.
func Open() (*engine.Store, error) {
	return engine.New(&driver{rows: make(map[string][]byte)}, &engine.Options{
		Traits:  store.Traits{Name: "map:example", ConflictCarriesState: true},
		Trusted: true, // leave this out for a server that may ignore conditions
	})
}

// end of the driver

func Example() {
	ctx := context.Background()
	s, err := Open()
	if err != nil {
		fmt.Println(err)
		return
	}
	v, _ := s.Put(ctx, "config", "", []byte("blue")) // must not exist
	_, err = s.Put(ctx, "config", "", []byte("red"))
	fmt.Println(store.OutcomeOf(err))
	_, err = s.Put(ctx, "config", v, []byte("red"))
	fmt.Println(store.OutcomeOf(err))
	// Output:
	// not applied
	// applied
}

// TestExample: the smallest driver keeps the whole contract, through two handles too.
func TestExample(t *testing.T) {
	var d *driver
	open := func(t *testing.T) store.Store {
		s, err := engine.New(d, &engine.Options{Traits: store.Traits{Name: "map:example", ConflictCarriesState: true}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	storetest.Run(t, func(t *testing.T) store.Store {
		d = &driver{rows: make(map[string][]byte)}
		return open(t)
	}, &storetest.Options{Reopen: func(t *testing.T, _ store.Store) store.Store { return open(t) }, Rounds: 5})
}

// TestExampleInDocs: the documentation shows the driver that is tested here.
func TestExampleInDocs(t *testing.T) {
	code, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	docs, err := os.ReadFile("../../docs/adding-a-store.md")
	if err != nil {
		t.Fatal(err)
	}
	_, driver, _ := strings.Cut(string(code), "// begin of the driver\n\n")
	driver, _, found := strings.Cut(driver, "\n// end of the driver")
	blocks := strings.Split(string(docs), "```")
	if !found || !slices.Contains(blocks, "go\n"+driver) {
		t.Error("docs/adding-a-store.md does not show the driver of example_test.go as it is")
	}
}
