package objecttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// env is what a case works with: a fresh bucket, a second handle on it, and verbs
// that expect success. A verb that fails ends the case; it must therefore be called
// on the goroutine of the case only. Racers use the buckets themselves, and Errorf.
type env struct {
	*suitetest.Recorder
	Options
	t      *testing.T
	ctx    context.Context
	cancel context.CancelFunc
	b      object.Bucket // what is written through
	other  object.Bucket // what is read through: b itself, or another handle
}

// handle returns the bucket that the i-th racer uses.
func (e *env) handle(i int) object.Bucket {
	return [...]object.Bucket{e.b, e.other}[i%2]
}

// needs ends the case if the bucket lacks one of these abilities. That a bucket
// refuses what it lacks is checked by the case Unsupported.
func (e *env) needs(abilities ...object.Ability) {
	for _, a := range abilities {
		if reason, lacks := e.Unsupported[a]; lacks {
			e.Absent(fmt.Sprintf("this bucket lacks %s: %s", a, reason))
		}
	}
}

func (e *env) put(key, body string, opts *object.PutOptions) object.Version {
	return e.putInfo(key, body, opts).Version
}

func (e *env) putInfo(key, body string, opts *object.PutOptions) object.Info {
	info, err := e.b.Put(e.ctx, key, readerOnly{bytes.NewReader([]byte(body))}, opts)
	e.Must(fmt.Sprintf("put %q", key), err)
	if info.Key != key || info.Version == "" || info.Size != int64(len(body)) {
		e.Errorf("put %q of %d bytes returns key %q, version %q, size %d", key, len(body), info.Key, info.Version, info.Size)
	}
	return info
}

// readerOnly hides everything of a reader but Read: bodies are streams.
type readerOnly struct{ r io.Reader }

func (r readerOnly) Read(p []byte) (int, error) { return r.r.Read(p) }

// read returns what Get with these options gives.
func (e *env) read(key string, opts *object.GetOptions) (string, object.Info) {
	r, err := e.other.Get(e.ctx, key, opts)
	e.Must(fmt.Sprintf("get %q", key), err)
	body, err := io.ReadAll(r)
	e.OK(fmt.Sprintf("reading %q", key), err)
	e.OK(fmt.Sprintf("closing %q", key), r.Close())
	return string(body), r.Info
}

// expect checks that the object is in this state.
func (e *env) expect(key string, v object.Version, want string) {
	got, info := e.read(key, nil)
	if got != want {
		e.Errorf("get %q: got %s, want %s", key, show(got), show(want))
	}
	if info.Version != v || info.Key != key || info.Size != int64(len(want)) {
		e.Errorf("get %q: got key %q, version %q, size %d; want version %q, size %d", key, info.Key, info.Version, info.Size, v, len(want))
	}
}

func (e *env) expectAbsent(key string) {
	r, err := e.other.Get(e.ctx, key, nil)
	if err == nil {
		r.Close()
	}
	e.WantErr(fmt.Sprintf("get %q", key), err, store.ErrNotFound)
}

// conflict checks the error of something whose condition did not hold.
func (e *env) conflict(what string, err error) {
	switch {
	case err == nil:
		e.Errorf("%s succeeded", what)
	case !errors.Is(err, store.ErrConflict):
		e.Errorf("%s: the error does not match ErrConflict: %v", what, err)
	case store.OutcomeOf(err) != store.NotApplied:
		e.Errorf("%s: the outcome of a write with a conflict is %q, want not applied: %v", what, store.OutcomeOf(err), err)
	}
}

// list returns the keys of a listing.
func (e *env) list(prefix string, opts *object.ListOptions) []string {
	var keys []string
	for info, err := range e.other.List(e.ctx, prefix, opts) {
		e.Must(fmt.Sprintf("list %q", prefix), err)
		keys = append(keys, info.Key)
	}
	slices.Sort(keys)
	return keys
}

// race runs f in all racers at once.
func (e *env) race(f func(i int)) { suitetest.Race(e.Racers, f) }

// show returns a body for people, shortened.
func show(body string) string {
	if len(body) > 40 {
		return fmt.Sprintf("%q... (%d bytes)", body[:40], len(body))
	}
	return fmt.Sprintf("%q", body)
}
