package integration_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// versions lists the version ids of a key, oldest first, all pages.
func (r *raw) versions(key string) []string {
	r.t.Helper()
	var ids []string
	in := &s3.ListObjectVersionsInput{Bucket: &r.bucket, Prefix: &key}
	for {
		page, err := r.c.ListObjectVersions(r.t.Context(), in)
		if err != nil {
			r.t.Error(err)
			return nil
		}
		for _, v := range page.Versions {
			if aws.ToString(v.Key) == key {
				ids = append(ids, aws.ToString(v.VersionId))
			}
		}
		if !aws.ToBool(page.IsTruncated) {
			slices.Reverse(ids)
			return ids
		}
		in.KeyMarker, in.VersionIdMarker = page.NextKeyMarker, page.NextVersionIdMarker
	}
}

// What a register on a versioned bucket assumes of LIST, with eight writers at once:
// it shows every write that was answered, at once and to every reader, it never drops
// one, and when no writer is left, the order of the versions does not change.
//
// The log says what must not be assumed. On MinIO, the oldest version in a
// listing right after a client's own write need not stay the oldest (in a third to a half
// of the rounds). On versitygw a listing that runs during a write is torn: the
// version that was current when it began is at the newest place although others
// have come, for a second time or out of its order.
func TestS3VersionOrder(t *testing.T) {
	t.Parallel()
	rounds := 20
	if torture() {
		rounds = 300
	}
	for name, start := range s3Servers() {
		t.Run(name, func(t *testing.T) {
			r := newRaw(t, start(t), true)
			several, torn, listings := 0, 0, 0
			for round := range rounds {
				v := &versionRound{r: r, key: fmt.Sprint("k", round)}
				v.run(8)
				if v.first > 1 {
					several++
				}
				listings += len(v.listings)
				for _, ids := range v.listings {
					if !isSubsequence(ids, v.final) {
						torn++
						if name != "versitygw" {
							t.Errorf("round %d: a listing was %v, and in the end it is %v", round, ids, v.final)
						}
					}
				}
			}
			t.Logf("in %d of %d rounds more than one of 8 writers saw itself first; %d of %d listings were torn", several, rounds, torn, listings)
		})
	}
}

// versionRound is several writers of one key, each of whom lists its versions.
type versionRound struct {
	r   *raw
	key string

	mu       sync.Mutex
	answered []string // version ids of the writes that were answered
	listings [][]string
	first    int // writers that saw themselves first
	final    []string
}

func (v *versionRound) run(writers int) {
	t := v.r.t
	t.Helper()
	var wg sync.WaitGroup
	for range writers {
		wg.Go(v.write)
	}
	wg.Wait()
	v.final = v.list()
	if again := v.list(); len(v.final) != writers || !slices.Equal(v.final, again) {
		t.Errorf("%d writers left the versions %v, then they are %v", writers, v.final, again)
	}
}

func (v *versionRound) write() {
	out, err := v.r.c.PutObject(v.r.t.Context(), &s3.PutObjectInput{Bucket: &v.r.bucket, Key: &v.key})
	if err != nil {
		v.r.t.Error(err)
		return
	}
	id := aws.ToString(out.VersionId)
	v.mu.Lock()
	v.answered = append(v.answered, id)
	v.mu.Unlock()
	if ids := v.list(); len(ids) > 0 && ids[0] == id {
		v.mu.Lock()
		v.first++
		v.mu.Unlock()
	}
}

// list keeps a listing, and checks that all is in it that was answered before.
func (v *versionRound) list() []string {
	v.mu.Lock()
	before := slices.Clone(v.answered)
	v.mu.Unlock()
	ids := v.r.versions(v.key)
	for _, id := range before {
		if !slices.Contains(ids, id) {
			v.r.t.Errorf("version %s was answered before the listing %v began, and is not in it", id, ids)
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.listings = append(v.listings, ids)
	return ids
}

// isSubsequence reports whether the elements of a stand in b in the same order.
func isSubsequence(a, b []string) bool {
	for _, x := range b {
		if len(a) > 0 && a[0] == x {
			a = a[1:]
		}
	}
	return len(a) == 0
}
