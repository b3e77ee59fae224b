package store_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
	"github.com/holdfast-go/holdfast/store/memstore"
)

func Example() {
	ctx := context.Background()
	s := memstore.New()

	v, _ := s.Put(ctx, "config", "", []byte("blue")) // must not exist
	_, err := s.Put(ctx, "config", "", []byte("red"))
	fmt.Println(errors.Is(err, store.ErrConflict), store.OutcomeOf(err))

	_, err = s.Put(ctx, "config", v, []byte("green")) // no other writer was faster
	value, _, _ := s.Get(ctx, "config")
	fmt.Println(string(value), err)
	// Output:
	// true not applied
	// green <nil>
}

// Several programs raise one counter; no increment is lost.
func ExampleUpdate() {
	ctx := context.Background()
	s := memstore.New()
	for range 3 {
		entry, err := store.Update(ctx, s, "visits", func(value []byte) ([]byte, error) {
			n, _ := strconv.Atoi(string(value)) // absent counts as zero
			return []byte(strconv.Itoa(n + 1)), nil
		})
		fmt.Println(string(entry.Value), err)
	}
	// Output:
	// 1 <nil>
	// 2 <nil>
	// 3 <nil>
}

// The loser of a race often learns the state from the conflict, without a read.
func ExampleConflictError() {
	ctx := context.Background()
	s := memstore.New()
	_, _ = s.Put(ctx, "job", "", []byte("taken by A"))

	_, err := s.Put(ctx, "job", "", []byte("taken by B"))
	var conflict *store.ConflictError
	if errors.As(err, &conflict) && conflict.HasCurrent {
		fmt.Println(string(conflict.Value))
	}
	// Output:
	// taken by A
}

func ExampleOutcomeOf() {
	fmt.Println(store.OutcomeOf(nil))
	fmt.Println(store.OutcomeOf(store.ErrConflict))
	fmt.Println(store.OutcomeOf(context.DeadlineExceeded))
	// Output:
	// applied
	// not applied
	// outcome unknown
}

// An ability is found through any number of decorators.
func ExampleAs() {
	s, _ := store.Prefix(memstore.New(), "team-a")
	_, ok := store.As[store.Watcher](s)
	fmt.Println("reports changes:", ok)
	// Output:
	// reports changes: true
}

func ExamplePrefix() {
	ctx := context.Background()
	whole := memstore.New()
	s, _ := store.Prefix(whole, "team-a")
	_, _ = s.Put(ctx, "job", "", []byte("x"))

	for key := range store.List(ctx, whole, "") {
		fmt.Println(key)
	}
	for key := range store.List(ctx, s, "") {
		fmt.Println(key)
	}
	// Output:
	// team-a/job
	// job
}

// A decorator that logs what fails, and has every ability of the store below it.
func ExampleIntercept() {
	s := store.Intercept(memstore.New(), func(ctx context.Context, op *store.Op, next store.Handler) error {
		err := next(ctx, op)
		if err != nil {
			slog.DebugContext(ctx, "store", "op", op.Kind, "key", op.Key, "error", err)
		}
		return err
	})
	_, _, err := s.Get(context.Background(), "job")
	fmt.Println(err)
	// Output:
	// get job in memory: not found
}

func ExampleWatch() {
	ctx := context.Background()
	s := memstore.New()
	v, _ := s.Put(ctx, "phase", "", []byte("1"))
	go func() {
		v, _ := s.Put(ctx, "phase", v, []byte("2"))
		_ = s.Delete(ctx, "phase", v)
	}()
	for entry, err := range store.Watch(ctx, s, "phase", 0) {
		if err == nil && entry.Version == "" {
			fmt.Println("deleted")
			break
		}
	}
	// Output:
	// deleted
}

func ExampleList() {
	ctx := context.Background()
	s := memstore.New()
	for _, key := range []string{"job", "job/a", "job/b", "job-2"} {
		_, _ = s.Put(ctx, key, "", nil)
	}
	for key, err := range store.List(ctx, s, "job") {
		fmt.Println(key, err)
	}
	// Output:
	// job/a <nil>
	// job/b <nil>
}

// This writer resolves its in-doubt writes itself, since it writes another value in each
// try and limits the tries. Most programs call PutAndResolve.
func ExampleResolve() {
	ctx := context.Background()
	s := faultstore.New(memstore.New(), faultstore.MustParse("put job #1 lose"))

	var prev store.Version       // the state to write against: absent
	var attempts []store.Version // all writes on prev whose outcome is unknown
	for try := 1; try <= 5; try++ {
		v, err := s.Put(ctx, "job", prev, fmt.Appendf(nil, "try %d", try))
		if err == nil {
			fmt.Println("written:", v != "")
			return
		}
		if store.OutcomeOf(err) == store.Unknown {
			attempts = append(attempts, store.AttemptedVersion(err))
		}
		// Resolve after a conflict too: the current value may come from an earlier try.
		found, err := store.Resolve(ctx, s, "job", prev, attempts...)
		switch {
		case err != nil:
			fmt.Println("the store cannot be read now; resolve again later:", err)
		case found.Resolution == store.ResolutionApplied:
			fmt.Printf("%s was applied; the next write names its version: %v\n", found.Current.Value, found.Current.Version != "")
			return
		case found.Resolution == store.ResolutionSuperseded:
			fmt.Printf("it was applied, and now there is %s\n", found.Current.Value)
			return
		case found.Resolution == store.ResolutionNotApplied:
			fmt.Printf("another writer was faster: %s\n", found.Current.Value)
			return
		case found.Resolution == store.ResolutionPending:
			continue // nothing has changed: send the same change again, on the same state
		default:
			fmt.Println("the store cannot find out whether the write was applied")
			return
		}
	}
	// Output: try 1 was applied; the next write names its version: true
}
