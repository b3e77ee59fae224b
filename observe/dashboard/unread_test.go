package dashboard_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/observe/dashboard"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// slowList is a store whose listings take long, as those of a bucket with very many keys do.
type slowList struct {
	store.Store
	takes time.Duration
}

func (s slowList) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		select {
		case <-ctx.Done():
			yield("", store.Cause(ctx))
		case <-time.After(s.takes):
			store.List(ctx, s.Store, prefix)(yield)
		}
	}
}

// hold takes locks in the store.
func hold(t *testing.T, st store.Store, names ...string) {
	t.Helper()
	c, err := lease.New(st, &lease.Options{Holder: "the holder"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	for _, name := range names {
		if _, err := c.Acquire(t.Context(), name, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUnreadIsNotFree: the page of a held lock does not say that the lock was never held, while the page waits for
// a listing.
func TestUnreadIsNotFree(t *testing.T) {
	st := memstore.New()
	hold(t, st, "job")
	at := serve(t, slowList{st, 20 * time.Second}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	events(ctx, t, at+"/events?kind=locks") // this page needs the listing
	time.Sleep(200 * time.Millisecond)
	_, _, body := get(t, at+"/lock?name=job")
	if event := <-events(ctx, t, at+"/events?kind=lock&name=job"); strings.Contains(body+event.Set["body"], "No holder has ever") {
		t.Error("the page of a held lock says that no holder has ever taken it")
	}
}

// TestManyPagesOfLocks: if more pages are open than the reader reads at a time, it reads all of them in turn.
func TestManyPagesOfLocks(t *testing.T) {
	st := memstore.New()
	hold(t, st, "zzz")
	at := serve(t, st, &dashboard.Options{Interval: 50 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for i := range 50 {
		<-events(ctx, t, fmt.Sprintf("%s/events?kind=lock&name=a%02d", at, i))
	}
	for event := range events(ctx, t, at+"/events?kind=lock&name=zzz") {
		if strings.Contains(event.Set["body"], "the holder") {
			return
		}
	}
	t.Error("the page of the last lock never shows its holder")
}

// TestNamesWithOneHash: two locks have two rows, although the 64 bits of FNV-1a of their names are equal.
func TestNamesWithOneHash(t *testing.T) {
	st := memstore.New()
	names := []string{"8yn0iYCKYHlIj4-BwPqk", "GReLUrM4wMqfg9yzV3KQ"}
	hold(t, st, names...)
	at := serve(t, st, nil)
	await(t, at+"/", names...)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if event := <-events(ctx, t, at+"/events?kind=locks"); len(event.Rows) != 2 {
		t.Errorf("there are %d rows, want 2", len(event.Rows))
	}
}
