// Package foreignlocks searches a bucket on S3 for locks of other programs, because a store does not
// respect them. It finds locks of an older program. It also finds registers of the other kind of store:
// package bucketstore (for s3store) and package s3verstore are the two kinds.
//
// The older program stores a lock as the versions of one object. The oldest version names the owner. Each
// attempt to get the lock writes a new version. Its body is the name of the lock, a hyphen and a UUID.
// Its metadata has "timeout" and "lockowner". By the rules of the older program, a lock can have two
// owners.
package foreignlocks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

// Text explains the problem of a lock of the older program, and what the user can do.
const Text = "a lock of another program, in which the oldest version is the owner, so two programs could own the lock. End the other program and remove the object with its versions, or use another name or prefix"

const (
	maxRequests = 20 // objects that are asked for their metadata, or read
	maxSiblings = 3  // objects of one level that are read
)

// Kind is a kind of store. Its value is the suffix of its object names.
type Kind string

// The kinds of stores. Package bucketstore uses Plain: the server checks a condition for each write.
// Package s3verstore uses Versioned: each write adds a version of the object.
const (
	Plain     Kind = ".json"
	Versioned Kind = "!!"
)

// long are the directories of registers whose names are too long, right below the prefix.
var long = map[Kind]string{Plain: "!", Versioned: "!long"}

// url is how the URL of a store of the kind begins.
func (k Kind) url() string {
	if k == Versioned {
		return "s3+versioned://"
	}
	return "s3://"
}

// Found is the result of [Find].
type Found struct {
	// Legacy are the locks of the older program below the prefix. LegacyAtRoot are the locks at the root
	// of the bucket, if there is a prefix.
	Legacy, LegacyAtRoot []string

	// Other are the registers of the other kind of store below the prefix.
	Other []string

	// Objects are objects of other programs among the locks, sessions and checkpoints: at most ten.
	Objects []string

	prefix string
	kind   Kind // of Other
}

// Object is an object in a listing, or one version of it.
type Object struct {
	Key  string
	ID   string // ID of the version; empty for the newest version
	Size int64  // in bytes
}

// Bucket reads single versions of objects. An empty id names the newest version.
type Bucket interface {
	Get(ctx context.Context, key, id string, limit int64) ([]byte, error)
	Metadata(ctx context.Context, key, id string) (map[string]string, error)
}

// List returns some of the first objects below a prefix. If these are all objects, all is true.
type List func(ctx context.Context, prefix string) (objects []Object, all bool, err error)

// Find lists the root of the bucket, if its rights allow that. If this listing does not show the whole
// prefix, Find also lists the prefix, and then the locks and checkpoints below the prefix. The parameter kind is the other kind of store, whose registers Find
// searches for. If Find may not read the metadata of an object below the prefix, it returns what it has
// found and an error.
func Find(ctx context.Context, b Bucket, prefix string, kind Kind, list List) (*Found, error) {
	objects, all, err := list(ctx, "")
	if prefix != "" && (errors.Is(err, store.ErrDenied) || err == nil && !all) {
		root := objects
		if objects, all, err = list(ctx, prefix); err == nil {
			root = slices.DeleteFunc(root, func(o Object) bool { return strings.HasPrefix(o.Key, prefix) })
			objects = append(objects, root...)
		}
	}
	if err == nil && !all {
		for _, dir := range []string{"checkpoint/", "lock"} { // also lock.session
			var more []Object
			if more, _, err = list(ctx, prefix+dir); err != nil {
				break
			}
			objects = append(more, objects...)
		}
	}
	if err != nil {
		return nil, err
	}
	// Those below the prefix first: they matter more, and not all can be asked.
	slices.SortStableFunc(objects, func(a, b Object) int {
		return rank(a.Key, prefix) - rank(b.Key, prefix)
	})
	f := &Found{prefix: prefix, kind: kind}
	if err := f.findOther(ctx, b, objects); err != nil {
		return nil, err
	}
	err = f.findOld(ctx, b, objects)
	f.findObjects(objects)
	return f, err
}

func rank(key, prefix string) int {
	if strings.HasPrefix(key, prefix) {
		return 0
	}
	return 1
}

// IsLegacy reports whether a version is a lock of the older program. An empty id names the newest
// version.
func IsLegacy(ctx context.Context, b Bucket, object, id string) (bool, error) {
	metadata, err := b.Metadata(ctx, object, id)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	_, timeout := metadata["timeout"]
	_, owner := metadata["lockowner"]
	return timeout && owner, err
}

func (f *Found) findOld(ctx context.Context, b Bucket, objects []Object) error {
	asked := map[string]bool{}
	for _, o := range objects {
		const uuid = 36
		if asked[o.Key] || len(asked) >= maxRequests || o.Size != int64(len(o.Key)+1+uuid) {
			continue
		}
		asked[o.Key] = true
		below := strings.HasPrefix(o.Key, f.prefix)
		switch is, err := IsLegacy(ctx, b, o.Key, o.ID); {
		case errors.Is(err, store.ErrDenied) && !below: // the rights end with the prefix
		case err != nil:
			return err
		case is && below:
			f.Legacy = append(f.Legacy, o.Key)
		case is:
			f.LegacyAtRoot = append(f.LegacyAtRoot, o.Key)
		}
	}
	return nil
}

func (f *Found) findOther(ctx context.Context, b Bucket, objects []Object) error {
	read, beside := 0, map[string]int{}
	for _, o := range objects {
		name, below := strings.CutPrefix(o.Key, f.prefix)
		if !below || !strings.HasSuffix(name, string(f.kind)) || slices.Contains(f.Other, o.Key) {
			continue
		}
		if f.kind == Plain { // other programs have such names, too
			if read >= maxRequests || beside[first(name)] >= maxSiblings {
				continue
			}
			read, beside[first(name)] = read+1, beside[first(name)]+1
			body, err := b.Get(ctx, o.Key, "", engine.MaxText)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			if _, err := engine.Decode(body); err != nil {
				continue
			}
		}
		f.Other = append(f.Other, o.Key)
	}
	return nil
}

// findObjects notes the objects that no store has written, and that are no locks of the older program.
func (f *Found) findObjects(objects []Object) {
	const most = 10
	for _, o := range objects {
		name, below := strings.CutPrefix(o.Key, f.prefix)
		if !below || !ofLocks(first(name)) || strings.HasSuffix(name, "/") || strings.HasSuffix(name, string(Plain)) || strings.HasSuffix(name, string(Versioned)) {
			continue
		}
		if len(f.Objects) < most && !slices.Contains(f.Objects, o.Key) && !slices.Contains(f.Legacy, o.Key) && strings.Contains(name, "/") {
			f.Objects = append(f.Objects, o.Key)
		}
	}
}

// ofLocks reports whether the registers of locks, sessions or checkpoints have this first segment.
func ofLocks(segment string) bool {
	return slices.Contains([]string{"lock", "lock.session", "checkpoint"}, segment)
}

// first is the first segment of a name: what keeps the registers of one use apart from those
// of another.
func first(name string) string {
	segment, _, _ := strings.Cut(name, "/")
	return segment
}

// Shared returns the registers of the other kind of store with exactly this prefix: locks, sessions,
// checkpoints, and registers with long names. It also returns each register whose key has the same first
// segment as the parameter key. If key is empty, Shared does not compare first segments.
func (f *Found) Shared(key string) (objects []string) {
	for _, object := range f.Other {
		name := strings.TrimPrefix(object, f.prefix)
		segment := first(name)
		if ofLocks(segment) || slices.Contains([]string{long[f.kind], first(key), first(key) + string(f.kind)}, segment) {
			objects = append(objects, object)
		}
	}
	return objects
}

// Refuse returns an error that matches [store.ErrUnsafe] if the other kind of store uses the same prefix.
// It also returns an error if the caller creates the register key, and a lock of the older program has
// the same name. The name of the lock can be the whole key, or the key without its first segment.
func (f *Found) Refuse(key string, create bool) error {
	if objects := f.Shared(key); len(objects) > 0 {
		return fmt.Errorf("%w: %s", store.ErrUnsafe, f.SharedText(objects))
	}
	if !create {
		return nil
	}
	_, below, _ := strings.Cut(key, "/")
	var names []string
	for _, object := range f.Legacy {
		names = append(names, strings.TrimPrefix(object, f.prefix), object)
	}
	for _, name := range append(names, f.LegacyAtRoot...) {
		if name == key || name == below {
			return fmt.Errorf("%w: the name %q is used by %s", store.ErrUnsafe, name, Text)
		}
	}
	return nil
}

// SharedText explains the problem that the other kind of store uses the same prefix.
func (f *Found) SharedText(objects []string) string {
	return fmt.Sprintf("an %s store keeps its registers under the same prefix (%q), so a program in each store could hold the same lock. Use the other store or another prefix, or end the programs of the other store and remove its objects", f.kind.url(), objects[0])
}

// Empty reports whether any register can be created: Find has found no lock of the older program, and the
// other kind of store does not share the prefix.
func (f *Found) Empty() bool {
	return len(f.Legacy)+len(f.LegacyAtRoot)+len(f.Shared("")) == 0
}
