// Package checkpointtest checks that a [checkpoint.Store] keeps its promises, whatever
// it stands on.
//
//	func TestKeeper(t *testing.T) {
//		dir := t.TempDir()
//		checkpointtest.Run(t, func(t *testing.T) checkpoint.Store { return open(t, dir) }, nil)
//	}
//
// It checks what the keeper says and what it keeps, between several handles on the
// same checkpoints. What happens when replies are lost or the power fails is up to what
// the keeper stands on: package storetest checks a register for that.
package checkpointtest

import (
	"crypto/rand"
	"encoding/hex"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// Options adapt the suite to a keeper.
type Options struct {
	// Parallel runs the cases at the same time, for keepers that mostly wait.
	Parallel bool
}

// Opener returns one more handle on the same checkpoints at each call, as another
// process would have it, and registers its end with t.Cleanup.
type Opener func(t *testing.T) checkpoint.Store

// rule is a case. It uses the key that it is given, and such that newKey makes.
type rule struct {
	name string
	run  func(t *testing.T, key string, open func() checkpoint.Store)
}

func rules() []rule {
	return []rule{
		{"forward only", ruleForward},
		{"another event at the same sequence is said", ruleMismatch},
		{"a stale handle brings nothing back", ruleStale},
		{"a key never seen can be deleted", ruleDelete},
		{"lower tokens are refused", ruleFence},
		{"expectations are kept", ruleExpect},
		{"what exists is listed", ruleList},
		{"changes are watched", ruleWatch},
		{"many at once", ruleMany},
		{"a worker goes on where one stopped", ruleRun},
		{"nothing is done after the context", ruleContext},
		{"nothing is done after Close", ruleClosed},
	}
}

// Run checks a keeper, each rule as a subtest with a key of its own: 64 hexadecimal
// digits. Other checkpoints may lie beside them. Nil options are the default ones.
func Run(t *testing.T, open Opener, opts *Options) {
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			if opts != nil && opts.Parallel {
				t.Parallel()
			}
			r.run(t, newKey(), func() checkpoint.Store { return open(t) })
		})
	}
}

// newKey returns a key that every keeper takes.
func newKey() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
