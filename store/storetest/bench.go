package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

// RequestCounter is an ability of a store: it counts the requests that it has sent to its server,
// answered or not. [Bench] reports requests/op for such stores.
type RequestCounter interface {
	Requests() uint64
}

// Bench measures the store that the function open returns. Each operation is a separate benchmark, with
// values as large as the record of a lock. If the store is a [RequestCounter], requests/op is exact and
// does not depend on the machine. Bench measures the operation of an optional ability only if the store
// has this ability. For contended puts, tries/op is the number of tries for one success.
func Bench(b *testing.B, open func(b *testing.B) store.Store) {
	abilities := open(b)
	for _, bench := range []struct {
		name string

		// prepare returns the operation to measure.
		prepare func(b *testing.B, s store.Store) func() error
		needs   func(s store.Store) bool // reports whether the store has the ability; nil: none is needed
	}{
		{"Get", benchGet, nil},
		{"GetAbsent", benchGetAbsent, nil},
		{"GetIfChanged", benchGetIfChanged, has[store.ConditionalGetter]},
		{"Put", benchPut, nil},
		{"PutUnsynced", benchPutUnsynced, has[store.UnsyncedPutter]},
		{"PutRefused", benchPutRefused, nil},
		{"Create", benchCreate, nil},
		{"CreateDelete", benchCreateDelete, nil},
		{"Wake", benchWake, has[store.Watcher]},
	} {
		if bench.needs != nil && !bench.needs(abilities) {
			continue
		}
		b.Run(bench.name, func(b *testing.B) {
			s := open(b)
			op := bench.prepare(b, s)
			requests := countRequests(s)
			b.ReportAllocs()
			for b.Loop() {
				if err := op(); err != nil {
					b.Fatal(err)
				}
			}
			requests.report(b)
		})
	}
	b.Run("PutContended", func(b *testing.B) { benchContended(b, open(b)) })
}

func has[A any](s store.Store) bool {
	_, ok := store.As[A](s)
	return ok
}

// requests counts from a moment on; the zero value counts nothing.
type requests struct {
	counter RequestCounter
	before  uint64
}

func countRequests(s store.Store) requests {
	c, ok := store.As[RequestCounter](s)
	if !ok {
		return requests{}
	}
	return requests{c, c.Requests()}
}

func (r requests) report(b *testing.B) {
	if r.counter != nil {
		b.ReportMetric(float64(r.counter.Requests()-r.before)/float64(b.N), "requests/op")
	}
}

func benchValue() []byte { return bytes.Repeat([]byte("x"), 300) }

func benchCreated(b *testing.B, s store.Store, key string) store.Version {
	b.Helper()
	v, err := s.Put(b.Context(), key, "", benchValue())
	if err != nil {
		b.Fatal(err)
	}
	return v
}

func benchGet(b *testing.B, s store.Store) func() error {
	benchCreated(b, s, "job")
	return func() error {
		_, _, err := s.Get(b.Context(), "job")
		return err
	}
}

func benchGetAbsent(b *testing.B, s store.Store) func() error {
	return func() error {
		_, _, err := s.Get(b.Context(), "job")
		return expected(err, store.ErrNotFound)
	}
}

// expected is an error unless err matches want.
func expected(err, want error) error {
	if !errors.Is(err, want) {
		return fmt.Errorf("the call returned the error %v, want %v", err, want)
	}
	return nil
}

func benchGetIfChanged(b *testing.B, s store.Store) func() error {
	v := benchCreated(b, s, "job")
	return func() error {
		_, _, _, err := store.GetIfChanged(b.Context(), s, "job", v)
		return err
	}
}

func benchPut(b *testing.B, s store.Store) func() error {
	v, value := benchCreated(b, s, "job"), benchValue()
	return func() (err error) {
		v, err = s.Put(b.Context(), "job", v, value)
		return err
	}
}

func benchPutUnsynced(b *testing.B, s store.Store) func() error {
	p, _ := store.As[store.UnsyncedPutter](s)
	v, value := benchCreated(b, s, "job"), benchValue()
	return func() (err error) {
		v, err = p.PutUnsynced(b.Context(), "job", v, value)
		return err
	}
}

func benchPutRefused(b *testing.B, s store.Store) func() error {
	benchCreated(b, s, "job")
	value := benchValue()
	return func() error {
		_, err := s.Put(b.Context(), "job", "", value)
		return expected(err, store.ErrConflict)
	}
}

func benchCreate(b *testing.B, s store.Store) func() error {
	n, value := 0, benchValue()
	return func() error {
		n++
		_, err := s.Put(b.Context(), fmt.Sprintf("job/%d", n), "", value)
		return err
	}
}

func benchCreateDelete(b *testing.B, s store.Store) func() error {
	value := benchValue()
	return func() error {
		v, err := s.Put(b.Context(), "job", "", value)
		if err != nil {
			return err
		}
		return s.Delete(b.Context(), "job", v)
	}
}

// benchWake measures a put until a watch of another goroutine has returned.
func benchWake(b *testing.B, s store.Store) func() error {
	w, _ := store.As[store.Watcher](s)
	v, value := benchCreated(b, s, "job"), benchValue()
	watch := make(chan store.Version)
	woken := make(chan error)
	ctx, cancel := context.WithCancel(b.Context())
	b.Cleanup(func() { cancel(); close(watch) })
	go func() {
		for seen := range watch {
			woken <- w.Watch(ctx, "job", seen)
		}
	}()
	return func() (err error) {
		watch <- v
		if v, err = s.Put(ctx, "job", v, value); err != nil {
			return err
		}
		return <-woken
	}
}

// benchContended lets goroutines swap one register by reading and conditional writing. If a
// conflict carries the state, the next try names that.
func benchContended(b *testing.B, s store.Store) {
	benchCreated(b, s, "job")
	requests := countRequests(s)
	var tries atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(4)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		value := benchValue()
		var v store.Version
		for pb.Next() {
			for {
				tries.Add(1)
				w, err := s.Put(b.Context(), "job", v, value)
				if err == nil {
					v = w
					break
				}
				var c *store.ConflictError
				switch {
				case errors.As(err, &c) && c.HasCurrent:
					v = c.Version
				case errors.Is(err, store.ErrConflict):
					_, v, err = s.Get(b.Context(), "job")
				}
				if err != nil && !errors.Is(err, store.ErrConflict) {
					b.Errorf("a contended put: %v", err)
					return
				}
			}
		}
	})
	b.ReportMetric(float64(tries.Load())/float64(b.N), "tries/op")
	requests.report(b)
}
