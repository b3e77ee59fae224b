package object_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/store"
)

// memory returns a client of an empty bucket in memory.
func memory() *object.Client {
	c, err := object.New(membucket.New(), nil)
	if err != nil {
		panic(err)
	}
	return c
}

// Two writers replace the same state; one of them wins.
func Example() {
	ctx := context.Background()
	c := memory()
	base, err := c.Put(ctx, "config.json", strings.NewReader("{}"), &object.WriteOptions{IfAbsent: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, writer := range []string{"alice", "bob"} {
		_, err := c.Put(ctx, "config.json", strings.NewReader(`{"by":"`+writer+`"}`), &object.WriteOptions{Base: &base})
		switch {
		case err == nil:
			fmt.Println(writer, "has committed")
		case errors.Is(err, store.ErrConflict):
			fmt.Println(writer, "was slower: nothing was written")
		case store.OutcomeOf(err) == store.Unknown:
			fmt.Println(writer, "does not know")
		}
	}
	// Output:
	// alice has committed
	// bob was slower: nothing was written
}

func ExampleNew() {
	c, err := object.New(membucket.New(), &object.Options{DistinctBodies: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	info, err := c.Put(context.Background(), "greeting", strings.NewReader("hello"), nil)
	fmt.Println(info.Size, err)
	// Output: 5 <nil>
}

func ExampleClient_Put() {
	ctx := context.Background()
	c := memory()
	for range 2 {
		_, err := c.Put(ctx, "first", strings.NewReader("mine"), &object.WriteOptions{IfAbsent: true})
		fmt.Println(store.OutcomeOf(err), errors.Is(err, store.ErrConflict))
	}
	// Output:
	// applied false
	// not applied true
}

func ExampleClient_Get() {
	ctx := context.Background()
	c := memory()
	if _, err := c.Put(ctx, "notes.txt", strings.NewReader("remember the milk"), nil); err != nil {
		fmt.Println(err)
		return
	}
	r, err := c.Get(ctx, "notes.txt", &object.GetOptions{Offset: 9})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	rest, err := io.ReadAll(r)
	fmt.Println(string(rest), r.Info.Size, err)
	// Output: the milk 17 <nil>
}

func ExampleClient_ReadAll() {
	ctx := context.Background()
	c := memory()
	if _, err := c.Put(ctx, "notes.txt", strings.NewReader("remember the milk"), nil); err != nil {
		fmt.Println(err)
		return
	}
	body, base, err := c.ReadAll(ctx, "notes.txt", 1<<20, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = c.Put(ctx, "notes.txt", strings.NewReader(string(body)+" and the bread"), &object.WriteOptions{Base: &base})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleClient_Stat() {
	_, err := memory().Stat(context.Background(), "nothing")
	fmt.Println(errors.Is(err, store.ErrNotFound))
	// Output: true
}

func ExampleClient_List() {
	ctx := context.Background()
	c := memory()
	for _, key := range []string{"a/1", "a/2", "b/1"} {
		if _, err := c.Put(ctx, key, strings.NewReader("x"), nil); err != nil {
			fmt.Println(err)
			return
		}
	}
	for info, err := range c.List(ctx, "a/", nil) {
		fmt.Println(info.Key, err)
	}
	// Output:
	// a/1 <nil>
	// a/2 <nil>
}

func ExampleClient_Copy() {
	ctx := context.Background()
	c := memory()
	if _, err := c.Put(ctx, "draft", strings.NewReader("text"), nil); err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		_, err := c.Copy(ctx, "draft", "published", &object.WriteOptions{IfAbsent: true})
		fmt.Println(store.OutcomeOf(err))
	}
	// Output:
	// applied
	// not applied
}

func ExampleClient_Rename() {
	ctx := context.Background()
	c := memory()
	if _, err := c.Put(ctx, "upload.tmp", strings.NewReader("data"), nil); err != nil {
		fmt.Println(err)
		return
	}
	// The second run finds that the first has done everything.
	for range 2 {
		done, err := c.Rename(ctx, "upload.tmp", "data.bin", &object.WriteOptions{IfAbsent: true})
		fmt.Println(done.Info.Key, done.Resumed, err)
	}
	// Output:
	// data.bin false <nil>
	// data.bin true <nil>
}

func ExampleClient_Delete() {
	ctx := context.Background()
	c := memory()
	old, err := c.Put(ctx, "task", strings.NewReader("1"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		fmt.Println(store.OutcomeOf(c.Delete(ctx, "task", &object.WriteOptions{Base: &old})))
	}
	// Output:
	// applied
	// not applied
}

func ExampleClient_Update() {
	ctx := context.Background()
	c := memory()
	for range 3 {
		_, err := c.Update(ctx, "counter", func(body []byte, _ object.Info) ([]byte, error) {
			n := 0
			if body != nil { // nil: there is no object yet
				var err error
				if n, err = strconv.Atoi(string(body)); err != nil {
					return nil, err
				}
			}
			return strconv.AppendInt(nil, int64(n+1), 10), nil
		}, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	body, _, err := c.ReadAll(ctx, "counter", 100, nil)
	fmt.Println(string(body), err)
	// Output: 3 <nil>
}

// A holder whose lock was taken over is refused.
func ExampleClient_RaiseFence() {
	ctx := context.Background()
	c := memory()
	first := object.Fence{Lock: "compactor", Token: 1}
	state, err := c.Put(ctx, "manifest", strings.NewReader("one"), &object.WriteOptions{Fence: &first})
	if err != nil {
		fmt.Println(err)
		return
	}

	// Another holder gets the lock, with a higher token, and raises the fence before it reads.
	second := object.Fence{Lock: "compactor", Token: 2}
	if _, err := c.RaiseFence(ctx, "manifest", second); err != nil {
		fmt.Println(err)
		return
	}

	// The first one wakes up, and knows of nothing.
	_, err = c.Put(ctx, "manifest", strings.NewReader("late"), &object.WriteOptions{Base: &state, Fence: &first})
	fmt.Println(store.OutcomeOf(err), errors.Is(err, store.ErrConflict))
	_, err = c.Put(ctx, "manifest", strings.NewReader("late"), &object.WriteOptions{Fence: &first})
	fmt.Println(store.OutcomeOf(err), errors.Is(err, object.ErrFenced))
	// Output:
	// not applied true
	// not applied true
}

func ExampleClient_Resolve() {
	ctx := context.Background()
	c := memory()
	info, err := c.Put(ctx, "a", strings.NewReader("1"), &object.WriteOptions{IfAbsent: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	// After an unknown outcome, the id would be store.AttemptedVersion(err).
	resolution, _, err := c.Resolve(ctx, "a", nil, store.Version(info.WriteInfo.ID))
	fmt.Println(resolution, err)
	// Output: applied <nil>
}

func ExampleClient_Strategies() {
	steps, err := memory().Strategies(context.Background())
	for _, s := range steps {
		fmt.Println(s.Ability, s.Strategy)
	}
	fmt.Println(err)
	// Output:
	// put-if-absent native
	// put-if-match native
	// delete-if-match native
	// copy-if-absent native
	// copy-if-match native
	// <nil>
}

func ExampleClient_Bucket() {
	fmt.Println(object.TraitsOf(memory().Bucket()).Name)
	// Output: memory
}

// Where the store keeps the parts of an upload that was cut, Resume sends the rest.
func ExampleClient_Resume() {
	ctx := context.Background()
	c := memory()
	var kept *object.Upload
	_, err := c.Put(ctx, "large", strings.NewReader("data"), &object.WriteOptions{OnUpload: func(u object.Upload) { kept = &u }})
	if err != nil && kept != nil {
		_, err = c.Resume(ctx, *kept, strings.NewReader("data"), nil)
	}
	fmt.Println(err)
	// Output: <nil>
}
