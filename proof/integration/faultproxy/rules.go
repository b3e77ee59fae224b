package faultproxy

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Rule does faults to some requests. A rule belongs to one proxy.
type Rule struct {
	// When picks requests; nil picks all.
	When Match

	// Skip lets that many picked requests pass first.
	Skip int

	// Times is to how many picked requests, after those, something is done; zero
	// means all.
	Times int

	// Do is what is done.
	Do Fault

	choose func() (Fault, bool) // in place of Do
	seen   int
}

// Random returns a rule that does one of the faults to a picked request with
// probability p. Equal seeds choose alike for equal sequences of requests.
func Random(seed uint64, p float64, when Match, faults ...Fault) *Rule {
	rnd := rand.New(rand.NewPCG(seed, 0))
	return &Rule{When: when, choose: func() (Fault, bool) {
		hit, which := rnd.Float64() < p, rnd.IntN(len(faults))
		return faults[which], hit
	}}
}

// Spaced returns a rule that does one of the faults, chosen by the seed, to a picked
// request, and then leaves all alone for at least the time gap, and up to twice it.
func Spaced(seed uint64, gap time.Duration, when Match, faults ...Fault) *Rule {
	rnd := rand.New(rand.NewPCG(seed, 0))
	next := time.Now().Add(rand.N(gap))
	return &Rule{When: when, choose: func() (Fault, bool) {
		if time.Now().Before(next) {
			return Fault{}, false
		}
		next = time.Now().Add(gap + time.Duration(rnd.Int64N(int64(gap))))
		return faults[rnd.IntN(len(faults))], true
	}}
}

// act counts a call and says what to do to it. The proxy holds its lock.
func (r *Rule) act(c *Call) (Fault, bool) {
	if r.When != nil && !r.When(c) {
		return Fault{}, false
	}
	r.seen++
	if r.seen <= r.Skip || r.Times > 0 && r.seen > r.Skip+r.Times {
		return Fault{}, false
	}
	if r.choose != nil {
		return r.choose()
	}
	return r.Do, true
}

// Match picks requests.
type Match func(*Call) bool

// Method picks requests by their method.
func Method(methods ...string) Match {
	return func(c *Call) bool { return slices.Contains(methods, c.Method) }
}

// Path picks requests whose escaped path contains part.
func Path(part string) Match {
	return func(c *Call) bool { return strings.Contains(c.Path, part) }
}

// Header picks requests that have the header.
func Header(name string) Match {
	return func(c *Call) bool { return c.Header.Get(name) != "" }
}

// Query picks requests that have the query parameter.
func Query(name string) Match {
	return func(c *Call) bool {
		for part := range strings.SplitSeq(c.Query, "&") {
			if got, _, _ := strings.Cut(part, "="); got == name {
				return true
			}
		}
		return false
	}
}

// Target picks requests to DynamoDB by their operation: "PutItem".
func Target(operations ...string) Match {
	return func(c *Call) bool {
		_, operation, ok := strings.Cut(c.Header.Get("X-Amz-Target"), ".")
		return ok && slices.Contains(operations, operation)
	}
}

// Writes picks what may change an object or an item.
func Writes() Match {
	return Any(Method("PUT", "DELETE"), Query("uploadId"),
		Target("PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"))
}

// Reads picks what reads one object or item.
func Reads() Match { return Any(Method("GET", "HEAD"), Target("GetItem")) }

// Body picks requests whose body contains part.
func Body(part string) Match {
	return func(c *Call) bool { return strings.Contains(string(c.Body), part) }
}

// All picks what all of the matches pick.
func All(matches ...Match) Match {
	return func(c *Call) bool {
		return !slices.ContainsFunc(matches, func(m Match) bool { return !m(c) })
	}
}

// Any picks what one of the matches picks.
func Any(matches ...Match) Match {
	return func(c *Call) bool {
		return slices.ContainsFunc(matches, func(m Match) bool { return m(c) })
	}
}

// Not picks what the match does not.
func Not(match Match) Match { return func(c *Call) bool { return !match(c) } }
