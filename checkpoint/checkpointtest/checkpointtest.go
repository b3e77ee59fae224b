// Package checkpointtest checks that a [checkpoint.Store] keeps its promises, on any storage.
//
//	func TestKeeper(t *testing.T) {
//		dir := t.TempDir()
//		checkpointtest.Run(t, func(t *testing.T) checkpoint.Store { return open(t, dir) }, nil)
//	}
//
// The cases check what a store of checkpoints returns and saves, through several handles on the same
// checkpoints. They do not test lost replies or power cuts. Package storetest tests registers under such
// faults.
package checkpointtest

import (
	"crypto/rand"
	"encoding/hex"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// Options adapt the suite to a store.
type Options struct {
	// Parallel runs the cases at the same time. Use it for stores that mostly wait.
	Parallel bool
}

// rule is a case. It uses the key that it receives, and keys that newKey makes.
type rule struct {
	name string
	run  func(t *testing.T, key string, open func() checkpoint.Store)
}

func rules() []rule {
	return []rule{
		{"forward only", ruleForward},
		{"another event at the same sequence is a mismatch", ruleMismatch},
		{"a stale handle brings nothing back", ruleStale},
		{"a key never seen can be deleted", ruleDelete},
		{"lower tokens are refused", ruleFence},
		{"expectations are kept", ruleExpect},
		{"what exists is listed", ruleList},
		{"changes are watched", ruleWatch},
		{"many at once", ruleMany},
		{"a worker continues where another stopped", ruleRun},
		{"nothing is done after the context", ruleContext},
		{"nothing is done after Close", ruleClosed},
	}
}

// Run checks the stores that the function open returns. Each rule is a subtest with its own key of 64
// hexadecimal digits. The store may have other checkpoints, too. Each call of open must return a new
// handle on the same checkpoints, as another process would open it. With t.Cleanup, open must also
// register a function that closes the handle. Nil means the default options.
func Run(t *testing.T, open func(t *testing.T) checkpoint.Store, opts *Options) {
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
