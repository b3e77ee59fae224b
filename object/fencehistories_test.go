package object_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/object/objecttest"
)

// TestFenceHistories: two holders put, create, update, delete and raise fences with random
// tokens, through lost, repeated and late requests. Once a write was answered, nothing with
// a lower token takes its place, also where only distinct bodies make versions unique.
func TestFenceHistories(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(2000) {
			fenceHistory(t, rand.New(rand.NewPCG(seed, 5)), seed)
		}
	})
}

func fenceHistory(t *testing.T, rng *rand.Rand, seed uint64) {
	ctx := t.Context()
	opts := object.Fast(object.Options{DistinctBodies: rng.IntN(2) == 0}, 1+rng.IntN(4))
	var below object.Bucket = membucket.New()
	if opts.DistinctBodies {
		below = &membucket.Bucket{Hashed: true}
	}
	var history []string
	writes, highest := 0, uint64(0)
	check := func() {
		t.Helper()
		token := ""
		if info, err := below.Stat(ctx, "a"); err == nil {
			token = info.Metadata["holdfast-token"]
		}
		if highest > 0 && token < fmt.Sprint(highest) { // of one digit
			t.Fatalf("seed %d, distinct bodies %v: token %d was answered, and there is %q: %v", seed, opts.DistinctBodies, highest, token, history)
		}
	}
	write := func(c *object.Client) {
		writes++
		fence := object.Fence{Lock: "l", Token: uint64(1 + rng.IntN(6))}
		text := fmt.Sprint("write ", writes)
		var err error
		kind := rng.IntN(6)
		if kind == 4 && opts.DistinctBodies {
			kind = 5
		}
		switch kind {
		case 0:
			err = c.Delete(ctx, "a", &object.WriteOptions{Fence: &fence})
		case 1:
			_, err = c.Put(ctx, "a", body(text), &object.WriteOptions{Fence: &fence, IfAbsent: true})
		case 2:
			var base object.Info
			if base, err = c.Stat(ctx, "a"); err == nil {
				_, err = c.Put(ctx, "a", body(text), &object.WriteOptions{Fence: &fence, Base: &base})
			}
		case 3:
			_, err = c.Update(ctx, "a", func([]byte, object.Info) ([]byte, error) { return []byte(text), nil }, &object.WriteOptions{Fence: &fence})
		case 4:
			_, err = c.RaiseFence(ctx, "a", fence)
		case 5:
			_, err = c.Put(ctx, "a", body(text), &object.WriteOptions{Fence: &fence})
		}
		history = append(history, fmt.Sprintf("[kind %d, token %d: %v]", kind, fence.Token, err))
		if err == nil {
			highest = max(highest, fence.Token)
		}
		check()
	}
	other, nested := newClient(t, below, opts), false
	rate := 2 + rng.IntN(6)
	b := objecttest.NewFaulty(below, func(c objecttest.Call) objecttest.Fault {
		if !nested && rng.IntN(4) == 0 {
			nested = true
			write(other)
			nested = false
		}
		fault := objecttest.Pass
		if rng.IntN(rate) == 0 {
			fault = []objecttest.Fault{objecttest.Fail, objecttest.Lose, objecttest.Repeat, objecttest.Late}[rng.IntN(4)]
		}
		history = append(history, fmt.Sprint(c.Op, fault))
		return fault
	})
	c := newClient(t, b, opts)
	for range 6 {
		write(c)
		if rng.IntN(3) == 0 {
			b.Deliver()
			check()
		}
	}
	b.Deliver()
	check()
}
