package bucketstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/store"
)

// flaky is a bucket whose puts go wrong by a list: the first item is for the first put, and
// so on; the puts after the list succeed.
type flaky struct {
	*membucket.Bucket
	mu    sync.Mutex
	puts  []fault
	calls []string
	gets  error // of all reads, while set
	late  []func()
}

// fault is how a put goes wrong.
type fault int

const (
	right     fault = iota
	lost            // applied, reply lost
	dropped         // not applied, reply lost
	twice           // applied, then repeated on the way: the answer is that to the repetition
	busy            // 409
	denied          // certain
	delayed         // not applied now, but when release is called; reply lost
	faster          // the write of another program is applied first
	fasterTen       // ten writes of other programs are applied first
	lostFaster
	lostFasterTen
	fasterDeleted // another program creates and deletes it first
	lostDeleted   // applied, reply lost, and deleted by another program
)

var errLost = fmt.Errorf("%w: the reply was lost", store.ErrUnavailable)

func (f *flaky) Put(ctx context.Context, key string, body io.Reader, opts *object.PutOptions) (object.Info, error) {
	all, err := io.ReadAll(body)
	if err != nil {
		return object.Info{}, err
	}
	put := func() (object.Info, error) { return f.Bucket.Put(ctx, key, bytes.NewReader(all), opts) }
	f.mu.Lock()
	next := right
	if strings.HasSuffix(key, ".json") {
		f.calls = append(f.calls, "put")
		if len(f.puts) > 0 {
			next, f.puts = f.puts[0], f.puts[1:]
		}
	}
	f.mu.Unlock()
	switch next {
	case lost, twice, lostFaster, lostFasterTen, lostDeleted:
		_, err := put()
		switch next {
		case twice:
			return put()
		case lostFaster:
			f.others(ctx, key, 1)
		case lostFasterTen:
			f.others(ctx, key, 10)
		case lostDeleted:
			f.remove(ctx, key)
		}
		if err != nil && next != lost {
			return object.Info{}, err
		}
		return object.Info{}, errLost
	case dropped:
		return object.Info{}, errLost
	case busy:
		return object.Info{}, object.ErrBusy
	case denied:
		return object.Info{}, store.ErrDenied
	case delayed:
		f.late = append(f.late, func() { _, _ = put() })
		return object.Info{}, errLost
	case faster:
		f.others(ctx, key, 1)
	case fasterTen:
		f.others(ctx, key, 10)
	case fasterDeleted:
		f.others(ctx, key, 1)
		f.remove(ctx, key)
	}
	return put()
}

func (f *flaky) Get(ctx context.Context, key string, opts *object.GetOptions) (*object.Reader, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, "get")
	if f.gets != nil {
		return nil, f.gets
	}
	return f.Bucket.Get(ctx, key, opts)
}

// others writes to the register as another process does.
func (f *flaky) others(ctx context.Context, object string, count int) {
	s := other(f.Bucket)
	key := strings.TrimSuffix(object, ".json")
	for i := range count {
		_, v, err := s.Get(ctx, key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			panic(err)
		}
		if _, err := s.Put(ctx, key, v, fmt.Appendf(nil, `"another's %d"`, i)); err != nil {
			panic(err)
		}
	}
}

func (f *flaky) remove(ctx context.Context, object string) {
	s := other(f.Bucket)
	key := strings.TrimSuffix(object, ".json")
	_, v, err := s.Get(ctx, key)
	if err == nil {
		err = s.Delete(ctx, key, v)
	}
	if err != nil {
		panic(err)
	}
}

// release delivers the delayed puts.
func (f *flaky) release() {
	for _, put := range f.late {
		put()
	}
	f.late = nil
}

// requests returns the calls since the last time, as a text.
func (f *flaky) requests() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := strings.Join(f.calls, " ")
	f.calls = nil
	return calls
}
