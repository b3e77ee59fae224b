package azblobbucket

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// Settings are settings of a container and its account that matter to a writer of blobs.
type Settings struct {
	// Immutable says that the container has an immutability policy or a legal hold. Then no blob can be
	// overwritten or deleted.
	Immutable bool

	// KeepsVersions and SoftDelete say that the service keeps each overwritten body, as a version, or as a
	// deleted snapshot.
	KeepsVersions bool
	SoftDelete    bool

	// SKU is the redundancy of the account, such as Standard_LRS, and Hierarchical says that the account has a
	// hierarchical namespace. If the caller lacks the right to read them, SKU is empty.
	SKU          string
	Hierarchical bool
}

// GeoRedundant reports whether the account is also kept in a second region. A failover to that region loses the last
// writes.
func (s *Settings) GeoRedundant() bool {
	return strings.Contains(s.SKU, "GRS") || strings.Contains(s.SKU, "GZRS")
}

// Settings returns the settings. To find some of them, it writes and removes a blob below [Options].ProbePrefix.
func (b *Bucket) Settings(ctx context.Context) (*Settings, error) {
	s := &Settings{}
	err := b.repeat(ctx, func() error {
		out, _, err := do(ctx, b, b.o.Timeout, func(ctx context.Context) (container.GetPropertiesResponse, error) {
			return b.client.GetProperties(ctx, nil)
		})
		s.Immutable = value(out.HasImmutabilityPolicy) || value(out.HasLegalHold) || value(out.IsImmutableStorageWithVersioningEnabled)
		return err
	})
	if err == nil {
		out, _, failed := do(ctx, b, b.o.Timeout, func(ctx context.Context) (container.GetAccountInfoResponse, error) {
			return b.client.GetAccountInfo(ctx, nil)
		})
		s.SKU, s.Hierarchical = str(out.SKUName), value(out.IsHierarchicalNamespaceEnabled)
		if !errors.Is(failed, store.ErrDenied) {
			err = failed
		}
	}
	if err == nil && !s.Immutable {
		err = b.history(ctx, s)
	}
	return s, err
}

// history finds out what remains of a body that is overwritten.
func (b *Bucket) history(ctx context.Context, s *Settings) error {
	key := b.o.ProbePrefix + "/" + rand.Text()
	defer b.Delete(context.WithoutCancel(ctx), key, nil)
	for _, body := range []string{"1", "2"} {
		if _, err := b.Put(ctx, key, strings.NewReader(body), &object.PutOptions{}); err != nil {
			return err
		}
	}
	out, _, err := do(ctx, b, b.o.Timeout, func(ctx context.Context) (container.ListBlobsFlatResponse, error) {
		return b.client.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{
			Prefix: &key, Include: container.ListBlobsInclude{Deleted: true, Snapshots: true, Versions: true},
		}).NextPage(expectList(ctx))
	})
	if err != nil || out.Segment == nil {
		return err
	}
	for _, item := range out.Segment.BlobItems {
		s.KeepsVersions = s.KeepsVersions || str(item.VersionID) != ""
		s.SoftDelete = s.SoftDelete || value(item.Deleted)
	}
	return nil
}

// Create creates the container if it does not exist. It reports whether it did.
func (b *Bucket) Create(ctx context.Context) (made bool, err error) {
	_, _, err = do(ctx, b, b.o.Timeout, func(ctx context.Context) (container.CreateResponse, error) { return b.client.Create(ctx, nil) })
	var failed *Error
	if errors.As(err, &failed) && failed.Code == "ContainerAlreadyExists" {
		return false, nil
	}
	return err == nil, err
}
