package faultstore

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Action is what a rule does to a call.
type Action string

// The actions. What they do to reads and to writes differs only in that a read has
// nothing to apply.
const (
	// Fail answers at once that the store is unavailable. A write is not applied,
	// and its error proves that.
	Fail Action = "fail"

	// Drop loses the request: it is not applied, and its outcome is unknown.
	Drop Action = "drop"

	// Lose loses the reply: the call is carried out, and its outcome is unknown.
	Lose Action = "lose"

	// Late answers at once with an unknown outcome, and carries a write out later: after
	// Wait, or right before the call on the same key that is Calls calls later, or, with
	// neither, when [Store.Drain] is called. The write may then be refused because the
	// state has changed; no caller learns of that. A read is dropped.
	Late Action = "late"

	// Delay waits for Wait before the call. When the context ends first, the call
	// is not sent, and its outcome unknown, as that of any call which timed out.
	Delay Action = "delay"

	// DelayReply carries the call out and waits for Wait after it. When the context
	// ends first, the outcome is unknown.
	DelayReply Action = "delay-reply"
)

// Operations that a rule can name beside the kinds of package store.
const (
	AnyOp   store.Kind = "*"
	ReadOp  store.Kind = "read"  // all but writes and watches
	WriteOp store.Kind = "write" // put, put-volatile and delete
)

// Rule injects one kind of fault into the calls that it matches.
type Rule struct {
	// Op is a kind of package store, AnyOp, ReadOp or WriteOp; empty means AnyOp.
	Op store.Kind

	// Key is the key that the call names, of a listing its prefix. Empty means any,
	// which is why a listing of everything is matched by no other Key.
	Key string

	// First and Last choose calls by their number, counted from 1 among those that
	// match Op and Key since the schedule was set. Zero means no bound.
	First, Last int

	// Chance is the probability with which the rule applies to a call that it
	// matches, drawn from the schedule's seed; 0 means always.
	Chance float64

	Action Action

	// Wait is how long Delay, DelayReply and Late wait. With a larger Upto, it is
	// drawn from between the two.
	Wait, MaxWait time.Duration

	// Calls is the number of later calls on the same key that Late waits for.
	Calls int
}

// Schedule tells which calls suffer which fault. It is a value: it can be compared
// by its text, printed, read back with [Parse], and used again.
//
// All delays that match a call apply to it, and the first of the other rules that
// does.
type Schedule struct {
	// Seed decides what Chance and Upto leave open. The same seed gives the same
	// decision for the same call, which is told by its operation, its key and its
	// number among the calls with both: so the order in which calls on other keys
	// run changes nothing.
	Seed uint64

	Rules []Rule
}

// Random returns a schedule that does everything to every kind of call now and
// then, for tests that go through many seeds.
func Random(seed uint64) Schedule {
	const most = 20 * time.Millisecond
	return Schedule{Seed: seed, Rules: []Rule{
		{Op: AnyOp, Chance: 0.05, Action: Delay, MaxWait: most},
		{Op: AnyOp, Chance: 0.05, Action: DelayReply, MaxWait: most},
		{Op: WriteOp, Chance: 0.04, Action: Lose},
		{Op: WriteOp, Chance: 0.04, Action: Drop},
		{Op: WriteOp, Chance: 0.03, Action: Fail},
		{Op: WriteOp, Chance: 0.03, Action: Late, MaxWait: 5 * most},
		{Op: WriteOp, Chance: 0.02, Action: Late, Calls: 2},
		{Op: ReadOp, Chance: 0.05, Action: Fail},
		{Op: store.OpWatch, Chance: 0.2, Action: Fail},
	}}
}

// String returns the schedule as text that [Parse] reads: rules separated by
// semicolons, each with operation, key, call numbers, chance and action.
//
//	put job #3 lose; write * %0.05 late 2s; get "a key" #2-5 fail; * * #10- drop; seed 7
//
// A key that is not plain is quoted as in Go. `#3` is one call, `#2-5` a range,
// `#10-` all from the tenth; `%0.05` is a chance. `late` is followed by a time, by
// `+2` (with the second later call on the key), or by nothing (when asked). A time
// may be a range, as in `delay 5ms~1s`.
func (s Schedule) String() string {
	var parts []string
	for _, r := range s.Rules {
		parts = append(parts, r.String())
	}
	if s.Seed != 0 {
		parts = append(parts, "seed "+strconv.FormatUint(s.Seed, 10))
	}
	return strings.Join(parts, "; ")
}

// String returns the rule in the form of [Schedule.String].
func (r Rule) String() string {
	words := []string{string(r.Op), quoteKey(r.Key)}
	if r.Op == "" {
		words[0] = string(AnyOp)
	}
	switch {
	case r.First == r.Last && r.First > 0:
		words = append(words, fmt.Sprintf("#%d", r.First))
	case r.Last > 0:
		words = append(words, fmt.Sprintf("#%d-%d", max(r.First, 1), r.Last))
	case r.First > 1:
		words = append(words, fmt.Sprintf("#%d-", r.First))
	}
	if r.Chance != 0 {
		words = append(words, "%"+strconv.FormatFloat(r.Chance, 'g', -1, 64))
	}
	words = append(words, string(r.Action))
	switch {
	case r.MaxWait > r.Wait:
		words = append(words, r.Wait.String()+"~"+r.MaxWait.String())
	case r.Wait > 0 || r.Action == Delay || r.Action == DelayReply:
		words = append(words, r.Wait.String())
	case r.Calls > 0:
		words = append(words, fmt.Sprintf("+%d", r.Calls))
	}
	return strings.Join(words, " ")
}

// quoteKey returns the key as one word. Any key is "*".
func quoteKey(key string) string {
	if key == "" {
		return "*"
	}
	for _, c := range key {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("/-_.", c) {
			return strconv.Quote(key)
		}
	}
	return key
}

// check reports what is wrong with a rule.
func (r Rule) check() error {
	if !slices.Contains(append(store.Kinds(), "", AnyOp, ReadOp, WriteOp), r.Op) {
		return fmt.Errorf("unknown operation %q", r.Op)
	}
	timed := false
	switch r.Action {
	case Fail, Drop, Lose:
	case Late, Delay, DelayReply:
		timed = true
	default:
		return fmt.Errorf("unknown action %q", r.Action)
	}
	switch {
	case r.First < 0 || r.Last < 0 || r.Last > 0 && r.First > r.Last:
		return fmt.Errorf("no call has a number from %d to %d", r.First, r.Last)
	case math.IsNaN(r.Chance) || r.Chance < 0 || r.Chance > 1:
		return fmt.Errorf("the chance %v is not between 0 and 1", r.Chance)
	case r.Wait < 0 || r.MaxWait < 0:
		return errors.New("a time is negative")
	case !timed && (r.Wait > 0 || r.MaxWait > 0):
		return fmt.Errorf("%s takes no time", r.Action)
	case r.Calls < 0 || r.Calls > 0 && r.Action != Late:
		return fmt.Errorf("%s cannot wait for %d calls", r.Action, r.Calls)
	case r.Calls > 0 && (r.Wait > 0 || r.MaxWait > 0):
		return errors.New("late waits for a time or for calls, not for both")
	}
	return nil
}

// Check reports the first rule that makes no sense.
func (s Schedule) Check() error {
	for i, r := range s.Rules {
		if err := r.check(); err != nil {
			return fmt.Errorf("rule %d of the schedule: %w", i+1, err)
		}
	}
	return nil
}
