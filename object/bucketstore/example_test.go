package bucketstore_test

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/object/bucketstore"
	"github.com/holdfast-go/holdfast/object/membucket"
)

func ExampleNew() {
	ctx := context.Background()
	b := membucket.New() // any bucket with conditional writes
	s, err := bucketstore.New(b, "app", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := s.Put(ctx, "lock/deploy", "", []byte(`{"holder":"a"}`)); err != nil {
		fmt.Println(err)
		return
	}
	for info, err := range b.List(ctx, "", nil) {
		fmt.Println(info.Key, err)
	}
	// Output: app/lock/deploy.json <nil>
}
