package object_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/store"
)

const counters = 16 // writers of a counter

// tally is what the object of a counter holds: the number of increments of each writer, and
// of all.
type tally struct {
	Total int
	By    [counters]int
}

// TestCounter: sixteen writers raise one counter while requests fail, lose their replies and
// come late. No increment is lost or made twice, and those of unknown outcome are exactly
// those that the object has in excess of what was acknowledged.
func TestCounter(t *testing.T) {
	increments := 50
	if os.Getenv("HOLDFAST_TORTURE") != "" {
		increments = 1_000_000 / counters
	}
	for kind, open := range map[string]func() object.Bucket{
		"unique": func() object.Bucket { return membucket.New() },
		"hashed": func() object.Bucket { return &membucket.Bucket{Hashed: true} },
	} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testCounter(t, open(), increments) })
		})
	}
}

func testCounter(t *testing.T, below object.Bucket, increments int) {
	seed := rand.Uint64()
	b := objecttest.NewFaulty(below, func(c objecttest.Call) objecttest.Fault {
		rnd := rand.New(rand.NewPCG(seed, uint64(c.N)))
		time.Sleep(time.Duration(rnd.Int64N(int64(2 * time.Millisecond)))) // in which others are faster
		switch rnd.IntN(30) {
		case 0:
			return objecttest.Fail
		case 1, 2:
			return objecttest.Lose
		case 3:
			return objecttest.Late
		}
		return objecttest.Pass
	})
	if _, err := newClient(t, below, nil).Put(t.Context(), "counter", body("{}"), nil); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var done, unknown [counters]int
	var writers sync.WaitGroup
	for i := range counters {
		c := newClient(t, b, fast())
		writers.Go(func() {
			applied, unsure := 0, 0
			for applied < increments {
				_, err := c.Update(t.Context(), "counter", func(body []byte, _ object.Info) ([]byte, error) {
					var now tally
					if err := json.Unmarshal(body, &now); err != nil {
						return nil, err
					}
					// What the object has of this writer is what was acknowledged, or was unknown.
					if now.By[i] < applied || now.By[i] > applied+unsure {
						return nil, fmt.Errorf("writer %d: %d were acknowledged, %d unknown, and there are %d", i, applied, unsure, now.By[i])
					}
					now.By[i]++
					now.Total++
					return json.Marshal(now)
				}, nil)
				switch {
				case err == nil:
					applied++
				case store.OutcomeOf(err) == store.Unknown:
					unsure++
				case !errors.Is(err, objecttest.ErrFault):
					t.Error(err)
					return
				}
				if (applied+unsure)%50 == 0 {
					b.Deliver()
				}
			}
			mu.Lock()
			defer mu.Unlock()
			done[i], unknown[i] = applied, unsure
		})
	}
	writers.Wait()
	b.Deliver()
	var now tally
	if err := json.Unmarshal([]byte(content(t, newClient(t, below, nil), "counter")), &now); err != nil {
		t.Fatal(err)
	}
	sum, sure, unsure, excess := 0, 0, 0, 0
	for i := range counters {
		if n := now.By[i]; n < done[i] || n > done[i]+unknown[i] {
			t.Errorf("writer %d: %d were acknowledged, %d unknown, and there are %d", i, done[i], unknown[i], n)
		}
		sum, sure, unsure, excess = sum+now.By[i], sure+done[i], unsure+unknown[i], excess+now.By[i]-done[i]
	}
	if now.Total != sum {
		t.Errorf("the total is %d, the sum %d", now.Total, sum)
	}
	t.Logf("%d increments acknowledged, %d unknown of which %d were applied, %d requests", sure, unsure, excess, b.Len())
}
