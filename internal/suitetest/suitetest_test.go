package suitetest_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/store"
)

type oneCase struct {
	Name string
	Why  string
	Run  func(rec *suitetest.Recorder)
}

func cases() []suitetest.Case[*suitetest.Recorder] {
	return suitetest.Cases[*suitetest.Recorder]([]oneCase{
		{"Good", "It is good.", func(*suitetest.Recorder) {}},
		{"Bad", "It is not bad.", func(rec *suitetest.Recorder) {
			for i := range 20 {
				rec.Errorf("error %d", i)
			}
		}},
	}, []oneCase{
		{"Ends", "It continues.", func(rec *suitetest.Recorder) { rec.Fatalf("it ends"); rec.Errorf("it went on") }},
		{"Absent", "It is asked for.", func(rec *suitetest.Recorder) { rec.Absent("not asked for") }},
	})
}

func setup(_ *testing.T, rec *suitetest.Recorder) (*suitetest.Recorder, func()) {
	return rec, func() {}
}

// TestCheck: what fails is reported with its rule, and not without end.
func TestCheck(t *testing.T) {
	got := ""
	for _, f := range suitetest.Check(t, cases(), suitetest.Options{}, setup) {
		got += fmt.Sprintln(f.Case, f.Rule, len(f.Errors), f.Errors[len(f.Errors)-1])
	}
	if want := "Bad It is not bad. 11 (and more)\nEnds It continues. 1 it ends\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := suitetest.Check(t, cases(), suitetest.Options{Skip: map[string]string{"Bad": "known"}}, setup, "Good", "Bad"); len(got) > 0 {
		t.Errorf("got %v", got)
	}
}

// TestRun: skips are kept, and those that fail as expected are none.
func TestRun(t *testing.T) {
	skip := map[string]string{"Bad": "it is bad", "Ends": "it ends"}
	suitetest.CheckSkips(t, "suite", skip, suitetest.Names(cases()))
	for _, o := range []suitetest.Options{{Skip: skip}, {Skip: skip, VerifySkips: true, Bubble: true}, {Skip: skip, Parallel: true}} {
		t.Run(strings.Trim(fmt.Sprint(o.VerifySkips, o.Bubble, o.Parallel), " "), func(t *testing.T) {
			suitetest.Run(t, cases(), o, setup)
		})
	}
}

// TestRace: all calls run at the same time.
func TestRace(t *testing.T) {
	const n = 8
	met := make(chan int)
	var sum atomic.Int64
	suitetest.Race(n, func(i int) {
		if i > 0 {
			met <- i
			return
		}
		for range n - 1 {
			sum.Add(int64(<-met))
		}
	})
	if got := sum.Load(); got != n*(n-1)/2 {
		t.Errorf("got %d", got)
	}
}

// TestRecorder: each check reports what it is for, and nothing else.
func TestRecorder(t *testing.T) {
	refused := store.MarkNotApplied(store.ErrInvalid)
	unknown := store.MarkUnknown(store.ErrInvalid)
	for name, c := range map[string]struct {
		run  func(rec *suitetest.Recorder)
		want int
	}{
		"OK of nil":                  {func(rec *suitetest.Recorder) { rec.OK("put", nil) }, 0},
		"OK of an error":             {func(rec *suitetest.Recorder) { rec.OK("put", refused) }, 1},
		"Must of nil":                {func(rec *suitetest.Recorder) { rec.Must("put", nil) }, 0},
		"Must of an error":           {func(rec *suitetest.Recorder) { rec.Must("put", refused); rec.Errorf("it went on") }, 1},
		"WantErr of the error":       {func(rec *suitetest.Recorder) { rec.WantErr("put", unknown, store.ErrInvalid) }, 0},
		"WantErr of another":         {func(rec *suitetest.Recorder) { rec.WantErr("put", refused, store.ErrKey) }, 1},
		"WantErr of nil":             {func(rec *suitetest.Recorder) { rec.WantErr("put", nil, store.ErrKey) }, 1},
		"WantRefused of a refusal":   {func(rec *suitetest.Recorder) { rec.WantRefused("put", refused, store.ErrInvalid) }, 0},
		"WantRefused of another":     {func(rec *suitetest.Recorder) { rec.WantRefused("put", refused, store.ErrKey) }, 1},
		"WantRefused of nil":         {func(rec *suitetest.Recorder) { rec.WantRefused("put", nil, store.ErrKey) }, 1},
		"WantRefused of the unknown": {func(rec *suitetest.Recorder) { rec.WantRefused("put", unknown, store.ErrInvalid) }, 1},
	} {
		one := suitetest.Cases[*suitetest.Recorder]([]oneCase{{name, "It is right.", c.run}})
		got := 0
		for _, f := range suitetest.Check(t, one, suitetest.Options{}, setup) {
			got = len(f.Errors)
		}
		if got != c.want {
			t.Errorf("%s: %d errors, want %d", name, got, c.want)
		}
	}
}
