package certstore_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/caddyserver/certmagic"

	"github.com/holdfast-go/holdfast/adapters/certstore"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// All servers of a cluster use the same store, for example a bucket.
func Example() {
	storage, err := certstore.New(&memstore.Store{}, nil)
	if err != nil {
		panic(err)
	}
	certmagic.Default.Storage = storage

	ctx := context.Background()
	_, err = certmagic.Default.Storage.Load(ctx, "certificates/ca/example.com/example.com.crt")
	fmt.Println("no certificate yet:", errors.Is(err, fs.ErrNotExist))
	// Output: no certificate yet: true
}

// Programs can use the locks of certmagic for jobs of their own.
func ExampleStorage_TryLock() {
	storage, err := certstore.New(&memstore.Store{}, nil)
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	for range 2 {
		ok, err := storage.TryLock(ctx, "clean")
		fmt.Println(ok, err)
	}
	fmt.Println(storage.Unlock(ctx, "clean"))
	// Output:
	// true <nil>
	// false <nil>
	// <nil>
}
