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

// The actions apply to reads and writes.
const (
	// Fail returns an error at once: the store is unavailable. A write is not applied, and the
	// error proves that.
	Fail Action = "fail"

	// Drop loses the request: the call is not carried out, and its outcome is unknown.
	Drop Action = "drop"

	// Lose loses the reply: the call is carried out, and its outcome is unknown.
	Lose Action = "lose"

	// Late returns an unknown outcome at once, and carries the write out later. If Wait is set, the
	// write takes place after that time. If Calls is set, the write takes place directly before a
	// later call on the same key. With Calls = 1, this is the next call. If neither is set, the
	// write takes place when [Store.Drain] is called. The store may then refuse the write because
	// the state has changed; no caller gets that error. If the call is a read, Late drops it.
	Late Action = "late"

	// Delay waits before the call, for the duration Wait. If the context ends first, Delay does not
	// send the call. The outcome is then unknown, as after any timeout.
	Delay Action = "delay"

	// DelayReply carries the call out, and returns its result after the duration Wait. If the
	// context ends earlier, the outcome is unknown.
	DelayReply Action = "delay-reply"
)

// The operations that a [Rule] can name in addition to the kinds of package store.
const (
	AnyOp   store.Kind = "*"
	ReadOp  store.Kind = "read"  // all operations except writes and watches
	WriteOp store.Kind = "write" // put, put-unsynced and delete
)

// Rule injects one kind of fault into the calls that it matches.
type Rule struct {
	// Op is a kind of package store, or [AnyOp], [ReadOp] or [WriteOp]. Empty means
	// AnyOp.
	Op store.Kind

	// Key is the key of the call, or the prefix of a listing. An empty Key matches any
	// key. The prefix of a full listing is empty, so only an empty Key matches a full
	// listing.
	Key string

	// First and Last are the numbers of the first and the last call that the rule
	// matches. The calls that match Op and Key have the numbers 1, 2, 3 and so on since
	// the schedule was set. Zero means no bound.
	First, Last int

	// Chance is the probability that the rule applies to a call that it matches; 0 means always.
	// The random number depends on the seed of the schedule.
	Chance float64

	Action Action

	// Wait is the time for which Delay, DelayReply and Late wait. If MaxWait is larger
	// than Wait, the time is random, between Wait and MaxWait.
	Wait, MaxWait time.Duration

	// Calls says before which later call on the same key Late carries the write out; 1 means the
	// next call.
	Calls int
}

// Schedule says which calls get which fault. It is a value: a program can print it,
// compare its text, read it with [Parse], and use it again.
//
// If several rules match a call, all their delays apply to the call. Of the other
// matching rules, only the first applies.
type Schedule struct {
	// Seed is the seed of the random numbers for Chance and MaxWait. The random number of a call
	// depends only on Seed, on the call's operation and key, and on its number among the calls
	// with this operation and key. So the order of calls on other keys has no effect.
	Seed uint64

	Rules []Rule
}

// Random returns a schedule with every kind of fault at a low rate, for tests that run with
// many seeds.
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
// A key with special characters is quoted as in Go. `#3` means one call, `#2-5` a range,
// `#10-` all calls from the tenth; `%0.05` is a chance. After `late` there can be a time,
// or `+2` for the second later call on the key. Without them, the write waits for
// [Store.Drain]. A time may be a range, as in `delay 5ms~1s`.
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

// check reports the first fault of a rule.
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
		return fmt.Errorf("the calls #%d-%d do not exist; the first number must be at least 1, and not above the last number", r.First, r.Last)
	case math.IsNaN(r.Chance) || r.Chance < 0 || r.Chance > 1:
		return fmt.Errorf("the chance %v is not between 0 and 1", r.Chance)
	case r.Wait < 0 || r.MaxWait < 0:
		return fmt.Errorf("the time of the action %s is negative", r.Action)
	case !timed && (r.Wait > 0 || r.MaxWait > 0):
		return fmt.Errorf("the action %s does not accept a time", r.Action)
	case r.Calls < 0 || r.Calls > 0 && r.Action != Late:
		return fmt.Errorf("the action %s cannot wait for %d calls; only the action late can wait, for at least one call", r.Action, r.Calls)
	case r.Calls > 0 && (r.Wait > 0 || r.MaxWait > 0):
		return errors.New(`the action "late" waits for a time or for calls; it cannot wait for both`)
	}
	return nil
}

// Check returns an error that names the first rule that is not valid, or nil.
func (s Schedule) Check() error {
	for i, r := range s.Rules {
		if err := r.check(); err != nil {
			return fmt.Errorf("rule %d of the schedule: %w", i+1, err)
		}
	}
	return nil
}
