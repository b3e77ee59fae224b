package integration_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/items/memtable"
	"github.com/holdfast-go/holdfast/object"
)

// laterBucket is a bucket whose clock is two days later than when its objects were made: all of
// them, or with before those that were made before it.
type laterBucket struct {
	*s3bucket.Bucket
	before time.Time
}

func (b laterBucket) Unwrap() object.Bucket { return b.Bucket }

func (b laterBucket) List(ctx context.Context, prefix string, opts *object.ListOptions) iter.Seq2[object.Info, error] {
	return func(yield func(object.Info, error) bool) {
		for info, err := range b.Bucket.List(ctx, prefix, opts) {
			if !yield(b.later(info), err) {
				return
			}
		}
	}
}

func (b laterBucket) Stat(ctx context.Context, key string) (object.Info, error) {
	info, err := b.Bucket.Stat(ctx, key)
	return b.later(info), err
}

func (b laterBucket) later(info object.Info) object.Info {
	if !info.Now.IsZero() && (b.before.IsZero() || info.Modified.Before(b.before)) {
		info.Now = info.Now.Add(48 * time.Hour)
	}
	return info
}

// TestSweepOnServers: servers tell in their listings how old objects are, and a sweep removes
// what no item refers to; what is named by its content alone, by version where the bucket
// keeps versions.
func TestSweepOnServers(t *testing.T) {
	t.Parallel()
	for name, start := range s3Servers() {
		for _, versioned := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, versions %v", name, versioned), func(t *testing.T) {
				t.Parallel()
				s := start(t)
				at := target{Kind: "s3", S3: s, Space: s.NewBucket(t, versioned)}
				b, err := at.bucket(nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, layout := range []largeitem.Layout{largeitem.DefaultLayout(), largeitem.PynamoDBMateLayout()} {
					sweepOnServer(t, b, layout, versioned)
				}
			})
		}
	}
}

func sweepOnServer(t *testing.T, b *s3bucket.Bucket, layout largeitem.Layout, versioned bool) {
	t.Helper()
	ctx := t.Context()
	table, err := memtable.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	mate := layout == largeitem.PynamoDBMateLayout()
	o := &largeitem.Options{Prefix: fmt.Sprintf("mate-%v", mate), BaseURI: "s3://bucket", Layout: layout}
	s, err := largeitem.New(table, b, o)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("long", 100) // so that the name has a hash of it
	if mate {
		text = "another" // names have no hash, and servers take no such parts of a name
	}
	long, err := largeitem.NewKey(text)
	if err != nil {
		t.Fatal(err)
	}
	short, err := largeitem.NewKey("short key/ü")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []largeitem.Key{long, short} {
		for _, text := range []string{"old", "new"} {
			if _, err := s.Upsert(ctx, key, largeitem.Change{}, largeitem.Large{"body": largeitem.Text(text)}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := largeitem.SweepStats{Seen: 4, Referenced: 2, Deleted: 2}
	if mate {
		theirs := o.Prefix + "/pk=theirs/attr=body/md5=" + strings.Repeat("0", 32)
		for range 2 { // two versions of the same content
			if _, err := b.Put(ctx, theirs, strings.NewReader("theirs"), nil); err != nil {
				t.Fatal(err)
			}
		}
		want.Seen++
		if want.Shared = 1; versioned {
			want.Shared, want.Deleted = 0, 3
		}
	}
	if got, err := s.Sweep(ctx, nil); err != nil || got.TooYoung != want.Seen {
		t.Errorf("mate %v: at once: %v, %+v", mate, err, got)
	}
	if s, err = largeitem.New(table, laterBucket{Bucket: b}, o); err != nil {
		t.Fatal(err)
	}
	got, err := s.Sweep(ctx, nil)
	if err != nil || got.Seen != want.Seen || got.Referenced != want.Referenced || got.Deleted != want.Deleted || got.Shared != want.Shared || !got.Complete || got.Unordered {
		t.Errorf("mate %v: two days later: %v, %+v", mate, err, got)
	}
	if mate && versioned { // the version before is the newest now, and orphaned in the same way
		if got, err := s.Sweep(ctx, nil); err != nil || got.Deleted != 1 {
			t.Errorf("the version before: %v, %+v", err, got)
		}
	}
	if got, err := s.Verify(ctx, nil); err != nil || got.References != 2 {
		t.Errorf("mate %v: verify: %v, %+v", mate, err, got)
	}
}
