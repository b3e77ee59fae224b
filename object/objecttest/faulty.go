package objecttest

import (
	"context"
	"io"
	"iter"
	"strings"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// Faulty is a bucket whose calls have faults. Use it to test programs that use a bucket. A read with any
// fault except Pass returns an error.
type Faulty struct {
	*Faults
	below object.Bucket
}

var (
	_ object.Bucket    = (*Faulty)(nil)
	_ object.Copier    = (*Faulty)(nil)
	_ object.Describer = (*Faulty)(nil)
)

// NewFaulty returns a bucket for which the function decide chooses the fault of each call; see
// [NewFaults].
func NewFaulty(below object.Bucket, decide func(Call) Fault) *Faulty {
	return NewFaults(decide).Bucket(below)
}

// Bucket returns a bucket whose calls get the faults.
func (f *Faults) Bucket(below object.Bucket) *Faulty { return &Faulty{f, below} }

// Traits implements [object.Describer]. The bucket is not local, because its faults are those of a
// network.
func (f *Faulty) Traits() object.Traits {
	t := object.TraitsOf(f.below)
	t.Local = false
	return t
}

// Get implements [object.Bucket].
func (f *Faulty) Get(ctx context.Context, key string, opts *object.GetOptions) (r *object.Reader, err error) {
	err = f.Call(ctx, "get", key, func(ctx context.Context) error {
		r, err = f.below.Get(ctx, key, opts)
		return err
	})
	return r, err
}

// Stat implements [object.Bucket].
func (f *Faulty) Stat(ctx context.Context, key string) (info object.Info, err error) {
	err = f.Call(ctx, "stat", key, func(ctx context.Context) error {
		info, err = f.below.Stat(ctx, key)
		return err
	})
	return info, err
}

// Put implements [object.Bucket]. It reads the body into memory.
func (f *Faulty) Put(ctx context.Context, key string, body io.Reader, opts *object.PutOptions) (info object.Info, err error) {
	all, err := io.ReadAll(body)
	if err != nil {
		return object.Info{}, &store.OpError{Op: "put", Key: key, Err: store.MarkNotApplied(err)}
	}
	err = f.Call(ctx, "put", key, func(ctx context.Context) error {
		info, err = f.below.Put(ctx, key, strings.NewReader(string(all)), opts)
		return err
	})
	if err != nil {
		info = object.Info{}
	}
	return info, err
}

// Copy implements [object.Copier].
func (f *Faulty) Copy(ctx context.Context, source, destination string, opts *object.CopyOptions) (info object.Info, err error) {
	err = f.Call(ctx, "copy", destination, func(ctx context.Context) error {
		info, err = object.Copy(ctx, f.below, source, destination, opts)
		return err
	})
	if err != nil {
		info = object.Info{}
	}
	return info, err
}

// Delete implements [object.Bucket].
func (f *Faulty) Delete(ctx context.Context, key string, opts *object.DeleteOptions) error {
	return f.Call(ctx, "delete", key, func(ctx context.Context) error { return f.below.Delete(ctx, key, opts) })
}

// List implements [object.Bucket].
func (f *Faulty) List(ctx context.Context, prefix string, opts *object.ListOptions) iter.Seq2[object.Info, error] {
	return func(yield func(object.Info, error) bool) {
		err := f.Call(ctx, "list", prefix, func(context.Context) error { return nil })
		if err != nil {
			yield(object.Info{}, err)
			return
		}
		f.below.List(ctx, prefix, opts)(yield)
	}
}
