package faultstore

import (
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"time"
)

// decide draws whether rule i applies to the n-th call with this identity. It returns
// what the rule does to that call, as a rule for that call alone. It depends neither on
// time nor on other calls.
func (s Schedule) decide(i int, who identity, n int) (Rule, bool) {
	r := s.Rules[i]
	exact := Rule{Op: who.op, Key: who.key, First: n, Last: n, Action: r.Action, Wait: r.Wait, Calls: r.Calls}
	if r.Chance == 0 && r.MaxWait <= r.Wait {
		return exact, true
	}
	h := fnv.New64a()
	for _, part := range []string{strconv.Itoa(i), string(who.op), strconv.Itoa(n), who.key} {
		_, _ = h.Write([]byte(part))
		_, _ = h.Write([]byte{0})
	}
	draw := rand.New(rand.NewPCG(s.Seed, h.Sum64()))
	if r.Chance > 0 && draw.Float64() >= r.Chance {
		return Rule{}, false
	}
	if r.MaxWait > r.Wait {
		// Never zero: a late write without a time waits for Drain.
		exact.Wait += 1 + time.Duration(draw.Int64N(int64(r.MaxWait-r.Wait)))
	}
	return exact, true
}
