// Package memstore is a store in the memory of one process. It is for tests, and for programs
// that may lose their registers at exit.
//
// [New] returns an empty store. It obeys the whole contract of package store, starts no goroutine,
// and needs no Close. At the end of the process, all registers are lost. Every call takes effect
// under one mutex. No call waits while it holds the mutex, so a store works inside a bubble of
// testing/synctest.
package memstore

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/store"
)

// Store is a space of registers in memory. The zero value is empty and ready for
// use. It must not be copied after its first use.
type Store struct {
	mu        sync.Mutex
	id        uint64 // part of every version, so that another store's version never fits
	writes    uint64 // of all keys together, so that a delete does not restart a key's versions
	registers map[string]register
	waiting   map[string]*waiters
}

type register struct {
	value   []byte
	version store.Version
}

// waiters are the calls of Watch that wait for the next write of one key.
type waiters struct {
	count   int
	changed chan struct{} // closed by that write
}

var (
	_ store.Store          = (*Store)(nil)
	_ store.Watcher        = (*Store)(nil)
	_ store.Lister         = (*Store)(nil)
	_ store.UnsyncedPutter = (*Store)(nil)
	_ store.Describer      = (*Store)(nil)
	_ store.Resolver       = (*Store)(nil)
	_ store.TagLister      = (*Store)(nil)
)

// New returns an empty store. It does the same as new(Store).
func New() *Store { return new(Store) }

// name is that of every memory store.
const name = "memory"

// Traits says that the store is local and trusted, and that its conflicts carry the
// current state.
func (s *Store) Traits() store.Traits {
	s.mu.Lock()
	defer s.mu.Unlock()
	return store.Traits{Name: name, ID: fmt.Sprintf("memory:%016x", s.identify()), Local: true, ConflictCarriesState: true, Trusted: true}
}

// Get implements [store.Store].
func (s *Store) Get(ctx context.Context, key string) ([]byte, store.Version, error) {
	r, err := s.get(ctx, key)
	if err != nil {
		return nil, "", &store.OpError{Op: "get", Key: key, Store: name, Err: err}
	}
	return r.value, r.version, nil
}

func (s *Store) get(ctx context.Context, key string) (register, error) {
	if err := store.CheckKey(key); err != nil {
		return register{}, err
	}
	if err := store.CheckContext(ctx); err != nil {
		return register{}, err
	}
	s.mu.Lock()
	r, ok := s.registers[key]
	s.mu.Unlock()
	if !ok {
		return register{}, store.ErrNotFound
	}
	// The store never writes to a stored slice again, so it can be copied without the
	// mutex.
	r.value = bytes.Clone(r.value)
	return r, nil
}

// Put implements [store.Store]. The error of a conflict is a [*store.ConflictError]
// with the current state.
func (s *Store) Put(ctx context.Context, key string, prev store.Version, value []byte) (store.Version, error) {
	v, err := s.put(ctx, key, prev, value)
	if err != nil {
		return "", &store.OpError{Op: "put", Key: key, Store: name, Err: err}
	}
	return v, nil
}

// PutUnsynced implements [store.UnsyncedPutter]. In memory it does the same as
// [Store.Put].
func (s *Store) PutUnsynced(ctx context.Context, key string, prev store.Version, value []byte) (store.Version, error) {
	return s.Put(ctx, key, prev, value)
}

func (s *Store) put(ctx context.Context, key string, prev store.Version, value []byte) (store.Version, error) {
	if err := store.CheckPut(key, value); err != nil {
		return "", err
	}
	// Cloning nil gives nil; an empty register must still differ from none.
	r := register{value: append([]byte{}, value...)}
	return s.write(ctx, key, prev, &r)
}

// Delete implements [store.Store]. After a conflict it returns the same error as [Store.Put].
func (s *Store) Delete(ctx context.Context, key string, prev store.Version) error {
	err := store.CheckDelete(key, prev)
	if err == nil {
		_, err = s.write(ctx, key, prev, nil)
	}
	if err != nil {
		return &store.OpError{Op: "delete", Key: key, Store: name, Err: err}
	}
	return nil
}

// write is the compare-and-swap. A nil r deletes.
func (s *Store) write(ctx context.Context, key string, prev store.Version, r *register) (store.Version, error) {
	if err := store.CheckContext(ctx); err != nil {
		return "", err
	}
	v, woken, err := s.swap(key, prev, r)
	if woken != nil {
		close(woken)
	}
	return v, err
}

// swap carries out the write under the mutex, and returns the channel to close
// afterwards.
func (s *Store) swap(key string, prev store.Version, r *register) (store.Version, chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	current := s.registers[key]
	if current.version != prev {
		return "", nil, &store.ConflictError{
			Key: key, HasCurrent: true, Value: bytes.Clone(current.value), Version: current.version,
		}
	}
	var v store.Version
	if r == nil {
		delete(s.registers, key)
	} else {
		s.writes++
		v = s.versionOf(s.writes)
		r.version = v
		if s.registers == nil {
			s.registers = make(map[string]register)
		}
		s.registers[key] = *r
	}
	return v, s.takeWaiters(key), nil
}

// versionOf returns the version of write n. It is called with the mutex held.
func (s *Store) versionOf(n uint64) store.Version {
	return store.Version(fmt.Sprintf("%d-%016x", n, s.identify()))
}

// identify returns the store's id. It is called with the mutex held.
func (s *Store) identify() uint64 {
	for s.id == 0 {
		s.id = rand.Uint64()
	}
	return s.id
}

// takeWaiters is called with the mutex held. Later calls of Watch get a new channel.
func (s *Store) takeWaiters(key string) chan struct{} {
	w := s.waiting[key]
	if w == nil {
		return nil
	}
	delete(s.waiting, key)
	return w.changed
}

// Watch implements [store.Watcher]. It returns after the next write of the key, even if a further
// write has already restored the earlier value.
func (s *Store) Watch(ctx context.Context, key string, seen store.Version) error {
	if err := store.CheckKey(key); err != nil {
		return &store.OpError{Op: "watch", Key: key, Store: name, Err: err}
	}
	if ctx.Err() != nil {
		return store.Cause(ctx)
	}
	w := s.wait(key, seen)
	if w == nil {
		return nil
	}
	select {
	case <-w.changed:
		return nil
	case <-ctx.Done():
		s.giveUp(key, w)
		return store.Cause(ctx)
	}
}

// wait returns nil if the version differs from seen already.
func (s *Store) wait(key string, seen store.Version) *waiters {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.registers[key].version != seen {
		return nil
	}
	if s.waiting == nil {
		s.waiting = make(map[string]*waiters)
	}
	w := s.waiting[key]
	if w == nil {
		w = &waiters{changed: make(chan struct{})}
		s.waiting[key] = w
	}
	w.count++
	return w
}

func (s *Store) giveUp(key string, w *waiters) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.count--
	if w.count == 0 && s.waiting[key] == w {
		delete(s.waiting, key)
	}
}

// List implements [store.Lister]. It yields the keys that existed at one instant,
// sorted.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return list(ctx, s, store.OpList, prefix, func(t store.Tagged) string { return t.Key })
}

// ListTags implements [store.TagLister]. It yields the keys that existed at one instant, sorted.
// The tag is the version.
func (s *Store) ListTags(ctx context.Context, prefix string) iter.Seq2[store.Tagged, error] {
	return list(ctx, s, store.OpListTags, prefix, func(t store.Tagged) store.Tagged { return t })
}

// ListCost implements [store.TagLister].
func (s *Store) ListCost() store.ListCost { return store.ListCost{Gets: 1, Keys: 1000} }

// list calls show for each key, and yields the results.
func list[T any](ctx context.Context, s *Store, op store.Kind, prefix string, show func(store.Tagged) T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		all, err := s.tagged(ctx, prefix)
		for _, t := range all {
			if err = store.CheckContext(ctx); err != nil {
				break
			}
			if !yield(show(t), nil) {
				return
			}
		}
		if err != nil {
			yield(show(store.Tagged{}), &store.OpError{Op: op, Key: prefix, Store: name, Err: err})
		}
	}
}

func (s *Store) tagged(ctx context.Context, prefix string) ([]store.Tagged, error) {
	below, err := store.Below(prefix)
	if err != nil {
		return nil, err
	}
	if err := store.CheckContext(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	var all []store.Tagged
	for key, r := range s.registers {
		if strings.HasPrefix(key, below) {
			all = append(all, store.Tagged{Key: key, Tag: string(r.version)})
		}
	}
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b store.Tagged) int { return strings.Compare(a.Key, b.Key) })
	return all, nil
}
