package model_test

import (
	"flag"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store/filestore/internal/model"
)

var c model.Config

func init() {
	flag.IntVar(&c.Procs, "p", 2, "")
	flag.IntVar(&c.Numbers, "n", 3, "")
	flag.IntVar(&c.Writes, "w", 1, "")
	flag.IntVar(&c.MinLen, "min", 0, "")
	flag.IntVar(&c.MaxLen, "max", 2, "")
	flag.IntVar(&c.MaxStates, "s", 10e6, "")
	flag.BoolVar(&c.Removal, "rm", false, "")
	flag.BoolVar(&c.Trace, "trace", false, "")
	flag.Func("m", "", func(s string) error {
		var x int
		for _, ch := range s {
			x = x*10 + int(ch-'0')
		}
		c.Mutant = 1 << x
		return nil
	})
}

func TestTry(t *testing.T) {
	start := time.Now()
	r := model.Explore(c)
	t.Log(c, r.States, r.Depth, r.Complete, r.Violation, time.Since(start))
	if c.Trace {
		t.Log("\n" + r.Trace)
	}
}

func TestWalk(t *testing.T) {
	start := time.Now()
	r := model.Walk(c, 1, c.MaxStates)
	t.Log(c, r.States, r.Depth, r.Violation, time.Since(start))
	if c.Trace {
		t.Log("\n" + r.Trace)
	}
}
