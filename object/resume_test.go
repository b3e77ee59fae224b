package object_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/store"
)

// uploading is a bucket with unique versions that keeps every put with Keep as an upload.
type uploading struct {
	*membucket.Bucket
	done bool // the upload is complete
}

func (b *uploading) Put(ctx context.Context, key string, body io.Reader, opts *object.PutOptions) (object.Info, error) {
	if opts == nil || opts.OnUpload == nil {
		return b.Bucket.Put(ctx, key, body, opts)
	}
	return object.Info{}, &object.UnfinishedError{Upload: object.Upload{Key: key, ID: "1", Metadata: opts.Metadata}, Err: store.MarkNotApplied(store.ErrUnavailable)}
}

func (b *uploading) Resume(ctx context.Context, u object.Upload, body io.Reader, opts *object.PutOptions) (object.Info, error) {
	if b.done {
		return object.Info{}, errors.New("there is no such upload")
	}
	o := object.PutOptions{IfAbsent: opts.IfAbsent, IfMatch: opts.IfMatch, Metadata: u.Metadata}
	info, err := b.Bucket.Put(ctx, u.Key, body, &o)
	b.done = err == nil
	return info, err
}

func (*uploading) Uploads(context.Context, string) iter.Seq2[object.Upload, error] { return nil }
func (*uploading) LastPart(context.Context, object.Upload) (last, now time.Time, err error) {
	return
}
func (*uploading) AbortUpload(context.Context, object.Upload) error { return nil }

// begin leaves an upload of the object "a".
func (b *uploading) begin(t *testing.T, c *object.Client, o object.WriteOptions) object.Upload {
	t.Helper()
	o.OnUpload = func(object.Upload) {}
	_, err := c.Put(t.Context(), "a", body("mine"), &o)
	var unfinished *object.UnfinishedError
	if !errors.As(err, &unfinished) {
		t.Fatal(err)
	}
	return unfinished.Upload
}

// TestResumeOnAnotherState: an upload names the writes before it. It does not take the place
// of a write since then: that writer, whose reply was lost, would learn that its write was
// never applied.
func TestResumeOnAnotherState(t *testing.T) {
	ctx := t.Context()
	b := &uploading{Bucket: membucket.New()}
	other := newClient(t, b, nil)
	start, err := other.Put(ctx, "a", body("start"), nil)
	if err != nil {
		t.Fatal(err)
	}
	u := b.begin(t, other, object.WriteOptions{Base: &start})
	resumes := func() {
		now, err := other.Stat(ctx, "a")
		if err != nil {
			t.Error(err)
		}
		for _, o := range []*object.WriteOptions{nil, {Base: &now}, {IfMatch: now.Version}, {Force: true}} {
			if _, err := other.Resume(ctx, u, body("mine"), o); !errors.Is(err, store.ErrConflict) || store.OutcomeOf(err) != store.NotApplied {
				t.Errorf("%+v: got %v", o, err)
			}
		}
	}
	c := newClient(t, objecttest.NewFaulty(&between{b, resumes}, objecttest.Nth(1, objecttest.Lose)), fast())
	if _, err := c.Put(ctx, "a", body("theirs"), &object.WriteOptions{Base: &start}); err != nil {
		t.Errorf("the write since then: %v", err)
	}
}

// TestResumeKeepsFence: an upload that began before a fence was raised does not remove the
// fence, not even by force.
func TestResumeKeepsFence(t *testing.T) {
	ctx := t.Context()
	b := &uploading{Bucket: membucket.New()}
	c := newClient(t, b, nil)
	if _, err := c.Put(ctx, "a", body("start"), &object.WriteOptions{Fence: &token1}); err != nil {
		t.Fatal(err)
	}
	u := b.begin(t, c, object.WriteOptions{Fence: &token1})
	if _, err := c.RaiseFence(ctx, "a", token2); err != nil {
		t.Fatal(err)
	}
	for _, force := range []bool{false, true} {
		_, err := c.Resume(ctx, u, body("late"), &object.WriteOptions{Force: force})
		info, statErr := c.Stat(ctx, "a")
		if err == nil || statErr != nil || *info.WriteInfo.Fence != token2 || content(t, c, "a") != "start" {
			t.Errorf("force %v: got %v; there is %+v, %v", force, err, info, statErr)
		}
	}
}

// TestResumeOfWhatIsComplete: an upload whose completion was applied is committed, whatever
// has followed that still names it.
func TestResumeOfWhatIsComplete(t *testing.T) {
	ctx := t.Context()
	b := &uploading{Bucket: membucket.New()}
	c := newClient(t, b, nil)
	start, err := c.Put(ctx, "a", body("start"), &object.WriteOptions{Fence: &token1})
	if err != nil {
		t.Fatal(err)
	}
	u := b.begin(t, c, object.WriteOptions{Fence: &token1, Base: &start})
	made, err := c.Resume(ctx, u, body("mine"), &object.WriteOptions{Base: &start})
	if err != nil {
		t.Fatal(err)
	}
	again := func(when string, want object.Version) {
		t.Helper()
		for _, o := range []*object.WriteOptions{nil, {Base: &start}, {IfMatch: start.Version}, {IfAbsent: true}} {
			if info, err := c.Resume(ctx, u, body("mine"), o); err != nil || info.Version != want || info.WriteInfo.ID != made.WriteInfo.ID {
				t.Errorf("%s, %+v: got %+v, %v", when, o, info, err)
			}
		}
	}
	again("at once", made.Version)
	if _, err := c.RaiseFence(ctx, "a", token2); err != nil {
		t.Fatal(err)
	}
	again("after a fence was raised", "")
}

// busyUploads is a bucket that refuses the completion of each upload, because another write is in progress.
type busyUploads struct{ *membucket.Bucket }

func (b busyUploads) Put(_ context.Context, key string, body io.Reader, opts *object.PutOptions) (object.Info, error) {
	u := object.Upload{Key: key, ID: opts.Metadata["holdfast-write"]}
	opts.OnUpload(u)
	_, err := io.Copy(io.Discard, body)
	return object.Info{}, &object.UnfinishedError{Upload: u, Err: errors.Join(err, object.ErrBusy)}
}

// TestBusyUpload: an upload that is kept is not begun again, also if the store was busy: the caller would not know
// of the parts of the first one.
func TestBusyUpload(t *testing.T) {
	begun := 0
	c := newClient(t, busyUploads{membucket.New()}, fast())
	_, err := c.Put(t.Context(), "a", body("mine"), &object.WriteOptions{OnUpload: func(object.Upload) { begun++ }})
	if begun != 1 || !errors.As(err, new(*object.UnfinishedError)) || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("%d uploads were begun; got %v", begun, err)
	}
}
