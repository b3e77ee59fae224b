package storetest_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

func fmtInt(n int) string { return strconv.Itoa(n) }

// loose is a register store with a choice of versions: made from the value and the
// number of writes since the register was created.
type loose struct {
	version func(value string, n int) string

	mu   sync.Mutex
	all  map[string]*looseRegister
	woke chan struct{}
}

type looseRegister struct {
	value   string
	version store.Version
	n       int
}

func newLoose(version func(value string, n int) string) store.Store {
	return &loose{version: version, all: make(map[string]*looseRegister), woke: make(chan struct{})}
}

func (l *loose) Get(_ context.Context, key string) ([]byte, store.Version, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.all[key]
	if r == nil {
		return nil, "", store.ErrNotFound
	}
	return []byte(r.value), r.version, nil
}

func (l *loose) Put(_ context.Context, key string, prev store.Version, value []byte) (store.Version, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.all[key]
	if r == nil {
		r = &looseRegister{}
	}
	if r.version != prev {
		return "", store.ErrConflict
	}
	n := r.n + 1
	l.all[key] = &looseRegister{string(value), store.Version(l.version(string(value), n)), n}
	l.wake()
	return l.all[key].version, nil
}

func (l *loose) Delete(_ context.Context, key string, prev store.Version) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.all[key]; r == nil || r.version != prev {
		return store.ErrConflict
	}
	delete(l.all, key)
	l.wake()
	return nil
}

func (l *loose) wake() {
	close(l.woke)
	l.woke = make(chan struct{})
}

// Watch returns when the version differs, and so not for an equal one.
func (l *loose) Watch(ctx context.Context, key string, seen store.Version) error {
	for {
		l.mu.Lock()
		var now store.Version
		if r := l.all[key]; r != nil {
			now = r.version
		}
		woke := l.woke
		l.mu.Unlock()
		if now != seen {
			return nil
		}
		select {
		case <-woke:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// sharing hands out and keeps slices that belong to others.
type sharing struct {
	*memstore.Store
	keep   bool // keeps what it is given; otherwise shares what it hands out
	mu     sync.Mutex
	values map[store.Version][]byte
}

func newSharing(keep bool) store.Store {
	return &sharing{Store: memstore.New(), keep: keep, values: make(map[store.Version][]byte)}
}

func (s *sharing) Get(ctx context.Context, key string) ([]byte, store.Version, error) {
	value, v, err := s.Store.Get(ctx, key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.keep {
		value = append([]byte{}, s.values[v]...)
	} else if err == nil {
		if s.values[v] == nil {
			s.values[v] = value
		}
		value = s.values[v]
	}
	return value, v, err
}

func (s *sharing) Put(ctx context.Context, key string, prev store.Version, value []byte) (store.Version, error) {
	v, err := s.Store.Put(ctx, key, prev, value)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.keep {
		s.values[v] = value
	}
	return v, err
}

// mapsKeys returns a handler that works on changed keys; an empty one is refused.
func mapsKeys(change func(key string) string) handler {
	return func(ctx context.Context, _ *memstore.Store, op *store.Op, next store.Handler) error {
		if op.Kind == store.OpList {
			return next(ctx, op)
		}
		mapped := *op
		mapped.Key = change(op.Key)
		err := next(ctx, &mapped)
		mapped.Key = op.Key
		*op = mapped
		return err
	}
}

// refusesKeys returns a handler that refuses the keys for which bad holds.
func refusesKeys(bad func(key string) bool) handler {
	return mapsKeys(func(key string) string {
		if bad(key) {
			return ""
		}
		return key
	})
}

// changesValues returns a handler that writes changed values.
func changesValues(change func(value string) string) handler {
	return func(ctx context.Context, _ *memstore.Store, op *store.Op, next store.Handler) error {
		if op.Kind == store.OpPut || op.Kind == store.OpPutUnsynced {
			op.Value = []byte(change(string(op.Value)))
		}
		return next(ctx, op)
	}
}

func brokenValues() []broken {
	return []broken{
		{"cuts large values", []string{"ValueSizes"}, onMemory(changesValues(func(v string) string { return v[:min(len(v), store.MaxValue-1)] })), nil},
		{"takes values of any size", []string{"ValueTooLarge"}, func() store.Store { return newLoose(func(_ string, n int) string { return fmtInt(n) }) }, nil},
		{"ends values at a NUL", []string{"ValueBytes"}, onMemory(changesValues(func(v string) string { v, _, _ = strings.Cut(v, "\x00"); return v })), nil},
		{"trims values", []string{"ValueBytes"}, onMemory(changesValues(strings.TrimSpace)), nil},
		{"keeps values as UTF-8", []string{"ValueBytes"}, onMemory(changesValues(func(v string) string { return strings.ToValidUTF8(v, "\ufffd") })), nil},
		{"writes short values over long ones", []string{"ValueShrinks"}, onMemory(func(ctx context.Context, m *memstore.Store, op *store.Op, next store.Handler) error {
			if old, _, err := m.Get(ctx, op.Key); op.Kind == store.OpPut && err == nil && len(old) > len(op.Value) {
				op.Value = append(op.Value[:len(op.Value):len(op.Value)], old[len(op.Value):]...)
			}
			return next(ctx, op)
		}), nil},
		{"takes nil for a delete", []string{"ValueNil"}, onMemory(func(ctx context.Context, _ *memstore.Store, op *store.Op, next store.Handler) error {
			if op.Kind == store.OpPut && op.Value == nil {
				op.Version = "none"
				return nil
			}
			return next(ctx, op)
		}), nil},
		{"keeps the caller's slice", []string{"ValueNotKept"}, func() store.Store { return newSharing(true) }, nil},
		{"hands out its own slice", []string{"ValueNotShared"}, func() store.Store { return newSharing(false) }, nil},
		{"appends to the caller's slice", []string{"ValueNotChanged"}, onMemory(func(ctx context.Context, _ *memstore.Store, op *store.Op, next store.Handler) error {
			if op.Kind == store.OpPut {
				_ = append(op.Value, "checksum"...)
			}
			return next(ctx, op)
		}), nil},
	}
}

func brokenKeys() []broken {
	cut := func(key string) string { return key[:min(len(key), 255)] }
	return []broken{
		{"folds case", []string{"KeyCase"}, onMemory(mapsKeys(strings.ToLower)), nil},
		{"drops combining marks", []string{"KeyUnicode"}, onMemory(mapsKeys(func(key string) string { return strings.ReplaceAll(key, "\u0301", "") })), nil},
		{"refuses newlines", []string{"KeyControl"}, onMemory(refusesKeys(func(key string) bool { return strings.Contains(key, "\n") })), nil},
		{"ends keys at a NUL", []string{"KeyControl"}, onMemory(mapsKeys(func(key string) string { key, _, _ = strings.Cut(key, "\x00"); return key })), nil},
		{"takes backslashes for slashes", []string{"KeyPunctuation", "KeyLikeEncoding"}, onMemory(mapsKeys(func(key string) string { return strings.ReplaceAll(key, `\`, "/") })), nil},
		{"trims dots and spaces", []string{"KeySpaces"}, onMemory(mapsKeys(func(key string) string { return strings.TrimRight(key, ". ") })), nil},
		{"has no register CON", []string{"KeyReserved"}, onMemory(refusesKeys(func(key string) bool { return key == "CON" })), nil},
		{"has no keys below a key", []string{"KeyPrefixOfKey"}, onMemory(func(ctx context.Context, m *memstore.Store, op *store.Op, next store.Handler) error {
			for i := range op.Key {
				if op.Key[i] != '/' {
					continue
				}
				if _, _, err := m.Get(ctx, op.Key[:i]); err == nil && op.Kind == store.OpPut {
					return errors.New("not a directory")
				}
			}
			return next(ctx, op)
		}), nil},
		{"unescapes keys", []string{"KeyLikeEncoding"}, onMemory(mapsKeys(func(key string) string { return strings.ReplaceAll(key, "%2F", "/") })), nil},
		{"keeps names for itself", []string{"KeyLikeInternals"}, onMemory(refusesKeys(func(key string) bool { return strings.HasSuffix(key, ".tmp") })), nil},
		{"cuts keys", []string{"KeyLongest", "KeyDeep"}, onMemory(mapsKeys(cut)), nil},
		{"takes any key", []string{"KeyInvalid"}, func() store.Store { return newLoose(func(_ string, n int) string { return fmtInt(n) }) }, nil},
	}
}

func brokenCalls() []broken {
	ignores := func(kind store.Kind) handler {
		return func(ctx context.Context, _ *memstore.Store, op *store.Op, next store.Handler) error {
			if op.Kind == kind {
				ctx = context.WithoutCancel(ctx)
			}
			return next(ctx, op)
		}
	}
	return []broken{
		{"takes a failed read for absence", []string{"CancelledGet"}, onMemory(func(ctx context.Context, _ *memstore.Store, op *store.Op, next store.Handler) error {
			err := next(ctx, op)
			if op.Kind == store.OpGet && err != nil {
				return store.ErrNotFound
			}
			return err
		}), nil},
		{"returns the cause of the context as it is", []string{"CausesAreNoAnswers"}, onMemory(func(ctx context.Context, _ *memstore.Store, op *store.Op, next store.Handler) error {
			if ctx.Err() != nil {
				return store.MarkNotApplied(context.Cause(ctx))
			}
			return next(ctx, op)
		}), nil},
		{"puts after the context has ended", []string{"CancelledPut"}, onMemory(ignores(store.OpPut)), nil},
		{"deletes after the context has ended", []string{"CancelledDelete"}, onMemory(ignores(store.OpDelete)), nil},
		{"undoes a put when its context ends", []string{"CancelledAfter"}, onMemory(func(ctx context.Context, m *memstore.Store, op *store.Op, next store.Handler) error {
			err := next(ctx, op)
			if key, v := op.Key, op.Version; op.Kind == store.OpPut && err == nil {
				context.AfterFunc(ctx, func() { _ = m.Delete(context.WithoutCancel(ctx), key, v) })
			}
			return err
		}), nil},
		{"takes a timeout for a refusal", []string{"DeadlinesTellTheTruth"}, onMemory(func(ctx context.Context, _ *memstore.Store, op *store.Op, next store.Handler) error {
			err := next(ctx, op)
			if _, ok := ctx.Deadline(); ok && op.Kind.Write() && err == nil {
				pause()
				if ctx.Err() != nil {
					return store.MarkNotApplied(ctx.Err())
				}
			}
			return err
		}), nil},
		{"returns bare errors", []string{"ErrorsNameTheKey"}, newBare, nil},
		{"does not name the store in its errors", []string{"ErrorsNameTheKey"}, misnamed(func(op *store.OpError) { op.Store = "" }), nil},
		{"names the store twice", []string{"ErrorsNameTheKey"}, misnamed(func(op *store.OpError) { op.Err = fmt.Errorf("memory: %w", op.Err) }), nil},
	}
}

// misnamed opens a store that changes its errors.
func misnamed(change func(op *store.OpError)) func() store.Store {
	return onMemory(func(ctx context.Context, _ *memstore.Store, op *store.Op, next store.Handler) error {
		err := next(ctx, op)
		if named, ok := err.(*store.OpError); ok {
			change(named)
		}
		return err
	})
}

// newBare returns a store whose errors do not name the key; else it is sound.
func newBare() store.Store {
	return onMemory(func(ctx context.Context, _ *memstore.Store, op *store.Op, next store.Handler) error {
		err := next(ctx, op)
		var bare *store.OpError
		if errors.As(err, &bare) {
			return bare.Err
		}
		return err
	})()
}
