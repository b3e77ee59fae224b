package s3store_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/aws/s3store"
	"github.com/holdfast-go/holdfast/store"
)

// Registers with a client that the program has configured. The client here belongs to a stand-in;
// s3.NewFromConfig makes a real one.
func ExampleNew() {
	ctx := context.Background()
	client := awstest.NewS3("my-bucket").Client()
	b, err := s3bucket.New(client, "my-bucket", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := s3store.New(b, "app", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	v, err := s.Put(ctx, "leader", "", []byte(`{"host":"a"}`))
	fmt.Println(store.OutcomeOf(err))
	_, err = s.Put(ctx, "leader", "", []byte(`{"host":"b"}`))
	fmt.Println(errors.Is(err, store.ErrConflict))
	_, err = s.Put(ctx, "leader", v, []byte(`{"host":"c"}`))
	fmt.Println(store.OutcomeOf(err))
	fmt.Println(s.ObjectKey("leader"))
	// Output:
	// applied
	// true
	// applied
	// app/leader.json
}
