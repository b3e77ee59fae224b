package reserve

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// Objects guards operations on the objects of one bucket.
type Objects struct {
	r      *Reserver
	bucket object.Bucket
}

// In returns the guard of the objects of b.
func (r *Reserver) In(b object.Bucket) *Objects { return &Objects{r, b} }

// Do runs operate, which may be any operation on the object: see [Reserver.Do]. It finds
// out by Stat whether the object is in the state that version names; an empty version
// stands for "there is no object". If it is in another, operate is not called, and the
// error is an [*object.ConflictError]. On S3 the version is the ETag, with its double
// quotes.
func (o *Objects) Do(ctx context.Context, key string, version object.Version, operate func(context.Context) error) error {
	return o.r.Do(ctx, key, version, Check(o.bucket, key, version), operate)
}

// Check returns the check of [Reserver.Do] for an object of b: one Stat.
func Check(b object.Bucket, key string, version object.Version) func(context.Context) error {
	return func(ctx context.Context) error {
		info, err := b.Stat(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			info, err = object.Info{}, nil
		}
		if err == nil && info.Version != version {
			err = &object.ConflictError{Key: key, Known: true, Version: info.Version}
		}
		return err
	}
}
