package object

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// DirLister is a bucket that can list one level of keys without the levels below.
type DirLister interface {
	// ListDir has the contract of the function [ListDir], with one exception. If all entries of a
	// directory follow each other, it may also yield keys of lower levels, or a directory several
	// times.
	ListDir(ctx context.Context, prefix string) iter.Seq2[Info, error]
}

const (
	// maxSegments bounds what ListDir remembers of the segments of a bucket that is no
	// [DirLister], in bytes. segmentCost is what a segment costs in addition to its text.
	maxSegments = 32 << 20
	segmentCost = 64
)

// ListDir lists one level of keys, like a directory. The prefix is empty or ends with a slash.
// ListDir yields each object whose key begins with the prefix and has no further slash. For the
// other keys with this prefix, ListDir yields directories: the key up to the next slash. It yields
// each directory once, as an Info that has only a Key. That Key ends with the slash.
//
// If the bucket is not a [DirLister], ListDir lists all keys that begin with prefix, and remembers
// the directories that it has yielded. If these directories need more than 32 MiB of memory, the
// error matches [store.ErrTooLarge].
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
						info, err = Info{}, fmt.Errorf("%w: the directories below %q need more than %d MiB of memory; list a longer prefix", store.ErrTooLarge, prefix, maxSegments>>20)
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
