package s3bucket

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// Verify implements [object.Verifier]. What is not known yet is tried below
// [Options].ProbePrefix. What it finds lasts as long as the bucket's handle.
//
// A condition on the destination of a copy that the server ignores counts as there
// if the copy can be an upload in parts.
func (b *Bucket) Verify(ctx context.Context, abilities ...object.Ability) error {
	for _, a := range abilities {
		err := b.native(ctx, a)
		switch {
		case err == nil || !errors.Is(err, errors.ErrUnsupported):
		case a == object.CopyIfAbsent:
			err = b.instead(ctx, err, object.PartsIfAbsent)
		case a == object.CopyIfMatch:
			err = b.instead(ctx, err, object.PartsIfMatch)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// instead returns nil if an upload in parts can do what a copy cannot, and lacking
// if it cannot either.
func (b *Bucket) instead(ctx context.Context, lacking error, by object.Ability) error {
	err := b.Verify(ctx, object.CopySource, by)
	if errors.Is(err, errors.ErrUnsupported) {
		return lacking
	}
	return err
}

// native returns nil if the server itself has an ability, and tries that if it is
// not known.
func (b *Bucket) native(ctx context.Context, a object.Ability) error {
	err, known := b.abilities.get(a)
	if known {
		return err
	}
	if err := b.try(ctx, a); err != nil {
		return err
	}
	err, _ = b.abilities.get(a)
	return err
}

// require is native for an operation that needs this ability, or none if it is
// empty. While abilities are tried nothing is required.
func (b *Bucket) require(ctx context.Context, a object.Ability) error {
	if a == "" || b.trying {
		return nil
	}
	return b.native(ctx, a)
}

// KnownAbilities returns the abilities that the server itself is known to have: what
// [Options].AssumeAbilities of a later run may name. It sends nothing. What Verify finds is more: a
// conditional copy may be an upload in parts on a server that ignores the condition of a
// copy, and a run that assumes the ability of such a server would copy without a condition.
func (b *Bucket) KnownAbilities() []object.Ability {
	return slices.DeleteFunc(object.Abilities(), func(a object.Ability) bool {
		err, known := b.abilities.get(a)
		return !known || err != nil
	})
}

// WithAbilities returns a view of the same bucket that takes these abilities for
// granted, which is right if they were found in an earlier run, and otherwise a
// risk that the user insists on.
func (b *Bucket) WithAbilities(abilities ...object.Ability) *Bucket {
	view := *b
	view.abilities = &abilityCache{slot: make(chan struct{}, 1), found: make(map[object.Ability]error)}
	for _, a := range object.Abilities() {
		if err, known := b.abilities.get(a); known {
			view.abilities.found[a] = err
		}
		if slices.Contains(abilities, a) {
			view.abilities.found[a] = nil
		}
	}
	return &view
}

// WithProbePrefix returns a view of the same bucket that tries abilities below another
// prefix than [Options].ProbePrefix: one that the user may write to.
func (b *Bucket) WithProbePrefix(dir string) *Bucket {
	view := *b
	view.o.ProbePrefix = dir
	return &view
}

// ProbePrefix returns the prefix below which abilities are tried.
func (b *Bucket) ProbePrefix() string { return b.o.ProbePrefix }

// try finds out about an ability. One goroutine at a time does so.
func (b *Bucket) try(ctx context.Context, a object.Ability) error {
	select {
	case b.abilities.slot <- struct{}{}:
		defer func() { <-b.abilities.slot }()
	case <-ctx.Done():
		return store.CheckContext(ctx)
	}
	if _, known := b.abilities.get(a); known {
		return nil
	}
	view := *b
	view.trying = true
	view.parts = a == object.PartsIfAbsent || a == object.PartsIfMatch
	found, err := object.Probe(ctx, &view, b.o.ProbePrefix, a)
	if err != nil {
		return store.MarkNotApplied(err)
	}
	b.abilities.set(a, found[a])
	b.o.Logger.Info("tried what this server can do", "bucket", b.where, "ability", a, "lacks", found[a])
	return nil
}
