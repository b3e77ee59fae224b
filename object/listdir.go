package object

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// DirLister is a bucket that lists one level of keys without a look at what is below it.
type DirLister interface {
	// ListDir does what the function [ListDir] describes. It may yield what is below, or one
	// segment several times, if those of one segment follow each other.
	ListDir(ctx context.Context, prefix string) iter.Seq2[Info, error]
}

const (
	// maxSegments bounds what ListDir remembers of the segments of a bucket that is no
	// [DirLister], in bytes. segmentCost is what a segment costs in addition to its text.
	maxSegments = 32 << 20
	segmentCost = 64
)

// ListDir lists one level of keys, as a directory is listed: prefix is empty or ends with
// a slash. It yields the objects whose keys begin with prefix and have no further slash,
// as [Bucket.List] does. All other keys that begin with prefix it yields once for each next
// segment: an Info that has nothing but a Key, which ends with a slash.
//
// Where the bucket is no [DirLister], ListDir lists all keys that begin with prefix, in any
// order. It then remembers the segments that it has yielded: when they take more than 32 MiB,
// it ends with an error that matches [store.ErrTooLarge].
func ListDir(ctx context.Context, b Bucket, prefix string) iter.Seq2[Info, error] {
	var listing iter.Seq2[Info, error]
	d, grouped := As[DirLister](b)
	if grouped {
		listing = d.ListDir(ctx, prefix)
	} else {
		listing = b.List(ctx, prefix, nil)
	}
	return func(yield func(Info, error) bool) {
		last, seen, size := "", make(map[string]bool), 0
		for info, err := range listing {
			if err == nil {
				segment, _, deeper := strings.Cut(info.Key[len(prefix):], "/")
				dir := prefix + segment + "/"
				switch {
				case deeper && (dir == last || seen[dir]):
					continue
				case deeper && !grouped:
					if size += len(dir) + segmentCost; size > maxSegments {
						info, err = Info{}, fmt.Errorf("%w: the segments after %q take more than %d MiB: list a longer prefix", store.ErrTooLarge, prefix, maxSegments>>20)
						break
					}
					seen[dir] = true
					fallthrough
				case deeper:
					last, info = dir, Info{Key: dir}
				}
			}
			if !yield(info, err) || err != nil {
				return
			}
		}
	}
}
