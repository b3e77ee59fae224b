package object_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

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

	// Somebody who still has the first state is refused.
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
