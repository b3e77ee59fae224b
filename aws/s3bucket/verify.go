package s3bucket

import (
	"context"
	"slices"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// Verify implements [object.Verifier]. What is not known yet is tried below
// [Options].Scratch. What it finds lasts as long as the bucket's handle.
func (b *Bucket) Verify(ctx context.Context, abilities ...object.Ability) error {
	var unknown []object.Ability
	for _, a := range abilities {
		if _, known := b.known.get(a); !known {
			unknown = append(unknown, a)
		}
	}
	if len(unknown) > 0 {
		if err := b.try(ctx, unknown); err != nil {
			return err
		}
	}
	for _, a := range abilities {
		if err, known := b.known.get(a); !known || err != nil {
			return err
		}
	}
	return nil
}

// require is Verify for an operation that needs this ability, or none if it is
// empty. While abilities are tried nothing is required.
func (b *Bucket) require(ctx context.Context, a object.Ability) error {
	if a == "" || b.trying {
		return nil
	}
	return b.Verify(ctx, a)
}

// Assuming returns a view of the same bucket that takes these abilities for
// granted, which is right if they were found in an earlier run, and otherwise a
// risk that the user insists on.
func (b *Bucket) Assuming(abilities ...object.Ability) *Bucket {
	view := *b
	view.known = &known{slot: make(chan struct{}, 1), found: make(map[object.Ability]error)}
	for _, a := range object.Abilities() {
		if err, known := b.known.get(a); known {
			view.known.found[a] = err
		}
		if slices.Contains(abilities, a) {
			view.known.found[a] = nil
		}
	}
	return &view
}

// try finds out about abilities. One goroutine at a time does so.
func (b *Bucket) try(ctx context.Context, abilities []object.Ability) error {
	select {
	case b.known.slot <- struct{}{}:
		defer func() { <-b.known.slot }()
	case <-ctx.Done():
		return store.CheckContext(ctx)
	}
	var small, parts []object.Ability
	for _, a := range abilities {
		if _, known := b.known.get(a); known {
			continue
		}
		if a == object.PartsIfAbsent || a == object.PartsIfMatch {
			parts = append(parts, a)
		} else {
			small = append(small, a)
		}
	}
	for _, part := range []struct {
		abilities []object.Ability
		parts     bool
	}{{small, false}, {parts, true}} {
		if len(part.abilities) == 0 {
			continue
		}
		view := *b
		view.trying, view.parts = true, part.parts
		found, err := object.Probe(ctx, &view, b.o.Scratch, part.abilities...)
		if err != nil {
			return store.MarkNotApplied(err)
		}
		for a, err := range found {
			b.known.set(a, err)
			b.o.Log.Info("tried what this server can do", "bucket", b.where, "ability", a, "lacks", err)
		}
	}
	return nil
}
