package object_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/store"
)

// yard is a bucket on which uploads were left. Its clock is 100 hours ahead.
type yard struct {
	*membucket.Bucket
	uploads []object.Upload
	last    map[string]time.Time // the newest part of an upload, by its id
	gone    map[string]bool      // completed since it was listed
	denied  string               // this one may not be aborted
	aborted []string
}

func (y *yard) now() time.Time { return time.Now().Add(100 * time.Hour) }

func (y *yard) leave(key, id string, started, last time.Duration) {
	y.uploads = append(y.uploads, object.Upload{Key: key, ID: id, Started: y.now().Add(-started), Now: y.now()})
	y.last[id] = y.now().Add(-last)
}

func (y *yard) Uploads(_ context.Context, prefix string) iter.Seq2[object.Upload, error] {
	return func(yield func(object.Upload, error) bool) {
		for _, u := range y.uploads {
			if strings.HasPrefix(u.Key, prefix) && !yield(u, nil) {
				return
			}
		}
	}
}

func (y *yard) LastPart(_ context.Context, u object.Upload) (last, now time.Time, err error) {
	if y.gone[u.ID] {
		return last, now, store.ErrNotFound
	}
	return y.last[u.ID], y.now(), nil
}

func (y *yard) AbortUpload(_ context.Context, u object.Upload) error {
	if u.ID == y.denied {
		return store.ErrDenied
	}
	y.aborted = append(y.aborted, u.ID)
	return nil
}

func (y *yard) Resume(context.Context, object.Upload, io.Reader, *object.PutOptions) (object.Info, error) {
	return object.Info{}, errors.ErrUnsupported
}

// TestSweepUploads: a sweep removes an upload only if it is below the prefix, and its newest
// part is old by the store's clock.
func TestSweepUploads(t *testing.T) {
	y := &yard{Bucket: membucket.New(), last: map[string]time.Time{}, gone: map[string]bool{"gone": true}, denied: "denied"}
	y.leave("a/k", "old", 30*time.Hour, 30*time.Hour)
	y.leave("a/k", "denied", 30*time.Hour, 30*time.Hour)
	y.leave("a/k", "active", 30*time.Hour, time.Hour)
	y.leave("a/k", "young", 20*time.Hour, 20*time.Hour)
	y.leave("a/k", "gone", 30*time.Hour, 30*time.Hour)
	y.leave("a/l", "other", 48*time.Hour, 25*time.Hour)
	y.leave("b/k", "elsewhere", 48*time.Hour, 48*time.Hour)
	y.uploads = append(y.uploads, object.Upload{Key: "a/k", ID: "ageless"})
	var told []string
	o := &object.SweepOptions{DryRun: true, Report: func(u object.Upload, err error) { told = append(told, fmt.Sprint(u.ID, " ", err != nil)) }}
	for _, dry := range []bool{true, false} {
		o.DryRun, told = dry, nil
		got, err := object.SweepUploads(t.Context(), y, "a/", o)
		want := object.SweepStats{Found: 7, TooYoung: 3, Removed: 2, Failed: 2}
		report, aborted := "old false, denied true, other false, ageless true", "old other"
		if dry {
			want.Removed, want.Failed = 3, 1
			report, aborted = "old false, denied false, other false, ageless true", ""
		}
		if err == nil || got != want || strings.Join(told, ", ") != report || strings.Join(y.aborted, " ") != aborted {
			t.Errorf("dry %v: %+v, %v, told %q, aborted %q", dry, got, err, told, y.aborted)
		}
		if !dry && !errors.Is(err, store.ErrDenied) {
			t.Errorf("got %v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	y.aborted, o.Report = nil, func(object.Upload, error) { cancel() }
	if _, err := object.SweepUploads(ctx, y, "a/", o); !errors.Is(err, context.Canceled) || len(y.aborted) != 1 {
		t.Errorf("after the end of its context: %v, aborted %q", err, y.aborted)
	}
	if got, err := object.SweepUploads(t.Context(), membucket.New(), "a/", nil); err != nil || got != (object.SweepStats{}) {
		t.Errorf("without uploads: %+v, %v", got, err)
	}
	if _, err := object.Resume(t.Context(), membucket.New(), object.Upload{Key: "k", ID: "1"}, strings.NewReader(""), nil); !errors.Is(err, object.ErrInvalid) {
		t.Errorf("resume without uploads: %v", err)
	}
}

// TestBody: a declared length is checked however the body is read.
func TestBody(t *testing.T) {
	for length, fails := range map[int64]bool{0: false, 3: true, 4: false, 5: true} {
		for name, body := range map[string]io.Reader{
			"whole": strings.NewReader("four"), "byte by byte": iotest.OneByteReader(strings.NewReader("four")),
			"with its end": iotest.DataErrReader(strings.NewReader("four")),
		} {
			got, err := io.ReadAll(object.CheckedBody(body, object.PutOptions{Length: length}))
			if errors.Is(err, object.ErrInvalid) != fails || !fails && (err != nil || string(got) != "four") {
				t.Errorf("%s, %d declared: %q, %v", name, length, got, err)
			}
		}
	}
}

// endless is a body that can tell where it is, but not where it ends, like the files below /proc.
type endless struct{ *strings.Reader }

func (e endless) Seek(offset int64, whence int) (int64, error) {
	if whence == io.SeekEnd {
		return 0, errors.New("invalid argument")
	}
	return e.Reader.Seek(offset, whence)
}

// TestBodyWithoutKnownEnd: such a body is put like one that cannot seek.
func TestBodyWithoutKnownEnd(t *testing.T) {
	c := newClient(t, membucket.New(), nil)
	if _, err := c.Put(t.Context(), "a", endless{body("text")}, nil); err != nil || content(t, c, "a") != "text" {
		t.Errorf("got %v, %q", err, content(t, c, "a"))
	}
}
