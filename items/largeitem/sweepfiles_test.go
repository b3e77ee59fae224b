package largeitem_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/items/storetable"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/dirbucket"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// TestSweepFiles: a sweep of a directory goes by the clock of this machine, which is the only
// one there is, and asks for no object. A table of files can be scanned, looked at and
// verified.
func TestSweepFiles(t *testing.T) {
	st, err := filestore.Open(t.TempDir(), &filestore.Options{AllowNetwork: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := storetable.Create(t.Context(), st, nil); err != nil {
		t.Fatal(err)
	}
	table, err := storetable.New(st, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := dirbucket.Open(t.TempDir(), &dirbucket.Options{AllowNetwork: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(b.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	})
	aged := &agedBucket{b, 0}
	s, err := largeitem.New(table, aged, &largeitem.Options{BaseURI: "file:data"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		k := key(fmt.Sprint("pk", i))
		if _, err := s.Create(t.Context(), k, nil, texts("body", "text"), nil); err != nil {
			t.Fatal(err)
		}
		if i%4 == 0 {
			if _, err := s.Update(t.Context(), k, largeitem.Change{}, texts("body", "new text"), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got, err := s.Sweep(t.Context(), nil); err != nil || got.TooYoung != 25 || got.Seen != 25 || !got.Complete {
		t.Errorf("at once: %v, %+v", err, got)
	}
	aged.by = 2 * day
	for _, scan := range []bool{false, true} {
		got, err := s.Sweep(t.Context(), &largeitem.SweepOptions{Scan: scan, DryRun: !scan, Dir: t.TempDir()})
		if err != nil || got.Deleted != 5 || got.Referenced != 20 || !got.Complete {
			t.Errorf("two days later, scan %v: %v, %+v", scan, err, got)
		}
	}
	if got, err := s.Verify(t.Context(), nil); err != nil || got.References != 20 || got.Bytes != 5*8+15*4 {
		t.Errorf("%v, %+v", err, got)
	}
}

// agedBucket is a bucket whose objects were made some time earlier than they were.
type agedBucket struct {
	object.Bucket
	by time.Duration
}

func (a *agedBucket) Unwrap() object.Bucket { return a.Bucket }

func (a *agedBucket) List(ctx context.Context, prefix string, opts *object.ListOptions) iter.Seq2[object.Info, error] {
	return func(yield func(object.Info, error) bool) {
		for info, err := range a.Bucket.List(ctx, prefix, opts) {
			info.Modified = info.Modified.Add(-a.by)
			if !yield(info, err) {
				return
			}
		}
	}
}
