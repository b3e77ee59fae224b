package faultstore_test

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// The reply to the first write is lost. A read shows that the write was applied.
func Example() {
	ctx := context.Background()
	s := faultstore.New(memstore.New(), faultstore.MustParse("put job #1 lose"))
	defer s.Close()

	_, err := s.Put(ctx, "job", "", []byte("mine, nonce 5f2a"))
	fmt.Println(store.OutcomeOf(err))
	value, _, err := s.Get(ctx, "job")
	fmt.Println(string(value), err)
	// Output:
	// outcome unknown
	// mine, nonce 5f2a <nil>
}

// Injected returns the faults of a run under a seed, in a form that can be replayed.
func ExampleStore_Injected() {
	ctx := context.Background()
	s := faultstore.New(memstore.New(), faultstore.MustParse("write * %0.3 lose; seed 4"))
	defer s.Close()

	for i := range 5 {
		_, _ = s.Put(ctx, fmt.Sprint("job-", i), "", []byte("x"))
	}
	fmt.Println(s.Injected())
	// Output:
	// put job-1 #1 lose; put job-3 #1 lose; put job-4 #1 lose
}
