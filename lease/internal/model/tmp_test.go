package model

import (
	"fmt"
	"testing"
)

func TestTmp(t *testing.T) {
	for _, c := range []Config{
		{Attempts: 2, Flight: 3, Crash: true, Sleep: true, Jump: true, Break: true, Probe: 64},
		{Attempts: 3, Flight: 3, Crash: true, Sleep: true, Jump: true, Break: true, Probe: 64, MaxStates: 30e6},
	} {
		r := Explore(c)
		fmt.Printf("%+v\n states %d edges %d depth %d complete %v %v probed %d\n", c, r.States, r.Edges, r.Depth, r.Complete, r.Elapsed, r.Probed)
		if v := r.Violation; v != nil {
			fmt.Println(v.Property, v.Steps)
			for _, l := range v.Trace {
				fmt.Println(l)
			}
		}
	}
}
