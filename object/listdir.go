package object

import (
	"context"
	"iter"
	"strings"
)

// DirLister is a bucket that lists one level of keys without a look at what is below it.
type DirLister interface {
	// ListDir does what the function [ListDir] describes.
	ListDir(ctx context.Context, prefix string) iter.Seq2[Info, error]
}

// ListDir lists one level of keys, as a directory is listed: prefix is empty or ends with
// a slash. It yields the objects whose keys begin with prefix and have no further slash,
// as [Bucket.List] does. All other keys that begin with prefix it yields once for each next
// segment: an Info that has nothing but a Key, which ends with a slash.
//
// Where the bucket is no [DirLister], ListDir lists all keys that begin with prefix.
func ListDir(ctx context.Context, b Bucket, prefix string) iter.Seq2[Info, error] {
	var listing iter.Seq2[Info, error]
	if d, ok := As[DirLister](b); ok {
		listing = d.ListDir(ctx, prefix)
	} else {
		listing = b.List(ctx, prefix, nil)
	}
	return func(yield func(Info, error) bool) {
		seen := make(map[string]bool)
		// A server that does not know how to leave out what is below lists it all.
		for info, err := range listing {
			if err == nil {
				segment, _, deeper := strings.Cut(info.Key[len(prefix):], "/")
				dir := prefix + segment + "/"
				switch {
				case deeper && seen[dir]:
					continue
				case deeper:
					seen[dir] = true
					info = Info{Key: dir}
				}
			}
			if !yield(info, err) {
				return
			}
		}
	}
}
