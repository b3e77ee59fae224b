package object

import (
	"context"
	"fmt"
	"io"
	"math"

	"github.com/holdfast-go/holdfast/store"
)

// WholeReader is a bucket that can read whole objects better than [Bucket.Get]. For example, it
// starts again when an answer breaks off.
type WholeReader interface {
	// ReadAll has the contract of the function [ReadAll].
	ReadAll(ctx context.Context, key string, limit int64, opts *GetOptions) ([]byte, Info, error)
}

// ReadAll reads an object whose size is at most the limit, in bytes. It refuses a larger object
// before it reads the body; the error matches [store.ErrTooLarge].
func ReadAll(ctx context.Context, b Bucket, key string, limit int64, opts *GetOptions) ([]byte, Info, error) {
	if w, ok := As[WholeReader](b); ok {
		return w.ReadAll(ctx, key, limit, opts)
	}
	return ReadBody(ctx, b, key, limit, opts)
}

// ReadBody does the same as [ReadAll], but by one Get, even if the bucket is a [WholeReader].
func ReadBody(ctx context.Context, b Bucket, key string, limit int64, opts *GetOptions) ([]byte, Info, error) {
	r, err := b.Get(ctx, key, opts)
	if err != nil {
		return nil, Info{}, err
	}
	defer r.Close()
	if r.Info.Size > limit {
		return nil, r.Info, fmt.Errorf("%q: %w: %d bytes, at most %d are read", key, store.ErrTooLarge, r.Info.Size, limit)
	}
	body, err := io.ReadAll(io.LimitReader(r, min(limit, math.MaxInt64-1)+1))
	switch {
	case err != nil:
		return nil, r.Info, fmt.Errorf("%q: %w", key, err)
	case int64(len(body)) > limit:
		return nil, r.Info, fmt.Errorf("%q: %w: more than %d bytes", key, store.ErrTooLarge, limit)
	}
	return body, r.Info, nil
}
