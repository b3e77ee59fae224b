// Package oldlock recognises the locks of an older program, which keeps a lock as the
// versions of one object and takes the oldest version for the owner. Each attempt is a new
// version, with a body of the lock's name, a hyphen and a UUID, and the metadata "timeout" and
// "lockowner". Two owners can win under its rule, and its locks and those of Holdfast do not
// exclude each other.
package oldlock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/store"
)

// Text says what such a lock is, and what to do.
const Text = "a lock of another program, whose rule (the oldest version owns) lets two owners in; end that program and remove the object with its versions, or use another name or prefix"

// maxAsked bounds how many objects are asked for their metadata.
const maxAsked = 20

// Is reports whether a version is such a lock. An empty id names the newest version.
func Is(ctx context.Context, v s3bucket.Versions, object, id string) (bool, error) {
	metadata, err := v.Metadata(ctx, object, id)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	_, timeout := metadata["timeout"]
	_, owner := metadata["lockowner"]
	return timeout && owner, err
}

// Among returns the objects that are such locks.
func Among(ctx context.Context, v s3bucket.Versions, versions []s3bucket.ObjectVersion) (objects []string, err error) {
	asked := map[string]bool{}
	for _, o := range versions {
		const uuid = 36
		if asked[o.Key] || len(asked) >= maxAsked || o.Size != int64(len(o.Key)+1+uuid) {
			continue
		}
		asked[o.Key] = true
		if is, err := Is(ctx, v, o.Key, o.ID); err != nil {
			return nil, err
		} else if is {
			objects = append(objects, o.Key)
		}
	}
	return objects, nil
}

// Names returns the names of such locks below the prefix of a store, and at the root of the
// bucket if the rights go so far. below returns the objects that are such locks.
func Names(ctx context.Context, prefix string, below func(ctx context.Context, prefix string) ([]string, error)) (names []string, err error) {
	objects, err := below(ctx, prefix)
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		names = append(names, strings.TrimPrefix(object, prefix))
	}
	if prefix == "" {
		return names, nil
	}
	objects, err = below(ctx, "")
	if errors.Is(err, store.ErrDenied) {
		err = nil
	}
	return append(names, objects...), err
}

// Refuse returns an error that matches [store.ErrUnsafe] if such a lock has the name of a
// register: its key, or what follows the first segment of the key.
func Refuse(names []string, key string) error {
	_, below, _ := strings.Cut(key, "/")
	for _, name := range names {
		if name == key || name == below {
			return fmt.Errorf("%w: the name %q is taken by %s", store.ErrUnsafe, name, Text)
		}
	}
	return nil
}
