package s3verstore_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/compat/s3verstore"
	"github.com/holdfast-go/holdfast/lease"
)

// locks returns leases in a bucket with versions, with a pause that is short enough
// for an example. Programs give a client of the SDK in place of the bucket's, or use
// [s3verstore.Open] with a URL.
func locks(b *awstest.S3, o *lease.Options) *lease.Client {
	bucket, err := s3bucket.New(b.Client(), "bucket", nil)
	if err != nil {
		panic(err)
	}
	st, err := s3verstore.New(bucket, "prod", &s3verstore.Options{PutLifetime: 100 * time.Millisecond})
	if err != nil {
		panic(err)
	}
	c, err := lease.New(st, o)
	if err != nil {
		panic(err)
	}
	return c
}

// A lock is taken, and released when the work is done.
func Example() {
	ctx := context.Background()
	client := locks(newBucket(), nil)
	defer client.Close(ctx) // releases what is still held

	guard, err := client.Acquire(ctx, "nightly", nil) // waits
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("held:", guard.Err() == nil)
	fmt.Println(guard.Release(ctx))
	// Output:
	// held: true
	// <nil>
}

// To wait no longer than a time, give the context that time. To not wait at all, use
// TryAcquire.
func Example_timeout() {
	ctx := context.Background()
	b := newBucket()
	guard, err := locks(b, &lease.Options{Holder: "ada"}).Acquire(ctx, "nightly", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer guard.Release(ctx)

	other := locks(b, nil)
	_, err = other.TryAcquire(ctx, "nightly", nil)
	var held *lease.HeldError
	if errors.As(err, &held) {
		fmt.Println("held by", held.Record.Holder)
	}
	patience, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	_, err = other.Acquire(patience, "nightly", nil)
	fmt.Println(errors.Is(err, context.DeadlineExceeded), errors.Is(err, lease.ErrHeld))
	// Output:
	// held by ada
	// true true
}

// A holder can take its lock again through the same handle. It is free when all
// the guards were released; releasing one of them twice counts once.
func Example_reentrant() {
	ctx := context.Background()
	b := newBucket()
	h, err := locks(b, nil).Handle("nightly", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	outer, err := h.Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	inner, err := h.Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("one grant:", outer.Token() == inner.Token())
	fmt.Println(inner.Release(ctx), inner.Release(ctx))
	fmt.Println("still held:", outer.Err() == nil)
	fmt.Println(outer.Release(ctx))
	_, err = locks(b, nil).TryAcquire(ctx, "nightly", nil)
	fmt.Println("free:", err == nil)
	// Output:
	// one grant: true
	// <nil> <nil>
	// still held: true
	// <nil>
	// free: true
}

// A deferred release also runs when the work panics. It frees the lock only if it is
// still ours; a process that dies without it leaves a lock that is over a TTL later.
func Example_panic() {
	ctx := context.Background()
	b := newBucket()
	client := locks(b, &lease.Options{TTL: 10 * time.Second}) // each lock has the TTL of its client
	func() {
		defer func() { fmt.Println("recovered:", recover()) }()
		guard, err := client.Acquire(ctx, "nightly", nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer guard.Release(ctx)
		panic("the work went wrong")
	}()
	_, err := locks(b, nil).TryAcquire(ctx, "nightly", nil)
	fmt.Println("free:", err == nil)
	// Output:
	// recovered: the work went wrong
	// free: true
}
