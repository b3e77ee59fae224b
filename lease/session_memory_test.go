package lease_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// forgetful is a store that accepts every write and keeps nothing, so that all memory is the client's.
type forgetful struct{ writes atomic.Int64 }

func (f *forgetful) Get(context.Context, string) ([]byte, store.Version, error) {
	return nil, "", store.ErrNotFound
}

func (f *forgetful) Put(context.Context, string, store.Version, []byte) (store.Version, error) {
	return store.Version(fmt.Sprintf("%026d", f.writes.Add(1))), nil
}

func (f *forgetful) Delete(context.Context, string, store.Version) error { return nil }

func (f *forgetful) Traits() store.Traits { return store.Traits{ConflictCarriesState: true} }

// TestMemoryOfALock: what a lock under a session costs while it is held, in memory and goroutines.
func TestMemoryOfALock(t *testing.T) {
	const locks, most = 2000, 330
	session := open(t, client(t, &forgetful{}, nil))
	held := make([]*lease.Guard, locks)
	inUse := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	before, goroutines := inUse(), runtime.NumGoroutine()
	for i := range held {
		held[i] = mustTry(t, session, strconv.Itoa(i))
	}
	if took := (int64(inUse()) - int64(before)) / locks; took > most {
		t.Errorf("each lock takes %d bytes, at most %d are wanted", took, most)
	}
	if more := runtime.NumGoroutine() - goroutines; more > 1 {
		t.Errorf("%d more goroutines", more)
	}
	runtime.KeepAlive(held)
}
