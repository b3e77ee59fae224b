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
		_, err := b.request(ctx, b.o.Timeout, func(ctx context.Context) error {
			out, err := b.client.GetProperties(ctx, nil)
			s.Immutable = is(out.HasImmutabilityPolicy) || is(out.HasLegalHold) || is(out.IsImmutableStorageWithVersioningEnabled)
			return err
		})
		return err
	})
	if err == nil {
		_, err = b.request(ctx, b.o.Timeout, func(ctx context.Context) error {
			out, err := b.client.GetAccountInfo(ctx, nil)
			s.SKU, s.Hierarchical = str(out.SKUName), is(out.IsHierarchicalNamespaceEnabled)
			return err
		})
		if errors.Is(err, store.ErrDenied) {
			err = nil
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
	_, err := b.request(ctx, b.o.Timeout, func(ctx context.Context) error {
		out, err := b.client.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{
			Prefix: &key, Include: container.ListBlobsInclude{Deleted: true, Snapshots: true, Versions: true},
		}).NextPage(expectList(ctx))
		if err != nil || out.Segment == nil {
			return err
		}
		for _, item := range out.Segment.BlobItems {
			s.KeepsVersions = s.KeepsVersions || str(item.VersionID) != ""
			s.SoftDelete = s.SoftDelete || is(item.Deleted)
		}
		return nil
	})
	return err
}

// Create creates the container if it does not exist. It reports whether it did.
func (b *Bucket) Create(ctx context.Context) (made bool, err error) {
	_, err = b.request(ctx, b.o.Timeout, func(ctx context.Context) error {
		_, err := b.client.Create(ctx, nil)
		return err
	})
	var failed *Error
	if errors.As(err, &failed) && failed.Code == "ContainerAlreadyExists" {
		return false, nil
	}
	return err == nil, err
}

func is(p *bool) bool { return p != nil && *p }
