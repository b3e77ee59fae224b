package reserve_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/compat/reserve"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// A delete that only one of several programs carries out, on a bucket whose deletes have
// no condition.
func ExampleBucketReserver_Do() {
	ctx := context.Background()
	bucket := membucket.New()
	r, err := reserve.New(reserve.NewStoreTable(new(memstore.Store)), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	info, err := bucket.Put(ctx, "job", strings.NewReader("to do"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		err = r.ForBucket(bucket).Do(ctx, "job", info.Version, func(ctx context.Context) error {
			return bucket.Delete(ctx, "job", nil)
		})
		fmt.Println(store.OutcomeOf(err), errors.Is(err, store.ErrConflict))
	}
	// Output:
	// applied false
	// not applied true
}
