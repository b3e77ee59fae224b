package objecttest_test

import (
	"context"
	"io"
	"testing"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/object/objecttest"
)

func TestRun(t *testing.T) {
	objecttest.Run(t, func(*testing.T) object.Bucket { return membucket.New() }, &objecttest.Options{
		Reopen: func(_ *testing.T, first object.Bucket) object.Bucket { return first },
	})
}

// broken is a bucket with faults that were seen in real ones.
type broken struct {
	*membucket.Bucket
	put    func(*object.PutOptions)
	delete func(*object.DeleteOptions)
	copy   func(*object.CopyOptions)
	cause  bool // a put returns the cause of its context as it is
}

func (b broken) Put(ctx context.Context, key string, body io.Reader, opts *object.PutOptions) (object.Info, error) {
	if b.cause && ctx.Err() != nil {
		return object.Info{}, context.Cause(ctx)
	}
	if opts != nil && b.put != nil {
		changed := *opts
		b.put(&changed)
		opts = &changed
	}
	return b.Bucket.Put(ctx, key, body, opts)
}

func (b broken) Delete(ctx context.Context, key string, opts *object.DeleteOptions) error {
	if opts != nil && b.delete != nil {
		changed := *opts
		b.delete(&changed)
		opts = &changed
	}
	return b.Bucket.Delete(ctx, key, opts)
}

func (b broken) Copy(ctx context.Context, source, destination string, opts *object.CopyOptions) (object.Info, error) {
	if opts != nil && b.copy != nil {
		changed := *opts
		b.copy(&changed)
		opts = &changed
	}
	return b.Bucket.Copy(ctx, source, destination, opts)
}

// TestFindsBroken shows that the suite is able to fail.
func TestFindsBroken(t *testing.T) {
	for _, c := range []struct {
		name  string
		b     broken
		cases []string // which of the suite must notice
	}{
		{"ignores if-absent", broken{put: func(o *object.PutOptions) { o.IfAbsent = false }}, []string{"IfAbsent", "RaceCreate", "LargeIfAbsent"}},
		{"ignores if-match", broken{put: func(o *object.PutOptions) { o.IfMatch = "" }}, []string{"IfMatchOld", "IfMatchAbsent", "RaceSwap", "LargeIfMatch"}},
		{"ignores the condition of deletes", broken{delete: func(o *object.DeleteOptions) { o.IfMatch = "" }}, []string{"DeleteIfMatch", "RaceDelete"}},
		{"ignores the conditions of copies", broken{copy: func(o *object.CopyOptions) { *o = object.CopyOptions{} }}, []string{"CopyIfAbsent", "CopyIfMatch", "CopySourceIfMatch", "CopyMetadata"}},
		{"returns the cause of the context", broken{cause: true}, []string{"CausesAreNoAnswers"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			open := func(*testing.T) object.Bucket {
				b := c.b
				b.Bucket = membucket.New()
				return b
			}
			failed := make(map[string]bool)
			for _, f := range objecttest.Check(t, open, &objecttest.Options{Rounds: 2, Large: 1 << 12}, c.cases...) {
				failed[f.Case] = true
			}
			for _, name := range c.cases {
				if !failed[name] {
					t.Errorf("the case %s passes", name)
				}
			}
		})
	}
}
