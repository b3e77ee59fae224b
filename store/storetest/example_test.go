package storetest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// A history records real work, and checks it at the end.
func ExampleHistory() {
	ctx := context.Background()
	var h storetest.History
	s := h.Record(memstore.New())
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			_, _ = s.Put(ctx, "leader", "", fmt.Append(nil, i))
			_, _, _ = s.Get(ctx, "leader")
		})
	}
	wg.Wait()
	fmt.Println(h.Len(), h.Check())
	// Output:
	// 8 <nil>
}

// A test checks the cost of a protocol.
func ExampleCounter() {
	ctx := context.Background()
	c := storetest.NewCounter(memstore.New())
	_, err := c.Put(ctx, "job", "", []byte("A"))
	fmt.Println(err)
	_, err = c.Put(ctx, "job", "", []byte("B"))
	var conflict *store.ConflictError
	fmt.Println(errors.As(err, &conflict), c.Calls())
	// Output:
	// <nil>
	// true 2
}
