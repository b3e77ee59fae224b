package doctor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"iter"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) {
	if os.Getenv(helperVar) != "" {
		help()
	}
	os.Exit(m.Run())
}

// want is what is to be found: a verdict, and the results of some checks. Every other
// check must be ok.
type want struct {
	verdict doctor.Verdict
	results map[string]doctor.Result
}

func good() want { return want{verdict: doctor.Safe} }

// found makes a want of "id=result" words.
func found(verdict doctor.Verdict, words string) want {
	w := want{verdict, make(map[string]doctor.Result)}
	for word := range strings.FieldsSeq(words) {
		id, result, _ := strings.Cut(word, "=")
		w.results[id] = doctor.Result(result)
	}
	return w
}

func (w want) check(t *testing.T, r *doctor.Report) {
	t.Helper()
	if r.Verdict != w.verdict || r.Safe != (w.verdict == doctor.Safe) || r.Summary == "" {
		t.Errorf("verdict %q (safe: %v), want %q: %s", r.Verdict, r.Safe, w.verdict, r.Summary)
	}
	seen := make(map[string]bool)
	for _, c := range r.Checks {
		seen[c.ID] = true
		wanted := w.results[c.ID]
		if wanted == "" {
			wanted = doctor.OK
		}
		if c.Result != wanted && wanted != "any" {
			t.Errorf("%s: %s (%s), want %s", c.ID, c.Result, c.Found, wanted)
		}
		if c.Result != doctor.OK && (c.Found == "" || c.Means == "" && c.Result != doctor.NotTested) {
			t.Errorf("%s is %s and does not say what was found and what it means: %+v", c.ID, c.Result, c)
		}
	}
	for id := range w.results {
		if !seen[id] {
			t.Errorf("%s was not checked", id)
		}
	}
	if t.Failed() {
		var b bytes.Buffer
		_ = r.WriteText(&b)
		t.Log(b.String())
	}
}

func examine(t *testing.T, target *doctor.Target, opts *doctor.Options) *doctor.Report {
	t.Helper()
	if opts == nil {
		opts = doctor.Patient()
	}
	r, err := doctor.Run(t.Context(), target, opts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// op is one operation of a broken store.
type op func(ctx context.Context, op *store.Op, next store.Handler) error

// brokenRegisters are stores that break the contract, each in its own way, and the
// checks that notice.
func brokenRegisters(mem *memstore.Store) map[string]struct {
	broken op
	want   want
} {
	type row = struct {
		broken op
		want   want
	}
	var mu sync.Mutex
	reads := make(map[string]*store.Op)
	return map[string]row{
		"none": {func(ctx context.Context, o *store.Op, next store.Handler) error { return next(ctx, o) }, good()},
		"creates over what is there": {func(ctx context.Context, o *store.Op, next store.Handler) error {
			if o.Kind == store.OpPut && o.Prev == "" {
				return force(ctx, o, next)
			}
			return next(ctx, o)
		}, found(doctor.NotSafe, "create-twice=unsafe create-race=unsafe")},
		"swaps whatever is there": {func(ctx context.Context, o *store.Op, next store.Handler) error {
			if o.Kind == store.OpPut && o.Prev != "" {
				return force(ctx, o, next)
			}
			return next(ctx, o)
		}, found(doctor.NotSafe, "swap-race=unsafe wrong-version=unsafe missing-key=unsafe recreate=unsafe equal-values=unsafe")},
		// As programs do it on a plain file system.
		"checks, waits, writes": {checkThenWrite(mem), found(doctor.NotSafe, "create-race=unsafe swap-race=unsafe wrong-version=warning")},
		"refuses and writes": {func(ctx context.Context, o *store.Op, next store.Handler) error {
			err := next(ctx, o)
			var conflict *store.ConflictError
			if o.Kind == store.OpPut && errors.As(err, &conflict) {
				_ = force(ctx, &store.Op{Kind: o.Kind, Key: o.Key, Prev: conflict.Version, Value: o.Value}, next)
			}
			return err
		}, found(doctor.NotSafe, "create-twice=unsafe wrong-version=unsafe missing-key=unsafe create-race=any swap-race=any recreate=unsafe equal-values=unsafe")},
		"deletes with any version": {func(ctx context.Context, o *store.Op, next store.Handler) error {
			if o.Kind == store.OpDelete {
				return force(ctx, o, next)
			}
			return next(ctx, o)
		}, found(doctor.NotSafe, "delete-version=unsafe")},
		"says that it deletes": {func(ctx context.Context, o *store.Op, next store.Handler) error {
			if o.Kind == store.OpDelete {
				return nil
			}
			return next(ctx, o)
		}, found(doctor.NotSafe, "delete-version=unsafe recreate=unsafe list-registers=warning")},
		"reads lag one write behind": {func(ctx context.Context, o *store.Op, next store.Handler) error {
			if o.Kind == store.OpGet {
				mu.Lock()
				old := reads[o.Key]
				mu.Unlock()
				err := next(ctx, o)
				now := *o
				if old != nil && err == nil {
					o.Value, o.Version = old.Value, old.Version
				}
				if err == nil {
					mu.Lock()
					reads[o.Key] = &now
					mu.Unlock()
				}
				return err
			}
			return next(ctx, o)
		}, found(doctor.NotSafe, "read-after-write=unsafe create-twice=any create-race=any swap-race=unsafe wrong-version=any delete-version=any recreate=any equal-values=any missing-key=any large-value=any")},
		"lists nothing new": {func(ctx context.Context, o *store.Op, next store.Handler) error {
			err := next(ctx, o)
			if o.Kind == store.OpList {
				o.Keys = dropFirst(o.Keys)
			}
			return err
		}, found(doctor.Safe, "list-registers=warning")},
		"refuses every creation": {func(ctx context.Context, o *store.Op, next store.Handler) error {
			if o.Kind == store.OpPut && o.Prev == "" {
				return &store.ConflictError{Key: o.Key}
			}
			return next(ctx, o)
		}, found(doctor.NotSafe, "create-twice=unsafe create-race=unsafe swap-race=any wrong-version=any missing-key=any delete-version=any recreate=any equal-values=any read-after-write=any large-value=any list-registers=any latency=any")},
		"damages what is large": {func(ctx context.Context, o *store.Op, next store.Handler) error {
			if o.Kind == store.OpPut && len(o.Value) > 32<<10 {
				o.Value = o.Value[:32<<10]
			}
			return next(ctx, o)
		}, found(doctor.NotSafe, "large-value=unsafe")},
		"denied": {func(ctx context.Context, o *store.Op, next store.Handler) error {
			if o.Kind.Write() {
				return &store.OpError{Op: "put", Key: o.Key, Err: store.ErrDenied}
			}
			return next(ctx, o)
		}, found(doctor.Denied, "create-twice=not_tested")},
		"fails": {func(ctx context.Context, o *store.Op, next store.Handler) error {
			if o.Kind.Write() {
				return store.ErrUnavailable
			}
			return next(ctx, o)
		}, found(doctor.NotProven, "create-twice=not_tested create-race=not_tested swap-race=not_tested wrong-version=not_tested missing-key=not_tested delete-version=not_tested recreate=not_tested equal-values=not_tested read-after-write=not_tested large-value=not_tested list-registers=not_tested latency=not_tested")},
	}
}

func dropFirst(keys iter.Seq2[string, error]) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		first := true
		for key, err := range keys {
			if !first && !yield(key, err) {
				return
			}
			first = false
		}
	}
}

// TestBrokenRegisters: every way to break the contract is noticed, on any store, and
// none is made up.
func TestBrokenRegisters(t *testing.T) {
	t.Parallel()
	for name := range brokenRegisters(nil) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mem := &memstore.Store{}
			tt := brokenRegisters(mem)[name]
			theirs, err := mem.Put(t.Context(), "lock/theirs", "", []byte("held"))
			if err != nil {
				t.Fatal(err)
			}
			r := examine(t, doctor.Registers("mem:", store.Intercept(mem, tt.broken)), nil)
			tt.want.check(t, r)
			for key, err := range store.List(t.Context(), mem, "") {
				if err != nil || key != "lock/theirs" && name != "says that it deletes" && name != "denied" && name != "fails" {
					t.Errorf("left behind: %s, %v", key, err)
				}
			}
			if value, v, err := mem.Get(t.Context(), "lock/theirs"); err != nil || v != theirs || string(value) != "held" {
				t.Errorf("what was there: %q %q %v", value, v, err)
			}
		})
	}
}

// TestHang: a store that does not answer, and does not listen to contexts either, is
// left after its time; the other checks continue.
func TestHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		forever := make(chan struct{})
		st := store.Intercept(&memstore.Store{}, func(ctx context.Context, o *store.Op, next store.Handler) error {
			if o.Kind == store.OpPut && strings.HasSuffix(o.Key, "/swap") {
				<-forever
			}
			return next(ctx, o)
		})
		r := examine(t, doctor.Registers("mem:", st), nil)
		found(doctor.NotProven, "swap-race=not_tested").check(t, r)
		close(forever)
	})
}

// TestSlow: a store that waits with every write until it is certain is given the time
// that it needs.
func TestSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := store.Intercept(&memstore.Store{}, func(ctx context.Context, o *store.Op, next store.Handler) error {
			if o.Kind.Write() {
				time.Sleep(6 * time.Second)
			}
			return next(ctx, o)
		})
		r, err := doctor.Run(t.Context(), doctor.Registers("slow:", st), nil)
		if err != nil {
			t.Fatal(err)
		}
		found(doctor.Safe, "latency=warning").check(t, r)
	})
}

// TestInterrupted: what was made is removed when the context ends in the middle.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	mem := &memstore.Store{}
	st := store.Intercept(mem, func(ctx context.Context, o *store.Op, next store.Handler) error {
		if strings.HasSuffix(o.Key, "/delete") {
			cancel()
		}
		return next(ctx, o)
	})
	if _, err := doctor.Run(ctx, doctor.Registers("mem:", st), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	for key := range store.List(t.Context(), mem, "") {
		t.Errorf("left behind: %s", key)
	}
}

// TestUnreachable: a store that is not there is an error, not a report.
func TestUnreachable(t *testing.T) {
	for _, want := range []error{store.ErrUnavailable, store.ErrMisconfigured} {
		st := store.Intercept(&memstore.Store{}, func(context.Context, *store.Op, store.Handler) error { return want })
		if r, err := doctor.Run(t.Context(), doctor.Registers("mem:", st), nil); !errors.Is(err, want) || len(r.Checks)+len(r.NotRemoved) > 0 {
			t.Errorf("got %v, %v, want %v", r, err, want)
		}
	}
}

// unstable is what differs from run to run.
var unstable = regexp.MustCompile(`([0-9]+m)?[0-9.]+(ns|µs|ms|s)\b|"(write|read)_us": [0-9.]+`)

func golden(t *testing.T, name string, r *doctor.Report) {
	t.Helper()
	if r.WriteUS <= 0 || r.ReadUS <= 0 {
		t.Errorf("medians: %v, %v", r.WriteUS, r.ReadUS)
	}
	var text, js bytes.Buffer
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	enc := json.NewEncoder(&js)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		t.Fatal(err)
	}
	for file, got := range map[string]string{name + ".txt": text.String(), name + ".json": js.String()} {
		got = unstable.ReplaceAllStringFunc(got, func(s string) string {
			if i := strings.Index(s, ": "); i > 0 {
				return s[:i] + ": T"
			}
			return "T"
		})
		path := "testdata/" + file
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s: got\n%s\nwant\n%s", file, got, want)
		}
	}
}

// TestText: what a server says cannot talk to the terminal.
func TestText(t *testing.T) {
	r := &doctor.Report{Store: "x", Summary: "s", Checks: []doctor.Check{{What: "w", Result: doctor.Unsafe, Found: "a\x1b[2Jb\nc"}}}
	var b bytes.Buffer
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	if want := "x\n\nw  UNSAFE      a\\x1b[2Jb; c\n\ns\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

func checkThenWrite(mem *memstore.Store) op {
	return func(ctx context.Context, o *store.Op, next store.Handler) error {
		if o.Kind != store.OpPut {
			return next(ctx, o)
		}
		_, v, err := mem.Get(ctx, o.Key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if v != o.Prev {
			return fmt.Errorf("%s: %w", o.Key, store.ErrConflict)
		}
		time.Sleep(20 * time.Millisecond)
		return force(ctx, o, next)
	}
}

// force writes whatever is there.
func force(ctx context.Context, o *store.Op, next store.Handler) error {
	for {
		err := next(ctx, o)
		var conflict *store.ConflictError
		if !errors.As(err, &conflict) {
			return err
		}
		o.Prev = conflict.Version
	}
}

// TestWrongSetUp: if the set-up is wrong in a way that only a write shows, doctor says so once, and lists nothing
// as left: the store has refused each write.
func TestWrongSetUp(t *testing.T) {
	for name, refuses := range map[string]func(*store.Op) bool{
		"each write":       func(op *store.Op) bool { return op.Kind.Write() },
		"each large write": func(op *store.Op) bool { return op.Kind.Write() && len(op.Value) > 10_000 },
	} {
		writes := 0
		st := store.Intercept(memstore.New(), func(ctx context.Context, op *store.Op, next store.Handler) error {
			if refuses(op) {
				writes++
				return fmt.Errorf("%w: this is a replica", store.ErrMisconfigured)
			}
			return next(ctx, op)
		})
		report, err := doctor.Run(t.Context(), doctor.Registers("replica", st), nil)
		if !errors.Is(err, store.ErrMisconfigured) || len(report.Checks)+len(report.NotRemoved) > 0 || writes > 5 {
			t.Errorf("%s: %v, %d writes, left %q", name, err, writes, report.NotRemoved)
		}
	}
}

// TestStoreThatHangsAtOnce: the examination of a store that does not answer its first request ends,
// and leaves the store alone.
func TestStoreThatHangsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		target := &doctor.Target{
			Name:  "a store",
			Begin: func(context.Context, *doctor.Examination) error { <-release; return nil },
			Clean: func(context.Context, *doctor.Examination) []string { t.Error("it cleans beside Begin"); return nil },
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := doctor.Run(ctx, target, nil)
		if !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 5*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}
