package s3bucket

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/object"
)

// Verify implements [object.Verifier]. It tests the abilities that are not yet known, on objects
// below [Options].ProbePrefix. The Bucket remembers the results.
//
// If the server ignores the condition on the destination of a copy, but the Bucket can copy by an
// upload in parts, Verify reports that the Bucket has the ability.
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
	return b.abilities.Require(ctx, a, func() (map[object.Ability]error, error) {
		view := *b
		view.trying = true
		view.parts = a == object.PartsIfAbsent || a == object.PartsIfMatch
		return object.Probe(ctx, &view, b.o.ProbePrefix, a)
	})
}

// require is native for an operation that needs this ability, or none if it is
// empty. While abilities are tried nothing is required.
func (b *Bucket) require(ctx context.Context, a object.Ability) error {
	if a == "" || b.trying {
		return nil
	}
	return b.native(ctx, a)
}

// KnownAbilities returns the abilities of the server that the Bucket already knows. Pass them to
// [Options].AssumeAbilities of a later run. KnownAbilities sends no request. [Bucket.Verify] can
// find more abilities: if the server ignores the condition of a copy, the bucket can copy by an
// upload in parts. KnownAbilities does not return such an ability: a run that assumed it would copy
// without a condition.
func (b *Bucket) KnownAbilities() []object.Ability { return b.abilities.Known() }

// WithAbilities returns a view of the same bucket that assumes these abilities. Use it for
// abilities that an earlier run has found, or for which the user accepts the risk.
func (b *Bucket) WithAbilities(abilities ...object.Ability) *Bucket {
	view := *b
	view.abilities = b.abilities.With(abilities...)
	return &view
}

// WithProbePrefix returns a view of the same bucket with another [Options].ProbePrefix, below which
// the user may write.
func (b *Bucket) WithProbePrefix(dir string) *Bucket {
	view := *b
	view.o.ProbePrefix = dir
	return &view
}

// ProbePrefix returns the prefix of the objects on which the bucket tests abilities.
func (b *Bucket) ProbePrefix() string { return b.o.ProbePrefix }
