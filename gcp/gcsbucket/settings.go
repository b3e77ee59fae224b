package gcsbucket

import (
	"context"
	"time"

	"google.golang.org/api/storage/v1"
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
	var a *storage.Bucket
	err := b.repeat(ctx, func() (err error) {
		a, _, err = do(ctx, b, b.o.Timeout, func(ctx context.Context) (*storage.Bucket, error) {
			return b.service.Buckets.Get(b.name).Projection("full").Context(ctx).Do(b.options...)
		})
		return noBucket(err)
	})
	if err != nil {
		return Settings{}, b.opError("stat", "", err)
	}
	s := Settings{
		EventBasedHold: a.DefaultEventBasedHold, StorageClass: a.StorageClass,
		Versioning:            a.Versioning != nil && a.Versioning.Enabled,
		RequesterPays:         a.Billing != nil && a.Billing.RequesterPays,
		HierarchicalNamespace: a.HierarchicalNamespace != nil && a.HierarchicalNamespace.Enabled,
	}
	if a.RetentionPolicy != nil {
		s.Retention = time.Duration(a.RetentionPolicy.RetentionPeriod) * time.Second
	}
	if a.SoftDeletePolicy != nil {
		s.SoftDelete = time.Duration(a.SoftDeletePolicy.RetentionDurationSeconds) * time.Second
	}
	if a.Lifecycle == nil {
		return s, nil
	}
	for _, r := range a.Lifecycle.Rule {
		if r.Action.Type != "Delete" {
			continue
		}
		if c := r.Condition; c.IsLive != nil && !*c.IsLive || c.NumNewerVersions > 0 || c.DaysSinceNoncurrentTime > 0 || c.NoncurrentTimeBefore != "" {
			s.DeletesNoncurrent = true
		} else {
			s.DeletesCurrent = true
		}
	}
	return s, nil
}
