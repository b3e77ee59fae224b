package indexed

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/internal/sysclock"
)

// deletedSweeper is an index that can remove what deleted registers leave.
type deletedSweeper interface {
	SweepDeleted(ctx context.Context, age time.Duration) (removed int, err error)
}

// Sweep removes bodies that no register names and that are older than the orphan age. Killed
// processes have left such bodies. It returns the number of removed bodies. Sweep may run while the
// bucket is in use, and its memory does not depend on the number of objects. It may leave a few
// random bodies to the next sweep: with less than five million objects, less than one in 100.
//
// If the index is a directory, Sweep also removes the files of registers that were deleted longer
// ago than the orphan age.
func (b *Bucket) Sweep(ctx context.Context) (removed int, err error) {
	// A body that was old when the listing began, and that no register named then, can never
	// be named again: a put gives up long before its body is that old.
	began := sysclock.Read()
	named := newNames()
	for e, err := range b.entries(ctx) {
		if err != nil {
			return 0, fmt.Errorf("sweep: %w", err)
		}
		named.add(e.File)
	}
	// A clock of a store may go by a percent slower than this one.
	old := func() time.Duration { return b.orphanAge + began.Elapsed()*101/100 }
	for name, err := range b.bodies.OlderThan(ctx, old) {
		if err == nil && safefile.IsRandom(name) && !named.has(name) {
			if err = b.bodies.Sweep(ctx, name); err == nil {
				removed++
			}
		}
		if err != nil {
			return removed, fmt.Errorf("sweep: %w", err)
		}
	}
	if index, ok := b.index.(deletedSweeper); ok {
		if _, err := index.SweepDeleted(ctx, b.orphanAge); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return removed, fmt.Errorf("sweep: %w", err)
		}
	}
	return removed, nil
}

// names is a set of names that takes 8 MiB, however many it holds: a Bloom filter. It has
// every name that was added, and few others: other ones in each set.
type names struct {
	seed maphash.Seed
	bits []uint64
}

const (
	namesBits   = 1 << 26
	namesProbes = 4
)

func newNames() *names { return &names{maphash.MakeSeed(), make([]uint64, namesBits/64)} }

func (n *names) add(name string) {
	for p := range n.probes(name) {
		n.bits[p/64] |= 1 << (p % 64)
	}
}

func (n *names) has(name string) bool {
	for p := range n.probes(name) {
		if n.bits[p/64]&(1<<(p%64)) == 0 {
			return false
		}
	}
	return true
}

// probes yields the places of a name's bits.
func (n *names) probes(name string) func(yield func(uint64) bool) {
	sum := maphash.String(n.seed, name)
	step := sum>>32 | 1
	return func(yield func(uint64) bool) {
		for i := range uint64(namesProbes) {
			if !yield((sum + i*step) % namesBits) {
				return
			}
		}
	}
}
