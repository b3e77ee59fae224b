package reservation_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/compat/reservation"
	"github.com/holdfast-go/holdfast/compat/reserve"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// A client whose writes exclude those of programs with object_store. The clients of the SDK
// belong to stand-ins here; s3.NewFromConfig and dynamodb.NewFromConfig make real ones.
func Example() {
	ctx := context.Background()
	s3, dynamo := awstest.NewS3("data"), awstest.NewDynamoDB()
	setting, err := reservation.ParseConfig("dynamo:locks:10000") // as object_store has it
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := reservation.CreateTable(ctx, dynamo.Client(), setting.Table, nil); err != nil {
		fmt.Println(err)
		return
	}
	table, err1 := reservation.New(dynamo.Client(), setting.Table, nil)
	r, err2 := reserve.New(table, &reserve.Options{Timeout: setting.Timeout})
	bucket, err3 := s3bucket.New(s3.Client(), "data", nil)
	if err := errors.Join(err1, err2, err3); err != nil {
		fmt.Println(err)
		return
	}
	client, err := object.New(bucket, &object.Options{Reserver: r})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, body := range []string{"first", "second"} {
		_, err = client.Put(ctx, "manifest", strings.NewReader(body), &object.WriteOptions{IfAbsent: true})
		fmt.Println(store.OutcomeOf(err), errors.Is(err, store.ErrConflict))
	}
	fmt.Println(r.Options().Timeout == 10*time.Second)
	// Output:
	// applied false
	// not applied true
	// true
}
