package object_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// Two writers append after the same entry. One of them is refused, reads what it has
// missed, and tries again.
func ExampleLog() {
	ctx := context.Background()
	client := memory()
	commit := func(writer string, last uint64) uint64 {
		l, err := object.OpenLog(client, "table/log", nil)
		if err != nil {
			fmt.Println(err)
			return last
		}
		for {
			e, err := l.Append(ctx, last, []byte("by "+writer))
			if err == nil {
				return e.Number
			}
			fmt.Println(writer+":", store.OutcomeOf(err))
			if !errors.Is(err, store.ErrConflict) {
				return last
			}
			for e, err := range l.Read(ctx, last+1) {
				if err != nil {
					fmt.Println(err)
					return last
				}
				fmt.Printf("%s reads entry %d: %s\n", writer, e.Number, e.Body)
				last = e.Number
			}
		}
	}
	fmt.Println(commit("alice", 0))
	fmt.Println(commit("bob", 0))
	// Output:
	// 1
	// bob: not applied
	// bob reads entry 1: by alice
	// 2
}

func ExampleOpenLog() {
	l, err := object.OpenLog(memory(), "orders/log", &object.LogOptions{ContentType: "application/json"})
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err := l.Append(context.Background(), 0, []byte(`{"add":["part-1.parquet"]}`))
	fmt.Println(e.Number, err)
	// Output: 1 <nil>
}

// three returns a log of three entries.
func three() *object.Log {
	l, err := object.OpenLog(memory(), "log", nil)
	for n := range uint64(3) {
		if err == nil {
			_, err = l.Append(context.Background(), n, fmt.Appendf(nil, "body %d", n+1))
		}
	}
	if err != nil {
		panic(err)
	}
	return l
}

func ExampleLog_Append() {
	ctx := context.Background()
	l := three()
	e, err := l.Append(ctx, 3, []byte("body 4"))
	fmt.Println(e.Number, err)
	_, err = l.Append(ctx, 3, []byte("another"))
	fmt.Println(store.OutcomeOf(err), errors.Is(err, store.ErrConflict))
	// Output:
	// 4 <nil>
	// not applied true
}

// A writer that has read two of three entries takes the third one into account, and commits.
func ExampleLog_Commit() {
	entries := 2
	apply := func(e object.LogEntry) error {
		fmt.Printf("reads entry %d: %s\n", e.Number, e.Body)
		entries++
		return nil
	}
	e, err := three().Commit(context.Background(), 2, apply, func() ([]byte, error) {
		return fmt.Appendf(nil, "body %d", entries+1), nil
	})
	fmt.Println(e.Number, string(e.Body), err)
	// Output:
	// reads entry 3: body 3
	// 4 body 4 <nil>
}

func ExampleLog_Read() {
	for e, err := range three().Read(context.Background(), 2) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(e.Number, string(e.Body))
	}
	// Output:
	// 2 body 2
	// 3 body 3
}

func ExampleLog_Latest() {
	e, err := three().Latest(context.Background())
	fmt.Println(e.Number, err)
	// Output: 3 <nil>
}

func ExampleLog_Trim() {
	ctx := context.Background()
	l := three()
	if err := l.Trim(ctx, 3); err != nil {
		fmt.Println(err)
		return
	}
	for _, err := range l.Read(ctx, 1) {
		var cleaned *object.TrimmedError
		if errors.As(err, &cleaned) {
			fmt.Println("the log begins at", cleaned.First)
		}
	}
	// Output: the log begins at 3
}

func ExampleLog_Sweep() {
	fmt.Println(three().Sweep(context.Background()))
	// Output: <nil>
}
