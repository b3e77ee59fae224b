package suitetest_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suitetest"
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
