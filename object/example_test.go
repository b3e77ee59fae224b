package object_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/store"
)

// A put that replaces exactly the state that was read.
func ExampleBucket() {
	ctx := context.Background()
	b := membucket.New()
	first, err := b.Put(ctx, "config.json", strings.NewReader("{}"), &object.PutOptions{IfAbsent: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = b.Put(ctx, "config.json", strings.NewReader(`{"a":1}`), &object.PutOptions{IfMatch: first.Version})
	fmt.Println(store.OutcomeOf(err))

	// A writer that still has the first state is refused.
	_, err = b.Put(ctx, "config.json", strings.NewReader(`{"b":2}`), &object.PutOptions{IfMatch: first.Version})
	fmt.Println(store.OutcomeOf(err), errors.Is(err, store.ErrConflict))

	r, err := b.Get(ctx, "config.json", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	body, err := io.ReadAll(r)
	fmt.Println(string(body), err)
	// Output:
	// applied
	// not applied true
	// {"a":1} <nil>
}

func ExampleReadAll() {
	ctx := context.Background()
	b := membucket.New()
	if _, err := b.Put(ctx, "notes.txt", strings.NewReader("remember the milk"), nil); err != nil {
		fmt.Println(err)
		return
	}
	body, info, err := object.ReadAll(ctx, b, "notes.txt", 1<<20, nil)
	fmt.Println(string(body), info.Size, err)
	// Output: remember the milk 17 <nil>
}

func ExampleReadBody() {
	_, _, err := object.ReadBody(context.Background(), membucket.New(), "nothing", 1<<20, nil)
	fmt.Println(errors.Is(err, store.ErrNotFound))
	// Output: true
}

func ExampleCopy() {
	ctx := context.Background()
	b := membucket.New()
	if _, err := b.Put(ctx, "draft", strings.NewReader("text"), nil); err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		_, err := object.Copy(ctx, b, "draft", "published", &object.CopyOptions{IfAbsent: true})
		fmt.Println(store.OutcomeOf(err))
	}
	// Output:
	// applied
	// not applied
}

func ExampleProbe() {
	found, err := object.Probe(context.Background(), membucket.New(), "scratch", object.PutIfAbsent, object.DeleteIfMatch)
	fmt.Println(found[object.PutIfAbsent], found[object.DeleteIfMatch], err)
	// Output: <nil> <nil> <nil>
}

func ExampleAs() {
	_, ok := object.As[object.Copier](membucket.New())
	fmt.Println(ok)
	// Output: true
}

// A large object is read in several ranges at once; a download that was interrupted continues.
func ExampleDownload() {
	ctx := context.Background()
	b := membucket.New()
	if _, err := b.Put(ctx, "large", strings.NewReader(strings.Repeat("x", 1<<20)), nil); err != nil {
		log.Fatal(err)
	}
	f, err := os.CreateTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	info, err := object.Download(ctx, b, "large", f, nil)
	var cut *object.TruncatedError
	if errors.As(err, &cut) {
		info, err = object.Download(ctx, b, "large", f, &object.DownloadOptions{Offset: cut.Done, IfMatch: cut.Info.Version})
	}
	fmt.Println(info.Size, err)
	// Output: 1048576 <nil>
}

// What programs left behind that crashed in the middle of a large upload costs money until
// it is removed.
func ExampleSweepUploads() {
	b := membucket.New() // on S3, a bucket of package s3bucket
	swept, err := object.SweepUploads(context.Background(), b, "backups/", &object.SweepOptions{
		MinAge: 48 * time.Hour,
		DryRun: true,
		Report: func(u object.Upload, err error) { fmt.Println(u.Key, u.Started, err) },
	})
	fmt.Println(swept.Removed, err)
	// Output: 0 <nil>
}
