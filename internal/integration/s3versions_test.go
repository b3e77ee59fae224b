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
// it shows every write that was answered, at once and to everybody, it never drops
// one, and the versions keep their places among each other.
//
// The log tells what must not be assumed: G4, that the oldest version in a listing
// right after one's own write will stay the oldest (MinIO breaks it in a third of
// the rounds); and that a listing names a version once (versitygw may name it twice
// while the next one is being written).
func TestS3VersionOrder(t *testing.T) {
	const writers = 8
	rounds := 20
	if torture() {
		rounds = 300
	}
	for name, start := range s3Servers() {
		t.Run(name, func(t *testing.T) {
			r := newRaw(t, start(t), true)
			several, twice := 0, 0
			for round := range rounds {
				key := fmt.Sprint("k", round)
				var mu sync.Mutex
				var answered []string // version ids of the writes that were answered
				var listings [][]string
				first := 0
				// list checks one listing and keeps it.
				list := func() []string {
					mu.Lock()
					before := slices.Clone(answered)
					mu.Unlock()
					ids := r.versions(key)
					for _, id := range before {
						if !slices.Contains(ids, id) {
							t.Errorf("round %d: version %s was answered before the listing %v, and is not in it", round, id, ids)
						}
					}
					mu.Lock()
					defer mu.Unlock()
					unique := slices.Compact(slices.Clone(ids))
					if len(unique) < len(ids) {
						twice++
					}
					listings = append(listings, unique)
					return unique
				}
				write := func() {
					out, err := r.c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &r.bucket, Key: &key})
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					answered = append(answered, aws.ToString(out.VersionId))
					mu.Unlock()
					if ids := list(); len(ids) > 0 && ids[0] == aws.ToString(out.VersionId) {
						mu.Lock()
						first++
						mu.Unlock()
					}
				}
				var wg sync.WaitGroup
				for range writers {
					wg.Go(write)
				}
				wg.Wait()
				final := list()
				if len(final) != writers {
					t.Errorf("round %d: %d versions in the end, want %d", round, len(final), writers)
				}
				for _, ids := range listings {
					if !isSubsequence(ids, final) {
						t.Errorf("round %d: a listing was %v, and in the end it is %v", round, ids, final)
					}
				}
				if first > 1 {
					several++
				}
			}
			t.Logf("in %d of %d rounds more than one of %d writers saw itself first; %d of %d listings named a version twice",
				several, rounds, writers, twice, rounds*(writers+1))
		})
	}
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
