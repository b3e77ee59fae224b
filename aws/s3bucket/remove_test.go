package s3bucket_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// TestRemoveVersion: the version that was listed is removed, and nothing else.
func TestRemoveVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := awstest.NewS3("bucket")
		f.Versioning = "Enabled"
		b := newBucket(t, f, nil)
		listed := func(key string) object.Info {
			for info, err := range b.List(t.Context(), key, nil) {
				if err != nil {
					t.Fatal(err)
				}
				return info
			}
			return object.Info{Key: key}
		}
		if keeps, err := b.KeepsVersions(t.Context()); !keeps || err != nil {
			t.Errorf("versioning is enabled: %v, %v", keeps, err)
		}
		put(t, b, "a", "body", nil)
		first := listed("a")
		if err := b.RemoveVersion(t.Context(), first); err != nil || listed("a").Version != "" {
			t.Errorf("%v, and there is %+v", err, listed("a"))
		}
		if err := b.RemoveVersion(t.Context(), first); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("removed twice: %v", err)
		}

		// The same bytes are written again, so that the ETag is the same.
		put(t, b, "a", "body", nil)
		old := listed("a")
		time.Sleep(2 * time.Second)
		put(t, b, "a", "body", nil)
		if err := b.RemoveVersion(t.Context(), old); !errors.Is(err, store.ErrConflict) || listed("a").Version == "" {
			t.Errorf("a version that is not the newest: %v, and there is %+v", err, listed("a"))
		}
		newest := listed("a")
		if err := b.RemoveVersion(t.Context(), newest); err != nil || !listed("a").Modified.Equal(old.Modified) {
			t.Errorf("%v: the version before is %+v, want that of %v", err, listed("a"), old.Modified)
		}

		for _, status := range []string{"", "Suspended"} {
			f.SetVersioning(status)
			put(t, b, "plain", "body", nil)
			if keeps, err := b.KeepsVersions(t.Context()); keeps || err != nil {
				t.Errorf("versioning is %q: %v, %v", status, keeps, err)
			}
			if err := b.RemoveVersion(t.Context(), listed("plain")); !errors.Is(err, errors.ErrUnsupported) || listed("plain").Version == "" {
				t.Errorf("versioning is %q: %v", status, err)
			}
		}
		if err := b.RemoveVersion(t.Context(), object.Info{}); !errors.Is(err, store.ErrKey) {
			t.Errorf("no key: %v", err)
		}
	})
}
