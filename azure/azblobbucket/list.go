package azblobbucket

import (
	"cmp"
	"context"
	"iter"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// List implements [object.Bucket]. It does not yield the directories of a hierarchical namespace. Azure cannot
// begin a listing in the middle, so ListOptions.After saves no request.
func (b *Bucket) List(ctx context.Context, prefix string, opts *object.ListOptions) iter.Seq2[object.Info, error] {
	after := cmp.Or(opts, &object.ListOptions{}).After
	return func(yield func(object.Info, error) bool) {
		for marker := ""; ; {
			page, next, err := b.page(ctx, prefix, marker)
			if err == nil && next != "" && next == marker {
				err = b.fail(store.ErrUnavailable, store.Unknown, "the listing does not advance")
			}
			if err != nil {
				yield(object.Info{}, b.opError("list", prefix, err))
				return
			}
			for _, info := range page {
				if (after == "" || info.Key > after) && !yield(info, nil) {
					return
				}
			}
			if marker = next; marker == "" {
				return
			}
		}
	}
}

func (b *Bucket) page(ctx context.Context, prefix, marker string) (page []object.Info, next string, err error) {
	err = b.repeat(ctx, func() error {
		out, answer, err := do(ctx, b, b.o.Timeout, func(ctx context.Context) (container.ListBlobsFlatResponse, error) {
			pager := b.client.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Prefix: strOrNil(prefix), Marker: strOrNil(marker)})
			return pager.NextPage(expectList(ctx))
		})
		if err != nil {
			return err
		}
		page, next = page[:0], str(out.NextMarker)
		if out.Segment == nil {
			return nil
		}
		for _, item := range out.Segment.BlobItems {
			p := item.Properties
			if p == nil || item.Name == nil || str(p.ResourceType) == "directory" {
				continue
			}
			page = append(page, object.Info{
				Key: *item.Name, Version: versionOf(p.ETag), Size: value(p.ContentLength), Modified: value(p.LastModified), Now: now(answer),
			})
		}
		return nil
	})
	return page, next, err
}
