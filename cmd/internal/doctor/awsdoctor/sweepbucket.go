package awsdoctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/internal/trial"
	"github.com/holdfast-go/holdfast/store"
)

// sweepBucket removes the objects, versions and uploads of killed examinations. Without a
// client it leaves delete markers.
func sweepBucket(b *s3bucket.Bucket, client *s3.Client, prefix string) doctor.Sweeper {
	prefix = doctor.Folder(prefix)
	dir := prefix + doctor.Dir + "/"
	return func(ctx context.Context, before time.Time, dryRun bool) (n int, err error) {
		remove := func(remove func() error) error {
			n++
			if dryRun {
				return nil
			}
			if err := remove(); !errors.Is(err, store.ErrNotFound) {
				return err
			}
			return nil
		}
		each := func(key string, f func() error) error {
			if name, ok := strings.CutPrefix(key, prefix); !ok || !trial.Old(name, doctor.Dir, before) {
				return nil
			}
			return remove(f)
		}
		for up, err := range b.Uploads(ctx, dir) {
			if err == nil {
				err = each(up.Key, func() error { return b.AbortUpload(ctx, up) })
			}
			if err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, store.ErrDenied) {
				return n, err
			}
		}
		set, err := b.Settings(ctx)
		if err != nil {
			return n, err
		}
		unknown := errors.Is(set.Unreadable["versioning"], store.ErrDenied)
		versions := unknown || set.Versioning != ""
		if versions && client != nil {
			err := eachVersion(ctx, client, b.Name(), dir, func(id types.ObjectIdentifier) error {
				return each(aws.ToString(id.Key), func() error {
					_, err := client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: aws.String(b.Name()), Key: id.Key, VersionId: id.VersionId})
					return err
				})
			})
			if !unknown || n > 0 || err == nil {
				return n, err
			}
		}
		if !versions || client != nil {
			for info, err := range b.List(ctx, dir, nil) {
				if err == nil {
					err = each(info.Key, func() error { return b.Delete(ctx, info.Key, nil) })
				}
				if err != nil {
					return n, err
				}
			}
			if unknown && n > 0 && !dryRun {
				return n, fmt.Errorf("%w: if the bucket keeps versions, those below %s are left: finding them needs the right s3:ListBucketVersions", store.ErrDenied, dir)
			}
			return n, nil
		}
		for _, dir := range []string{dir, prefix + measureDir} {
			for page, err := range b.Versions().List(ctx, dir) {
				if err != nil {
					return n, err
				}
				for _, v := range page.Versions {
					f := func() error { return removeVersion(ctx, b, v) }
					switch {
					case dir != prefix+measureDir:
						err = each(v.Key, f)
					case v.Modified.Before(before):
						err = remove(f)
					}
					if err != nil {
						return n, err
					}
				}
			}
		}
		return n, nil
	}
}

// measureDir is where s3verstore measures the order of versions.
const measureDir = ".holdfast/measure/"

func removeVersion(ctx context.Context, b *s3bucket.Bucket, v s3bucket.ObjectVersion) error {
	failed, err := b.Versions().Remove(ctx, v.Key, []string{v.ID})
	if err == nil && failed > 0 {
		err = fmt.Errorf("%w: a version of %s could not be removed", store.ErrDenied, v.Key)
	}
	return err
}

// eachVersion calls f with each version and each delete marker below a prefix.
func eachVersion(ctx context.Context, client *s3.Client, bucket, dir string, f func(types.ObjectIdentifier) error) error {
	pages := s3.NewListObjectVersionsPaginator(client, &s3.ListObjectVersionsInput{Bucket: &bucket, Prefix: &dir})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		var ids []types.ObjectIdentifier
		for _, v := range page.Versions {
			ids = append(ids, types.ObjectIdentifier{Key: v.Key, VersionId: v.VersionId})
		}
		for _, m := range page.DeleteMarkers {
			ids = append(ids, types.ObjectIdentifier{Key: m.Key, VersionId: m.VersionId})
		}
		for _, id := range ids {
			if !strings.HasPrefix(aws.ToString(id.Key), dir) {
				continue // a server that ignores the prefix
			}
			if err := f(id); err != nil {
				return err
			}
		}
	}
	return nil
}
