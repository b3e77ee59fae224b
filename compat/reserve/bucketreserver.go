package reserve

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// BucketReserver guards operations on the objects of one bucket.
type BucketReserver struct {
	r      *Reserver
	bucket object.Bucket
}

// ForBucket returns a BucketReserver for the objects of a bucket.
func (r *Reserver) ForBucket(b object.Bucket) *BucketReserver { return &BucketReserver{r, b} }

// Do reserves an object and then calls the function operate, which may do anything with the object;
// see [Reserver.Do]. Do first checks by a Stat that the object has the given version. An empty
// version means that there is no object. If the object has another version, Do does not call the
// function, and the error is an [*object.ConflictError]. On S3 the version is the ETag, with its
// double quotes.
func (o *BucketReserver) Do(ctx context.Context, key string, version object.Version, operate func(context.Context) error) error {
	return o.r.Do(ctx, key, version, CheckVersion(o.bucket, key, version), operate)
}

// CheckVersion returns a function that can be passed to [Reserver.Do] as check. The function checks
// the version of an object by one Stat.
func CheckVersion(b object.Bucket, key string, version object.Version) func(context.Context) error {
	return func(ctx context.Context) error {
		info, err := b.Stat(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			info, err = object.Info{}, nil
		}
		if err == nil && info.Version != version {
			err = &object.ConflictError{Key: key, HasCurrent: true, Version: info.Version}
		}
		return err
	}
}
