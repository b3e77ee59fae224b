package faultproxy

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Rule does a fault to some requests. Use a rule in only one proxy.
type Rule struct {
	// When chooses the requests of the rule; nil chooses all.
	When Match

	// Skip is the number of chosen requests that pass before the first fault.
	Skip int

	// Times is the number of chosen requests that get the fault; zero means all.
	Times int

	// Do is the fault.
	Do Fault

	choose func() (Fault, bool) // in place of Do
	seen   int
}

// Random returns a rule that does one of the faults to a chosen request with probability p. With the same
// seed and the same sequence of requests, the rule does the same faults.
func Random(seed uint64, p float64, when Match, faults ...Fault) *Rule {
	rnd := rand.New(rand.NewPCG(seed, 0))
	return &Rule{When: when, choose: func() (Fault, bool) {
		hit, which := rnd.Float64() < p, rnd.IntN(len(faults))
		return faults[which], hit
	}}
}

// Spaced returns a rule that does one of the faults to a chosen request. After each fault, the rule does
// nothing for a time between gap and twice gap.
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

// Match reports whether a rule chooses a request.
type Match func(*Call) bool

// Method chooses requests with one of these HTTP methods.
func Method(methods ...string) Match {
	return func(c *Call) bool { return slices.Contains(methods, c.Method) }
}

// Path chooses requests whose escaped path contains the text part.
func Path(part string) Match {
	return func(c *Call) bool { return strings.Contains(c.Path, part) }
}

// Header chooses requests that have this header.
func Header(name string) Match {
	return func(c *Call) bool { return c.Header.Get(name) != "" }
}

// Query chooses requests that have this query parameter.
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

// Target chooses requests to DynamoDB with one of these operations, such as "PutItem".
func Target(operations ...string) Match {
	return func(c *Call) bool {
		_, operation, ok := strings.Cut(c.Header.Get("X-Amz-Target"), ".")
		return ok && slices.Contains(operations, operation)
	}
}

// Writes chooses requests that may change an object or an item.
func Writes() Match {
	return Any(Method("PUT", "DELETE"), Query("uploadId"),
		Target("PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"))
}

// Reads chooses requests that read one object or item.
func Reads() Match { return Any(Method("GET", "HEAD"), Target("GetItem")) }

// Body chooses requests whose body contains the text part.
func Body(part string) Match {
	return func(c *Call) bool { return strings.Contains(string(c.Body), part) }
}

// All chooses requests that all of the matches choose.
func All(matches ...Match) Match {
	return func(c *Call) bool {
		return !slices.ContainsFunc(matches, func(m Match) bool { return !m(c) })
	}
}

// Any chooses requests that at least one of the matches chooses.
func Any(matches ...Match) Match {
	return func(c *Call) bool {
		return slices.ContainsFunc(matches, func(m Match) bool { return m(c) })
	}
}

// Not chooses requests that the match does not choose.
func Not(match Match) Match { return func(c *Call) bool { return !match(c) } }
