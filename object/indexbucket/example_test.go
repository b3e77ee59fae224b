package indexbucket_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/bucketstore"
	"github.com/holdfast-go/holdfast/object/indexbucket"
	"github.com/holdfast-go/holdfast/object/membucket"
)

// The index and the bodies lie in the same bucket, whose versions can return.
func ExampleNew() {
	ctx := context.Background()
	below := &membucket.Bucket{Hashed: true} // on S3: a bucket of package s3bucket
	index, err := bucketstore.New(below, "table/index", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := indexbucket.New(index, below, &indexbucket.Options{Prefix: "table/body/"})
	if err != nil {
		fmt.Println(err)
		return
	}
	first, err := b.Put(ctx, "manifest", strings.NewReader("same"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	second, err := b.Put(ctx, "manifest", strings.NewReader("same"), &object.PutOptions{IfMatch: first.Version})
	fmt.Println(first.Version == second.Version, err)

	removed, err := b.Sweep(ctx)
	fmt.Println(removed, err)
	// Output:
	// false <nil>
	// 0 <nil>
}
