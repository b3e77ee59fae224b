package object

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/store"
)

// AbilityCache remembers which abilities a server has. A bucket that is a [Verifier] has one. Any number of goroutines
// may use it.
type AbilityCache struct {
	bucket string
	log    *slog.Logger
	slot   chan struct{} // held by the goroutine that tests

	mu    sync.Mutex
	found map[Ability]error // nil, or why the server lacks the ability
}

// NewAbilityCache returns a cache that assumes these abilities, or all abilities of a trusted server. It logs the results
// of tests with the name of the bucket; a nil logger means no log.
func NewAbilityCache(bucket string, log *slog.Logger, trusted bool, assumed ...Ability) *AbilityCache {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	c := &AbilityCache{bucket: bucket, log: log, slot: make(chan struct{}, 1), found: make(map[Ability]error)}
	if trusted {
		assumed = Abilities()
	}
	for _, a := range assumed {
		c.found[a] = nil
	}
	return c
}

// With returns a copy that assumes these abilities, too.
func (c *AbilityCache) With(assumed ...Ability) *AbilityCache {
	next := NewAbilityCache(c.bucket, c.log, false)
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.Copy(next.found, c.found)
	for _, a := range assumed {
		next.found[a] = nil
	}
	return next
}

// Known returns the abilities that the server is known to have.
func (c *AbilityCache) Known() []Ability {
	return slices.DeleteFunc(Abilities(), func(a Ability) bool {
		err, known := c.get(a)
		return !known || err != nil
	})
}

func (c *AbilityCache) get(a Ability) (err error, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err, known = c.found[a]
	return err, known
}

// Require returns nil if the server has an ability, and an [*UnsupportedError] if it lacks the ability. If the cache
// does not know, Require calls test, which returns the results of [Probe]. One goroutine at a time tests. If
// test fails, Require returns its error, and the next call tests again. The outcome of that error is
// [store.NotApplied]: call Require before a write is sent.
func (c *AbilityCache) Require(ctx context.Context, a Ability, test func() (map[Ability]error, error)) error {
	if err, known := c.get(a); known {
		return err
	}
	if err := store.CheckContext(ctx); err != nil {
		return err
	}
	select {
	case c.slot <- struct{}{}:
		defer func() { <-c.slot }()
	case <-ctx.Done():
		return store.CheckContext(ctx)
	}
	if err, known := c.get(a); known {
		return err
	}
	found, err := test()
	if err != nil {
		return store.MarkNotApplied(err)
	}
	lacks, tested := found[a]
	if !tested {
		return store.MarkNotApplied(fmt.Errorf("the test of the server has no result for %s", a))
	}
	c.mu.Lock()
	c.found[a] = lacks
	c.mu.Unlock()
	c.log.Info("tested the abilities of this server", "bucket", c.bucket, "ability", a, "lacks", lacks)
	return lacks
}
