package gcsbucket

import (
	"context"
	"time"

	"cloud.google.com/go/storage"
)

// Settings are the settings of a bucket that matter for objects which are replaced often.
type Settings struct {
	// Retention is the age before which the service refuses to replace or delete an object; 0 means
	// none. EventBasedHold says that each new object gets a hold, with the same effect.
	Retention      time.Duration
	EventBasedHold bool

	// Versioning says that the service keeps replaced objects as noncurrent versions. SoftDelete is the
	// time for which the service keeps replaced and deleted objects so that they can be restored; 0 means
	// none.
	Versioning bool
	SoftDelete time.Duration

	// DeletesNoncurrent says that a lifecycle rule deletes noncurrent versions. DeletesCurrent says that
	// a rule deletes current objects.
	DeletesNoncurrent, DeletesCurrent bool

	StorageClass          string // of new objects, such as STANDARD
	RequesterPays         bool
	HierarchicalNamespace bool
}

// Settings returns the settings of the bucket. It needs the permission storage.buckets.get.
func (b *Bucket) Settings(ctx context.Context) (Settings, error) {
	var a *storage.BucketAttrs
	err := b.repeat(ctx, func() (err error) {
		a, _, err = do(ctx, b, b.o.Timeout, b.bucket.Attrs)
		return noBucket(err)
	})
	if err != nil {
		return Settings{}, b.opError("stat", "", err)
	}
	s := Settings{
		EventBasedHold: a.DefaultEventBasedHold, Versioning: a.VersioningEnabled, StorageClass: a.StorageClass, RequesterPays: a.RequesterPays,
		HierarchicalNamespace: a.HierarchicalNamespace != nil && a.HierarchicalNamespace.Enabled,
	}
	if a.RetentionPolicy != nil {
		s.Retention = a.RetentionPolicy.RetentionPeriod
	}
	if a.SoftDeletePolicy != nil {
		s.SoftDelete = a.SoftDeletePolicy.RetentionDuration
	}
	for _, r := range a.Lifecycle.Rules {
		if r.Action.Type != storage.DeleteAction {
			continue
		}
		if c := r.Condition; c.Liveness == storage.Archived || c.NumNewerVersions > 0 || c.DaysSinceNoncurrentTime > 0 || !c.NoncurrentTimeBefore.IsZero() {
			s.DeletesNoncurrent = true
		} else {
			s.DeletesCurrent = true
		}
	}
	return s, nil
}
