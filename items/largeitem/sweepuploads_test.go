package largeitem_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// yard is a bucket on which uploads in parts were left.
type yard struct {
	*listing
	uploads []object.Upload
	denied  string // the key of one that may not be removed
	aborted []string
}

func (y *yard) Uploads(_ context.Context, prefix string) iter.Seq2[object.Upload, error] {
	return func(yield func(object.Upload, error) bool) {
		for _, u := range y.uploads {
			u.Now = time.Now()
			if strings.HasPrefix(u.Key, prefix) && !yield(u, nil) {
				return
			}
		}
	}
}

func (y *yard) LastPart(_ context.Context, u object.Upload) (last, now time.Time, err error) {
	return u.Started, time.Now(), nil
}

func (y *yard) AbortUpload(_ context.Context, u object.Upload) error {
	if u.Key == y.denied {
		return store.ErrDenied
	}
	y.aborted = append(y.aborted, u.Key)
	return nil
}

func (y *yard) Resume(context.Context, object.Upload, io.Reader, *object.PutOptions) (object.Info, error) {
	return object.Info{}, errors.ErrUnsupported
}

// TestSweepUploadsToo: with SweepOptions.Uploads, the sweep removes uploads that were never
// completed: those of this table and these attributes, older than the orphan age.
func TestSweepUploadsToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSwept(t, nil)
		y := &yard{listing: s.list}
		open := func(age time.Duration) {
			t.Helper()
			var err error
			if s.store, err = largeitem.New(s.table, y, &largeitem.Options{Prefix: "p", BaseURI: sweptBase, OrphanAge: age}); err != nil {
				t.Fatal(err)
			}
		}
		open(0)
		leave := func(key string) string {
			y.uploads = append(y.uploads, object.Upload{Key: key, ID: key, Started: time.Now()})
			return key
		}
		id := fmt.Sprintf("%032x", 1)
		old := leave("p/T/pk=a/attr=x/" + id)
		other := leave("p/T/pk=a/attr=y/" + id)
		leave("p/T/backup.tar")
		leave("p/Tb/pk=a/attr=x/" + id)
		time.Sleep(day + time.Second)
		leave("p/T/pk=b/attr=x/" + id)

		sweep := func(o largeitem.SweepOptions, want object.SweepStats, removed ...string) {
			t.Helper()
			y.aborted = nil
			got, err := s.sweep(&o)
			if (err != nil) != (want.Failed > 0) || got.Uploads != want || !slices.Equal(y.aborted, removed) {
				t.Errorf("%+v: %v, %+v, removed %q; want %+v, %q", o, err, got.Uploads, y.aborted, want, removed)
			}
		}
		sweep(largeitem.SweepOptions{}, object.SweepStats{})
		sweep(largeitem.SweepOptions{Uploads: true, DryRun: true}, object.SweepStats{Found: 3, TooYoung: 1, Removed: 2})
		sweep(largeitem.SweepOptions{Uploads: true, Attributes: []string{"y"}}, object.SweepStats{Found: 1, Removed: 1}, other)
		open(2 * day)
		sweep(largeitem.SweepOptions{Uploads: true}, object.SweepStats{Found: 3, TooYoung: 3})
		open(0)
		y.denied = other
		sweep(largeitem.SweepOptions{Uploads: true}, object.SweepStats{Found: 3, TooYoung: 1, Removed: 1, Failed: 1}, old)
	})
}
