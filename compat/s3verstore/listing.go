package s3verstore

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/internal/sysclock"
	"github.com/holdfast-go/holdfast/store"
)

const firstPause = 50 * time.Millisecond

// errVersionMissing says that a version was removed since it was listed.
var errVersionMissing = errors.New("a listed version no longer exists")

// version is one version of an object, as a listing shows it.
type version struct {
	id, etag string
	modified time.Time
}

// put sends the PUT of an entry, once.
func (s *Store) put(ctx context.Context, object string, body []byte) (id string, err error) {
	v, err := s.versions.Put(ctx, object, body, "text/plain; charset=utf-8", s.o.PutLifetime)
	if err == nil && v.ETag != etagOf(body) {
		s.bucketState.opaque.Store(true)
	}
	return v.ID, err
}

// listing is what a LIST showed of one object.
type listing struct {
	watch    sysclock.Reading // since before the first request
	pages    int
	versions []version // oldest first, each once, without null
	null     *version
	size     int // of the versions, in memory
}

// list lists the versions of one object.
func (s *Store) list(ctx context.Context, object string) (*listing, error) {
	l := &listing{watch: sysclock.Read()}
	for page, err := range s.versions.List(ctx, object) {
		if err != nil {
			return nil, err
		}
		l.pages++
		for _, v := range page.Versions {
			// The whole key: a listing by prefix shows others too.
			if v.Key == object {
				l.add(v)
			}
		}
		if err := l.tooMany(object); err != nil {
			return nil, err
		}
		if page.NextKey > object {
			break
		}
	}
	l.order()
	return l, nil
}

// maxListing bounds what the versions of one object may take in memory: more than
// 200,000 versions.
const maxListing = 32 << 20

// versionCost is what a version takes in addition to its id and its ETag.
const versionCost = 64

func (l *listing) tooMany(object string) error {
	if l.size <= maxListing {
		return nil
	}
	return fmt.Errorf("%w: %s has more versions than Holdfast can read (at least %d); find out why superseded versions were not removed", store.ErrUnsafe, object, len(l.versions))
}

func (l *listing) add(v s3bucket.ObjectVersion) {
	w := version{cmp.Or(v.ID, s3bucket.NullVersion), v.ETag, v.Modified}
	l.size += versionCost + len(w.id) + len(w.etag)
	if w.id == s3bucket.NullVersion {
		l.null = &w
		return
	}
	l.versions = append(l.versions, w)
}

// order brings the versions, which came newest first, into their order, oldest
// first, each once.
//
// A listing that ran during a write on versitygw shows the version that was current
// when it began at the newest place, and perhaps a second time. Its ids are ULIDs,
// which sort by the time at which they were made. This order is permanent. So if all
// ids are ULIDs, the log has the order of the ids.
func (l *listing) order() {
	slices.Reverse(l.versions)
	if !slices.ContainsFunc(l.versions, func(v version) bool { return !isULID(v.id) }) {
		slices.SortFunc(l.versions, func(a, b version) int { return strings.Compare(a.id, b.id) })
	}
	seen := map[string]bool{}
	l.versions = slices.DeleteFunc(l.versions, func(v version) bool {
		twice := seen[v.id]
		seen[v.id] = true
		return twice
	})
}

// ids returns the ids of the versions.
func (l *listing) ids() []string {
	ids := make([]string, len(l.versions))
	for i := range l.versions {
		ids[i] = l.versions[i].id
	}
	return ids
}

// movedText says what is wrong with a server whose order is not permanent.
const movedText = "the server changed the order of an object's versions"

// sameOrder reports whether what is in both lists is there in one order.
func sameOrder(a, b []string) bool {
	at := make(map[string]int, len(a))
	for i, id := range a {
		at[id] = i
	}
	last := -1
	for _, id := range b {
		if i, ok := at[id]; ok {
			if i < last {
				return false
			}
			last = i
		}
	}
	return true
}

// isULID reports whether a version id is a ULID: 48 bits of time and 80 random bits
// in Crockford's base 32.
func isULID(id string) bool {
	return len(id) == 26 && id[0] <= '7' && strings.Trim(id, "0123456789ABCDEFGHJKMNPQRSTVWXYZ") == ""
}

// fetch reads the body of a version.
//
// Some servers look up a version by its id and then open what is current by then. So
// the body must be what the listing said, by its MD5, or the same twice.
func (s *Store) fetch(ctx context.Context, object string, v version) ([]byte, error) {
	body, err := s.get(ctx, object, v.id)
	if err != nil || s.bucketState.opaque.Load() || etagOf(body) == v.etag {
		return body, err
	}
	for range 4 {
		again, err := s.get(ctx, object, v.id)
		if err != nil || etagOf(again) == v.etag || bytes.Equal(again, body) {
			return again, err
		}
		body = again
	}
	return nil, fmt.Errorf("%w: each read of version %s of %s returns a different body", store.ErrUnsafe, v.id, object)
}

func (s *Store) get(ctx context.Context, object, id string) ([]byte, error) {
	body, err := s.versions.Get(ctx, object, id, maxBody)
	if errors.Is(err, store.ErrNotFound) {
		err = fmt.Errorf("%w: %s of %s", errVersionMissing, id, object)
	}
	return body, err
}

// etagOf is the ETag of a body on a server that makes it the MD5.
func etagOf(body []byte) string {
	sum := md5.Sum(body)
	return hex.EncodeToString(sum[:])
}
