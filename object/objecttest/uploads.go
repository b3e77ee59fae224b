package objecttest

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// uploader returns the bucket's ability to upload in parts, or ends the case.
func (e *env) uploader() object.Uploader {
	up, ok := object.As[object.Uploader](e.b)
	if !ok {
		e.Absent("this bucket has no uploads in parts")
	}
	return up
}

// uploads returns the unfinished uploads of a key.
func (e *env) uploads(key string) []object.Upload {
	var all []object.Upload
	for u, err := range e.uploader().Uploads(e.ctx, key) {
		e.Must(fmt.Sprintf("listing the uploads of %q", key), err)
		if u.Key == key {
			all = append(all, u)
		}
	}
	return all
}

// cut puts a large body whose reader fails at its end, and returns the upload that is
// kept.
func (e *env) cut(key, body string, opts object.PutOptions) object.Upload {
	var begun object.Upload
	opts.OnUpload = func(u object.Upload) { begun = u }
	_, err := e.b.Put(e.ctx, key, io.MultiReader(strings.NewReader(body), failing{errCut}), &opts)
	var unfinished *object.UnfinishedError
	if !errors.As(err, &unfinished) || !errors.Is(err, errCut) || store.OutcomeOf(err) != store.NotApplied {
		e.Fatalf("a put that was cut: got %v (%v), want an UnfinishedError", err, store.OutcomeOf(err))
	}
	if begun.Key != key || begun.ID == "" || begun.ID != unfinished.Upload.ID {
		e.Errorf("OnUpload got %+v, the error names %+v", begun, unfinished.Upload)
	}
	return unfinished.Upload
}

var errCut = errors.New("the line was cut")

func uploadCases() []testCase {
	return []testCase{
		{"UploadFails", "A large put that fails leaves no upload behind.", func(e *env) {
			e.uploader()
			e.put("a", "one", nil)
			_, err := e.b.Put(e.ctx, "a", io.MultiReader(strings.NewReader(e.large()), failing{errCut}), nil)
			e.WantErr("the call", err, errCut)
			e.conflict("a large create of what exists", e.tryPut("a", e.large(), &object.PutOptions{IfAbsent: true}))
			if left := e.uploads("a"); len(left) > 0 {
				e.Errorf("left behind: %+v", left)
			}
		}},
		{"Resume", "An upload that was cut is listed, makes no object, and is completed by Resume with the metadata with which it began.", func(e *env) {
			e.uploader()
			meta := map[string]string{"write": "first"}
			u := e.cut("a", e.large(), object.PutOptions{ContentType: "text/plain", Metadata: meta})
			e.expectAbsent("a")
			listed := e.uploads("a")
			if len(listed) != 1 || listed[0].ID != u.ID || listed[0].Started.IsZero() || listed[0].Now.IsZero() {
				e.Errorf("the listing shows %+v, want upload %q with its times", listed, u.ID)
			}
			body := e.large() + "and the end"
			info, err := object.Resume(e.ctx, e.b, u, readerOnly{strings.NewReader(body)}, &object.PutOptions{IfAbsent: true, Length: int64(len(body))})
			e.Must("resume", err)
			e.expect("a", info.Version, body)
			if _, got := e.read("a", nil); got.Metadata["write"] != "first" || got.ContentType != "text/plain" {
				e.Errorf("got metadata %q, type %q", got.Metadata, got.ContentType)
			}
			if left := e.uploads("a"); len(left) > 0 {
				e.Errorf("left behind: %+v", left)
			}
			_, err = object.Resume(e.ctx, e.b, u, strings.NewReader(body), nil)
			if store.OutcomeOf(err) != store.Unknown {
				e.Errorf("resume of an upload that is complete: got %v (%v), want an unknown outcome", err, store.OutcomeOf(err))
			}
			e.expect("a", info.Version, body)
		}},
		{"ResumeOther", "Resume with another body writes that body, and no mixture.", func(e *env) {
			e.uploader()
			u := e.cut("a", e.large(), object.PutOptions{})
			body := "x" + e.large()[1:]
			info, err := object.Resume(e.ctx, e.b, u, strings.NewReader(body), nil)
			e.Must("resume", err)
			e.expect("a", info.Version, body)
		}},
		{"ResumeConflict", "The condition of Resume is that of the completion; an upload that lost is removed, whether or not it was to be kept.", func(e *env) {
			e.uploader()
			e.needs(object.PartsIfAbsent)
			u := e.cut("a", e.large(), object.PutOptions{})
			v := e.put("a", "another's", nil)
			_, err := object.Resume(e.ctx, e.b, u, strings.NewReader(e.large()), &object.PutOptions{IfAbsent: true, OnUpload: func(object.Upload) {}})
			e.conflict("a resume of a create of what exists", err)
			e.expect("a", v, "another's")
			if left := e.uploads("a"); len(left) > 0 {
				e.Errorf("left behind: %+v", left)
			}
		}},
		{"AbortUpload", "AbortUpload removes an upload, and no object; an upload that is not there is no error.", func(e *env) {
			up := e.uploader()
			v := e.put("a", "one", nil)
			u := e.cut("a", e.large(), object.PutOptions{})
			last, now, err := up.LastPart(e.ctx, u)
			if err != nil || last.IsZero() || now.IsZero() || last.After(now.Add(2*time.Second)) {
				e.Errorf("last part: %v, %v, %v", last, now, err)
			}
			for range 2 {
				e.OK("abort", up.AbortUpload(e.ctx, u))
			}
			if left := e.uploads("a"); len(left) > 0 {
				e.Errorf("left behind: %+v", left)
			}
			_, _, err = up.LastPart(e.ctx, u)
			e.WantErr("last part of what was aborted", err, store.ErrNotFound)
			e.expect("a", v, "one")
		}},
	}
}
