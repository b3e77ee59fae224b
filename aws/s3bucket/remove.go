package s3bucket

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

var _ object.VersionRemover = (*Bucket)(nil)

// KeepsVersions implements [object.VersionRemover]: it reports whether versioning is enabled. It
// needs the permission s3:GetBucketVersioning.
func (b *Bucket) KeepsVersions(ctx context.Context) (bool, error) {
	var s Settings
	if err := b.setting(ctx, &s, b.versioning); err != nil {
		return false, b.opError("stat", "", err)
	}
	return s.Versioning == "Enabled", nil
}

// RemoveVersion implements [object.VersionRemover]. It finds the id of the newest version by a
// HEAD, and removes that version. The removal needs the permission s3:DeleteObjectVersion.
func (b *Bucket) RemoveVersion(ctx context.Context, listed object.Info) error {
	err := object.CheckKey(listed.Key)
	if err == nil {
		err = b.removeVersion(ctx, listed)
	}
	return b.opError(store.OpDelete, listed.Key, err)
}

func (b *Bucket) removeVersion(ctx context.Context, listed object.Info) error {
	var now object.Info
	var id string
	err := b.repeat(ctx, func() (err error) {
		now, id, err = b.stat(ctx, listed.Key)
		return err
	})
	switch {
	case err != nil:
		return store.MarkNotApplied(err)
	case now.Version != listed.Version || !second(now).Equal(second(listed)):
		return &object.ConflictError{Key: listed.Key, HasCurrent: true, Version: now.Version}
	case id == "" || id == NullVersion:
		return &object.UnsupportedError{Ability: object.RemoveVersion, Found: "versioning is not enabled on the bucket"}
	}
	_, err = b.Versions().Remove(ctx, listed.Key, []string{id})
	return err
}

// second returns when an object was written, to the second: listings of some servers tell
// more than the answer to a HEAD can.
func second(info object.Info) time.Time { return info.Modified.Truncate(time.Second) }
