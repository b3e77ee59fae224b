package avisofile_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/compat/avisofile"
	"github.com/holdfast-go/holdfast/store"
)

// exampleKey is a resume key: the name of a stream of events.
const exampleKey = "46fe3e30937478ae30527c74cb2f03a5e5419228a11051cdaccefe7d044b21c3"

// check is for examples: programs handle their errors.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// examplePath returns the path of a state file in a directory that done removes.
func examplePath() (path string, done func()) {
	dir, err := os.MkdirTemp("", "example")
	check(err)
	return filepath.Join(dir, "state.json"), func() { check(os.RemoveAll(dir)) }
}

// exampleStore opens a state file in a directory that done removes.
func exampleStore() (s *avisofile.Store, done func()) {
	path, remove := examplePath()
	s, err := avisofile.Open(path, nil)
	check(err)
	return s, func() {
		check(s.Close(context.Background()))
		remove()
	}
}

func ExampleOpen() {
	path, done := examplePath()
	defer done()
	ctx := context.Background()

	s, err := avisofile.Open(path, nil)
	check(err)
	_, err = s.Advance(ctx, exampleKey, checkpoint.Position{Sequence: 17, EventID: "mars@17"}, nil)
	check(err)
	check(s.Close(ctx))

	content, err := os.ReadFile(path)
	check(err)
	fmt.Println(string(content))
	// Output:
	// {
	//   "version": 1,
	//   "key_format_version": 1,
	//   "checkpoints": {
	//     "46fe3e30937478ae30527c74cb2f03a5e5419228a11051cdaccefe7d044b21c3": {
	//       "last_committed_sequence": 17,
	//       "last_event_id": "mars@17"
	//     }
	//   }
	// }
}

// A file that was cut off is left alone. The error says what can be done, and
// Restore does it.
func ExampleRestore() {
	path, done := examplePath()
	defer done()
	ctx := context.Background()
	s, err := avisofile.Open(path, nil)
	check(err)
	defer s.Close(ctx)
	for seq := range uint64(3) {
		_, err := s.Advance(ctx, exampleKey, checkpoint.Position{Sequence: seq}, nil)
		check(err)
	}
	check(os.Truncate(path, 100))

	_, err = s.Get(ctx, exampleKey, nil)
	var load *avisofile.LoadError
	if errors.As(err, &load) {
		fmt.Println(load.Err, "-", load.Detail)
	}
	restored, err := avisofile.Restore(ctx, path, nil)
	check(err)
	fmt.Println("keys restored:", restored.Backup.Keys)
	c, err := s.Get(ctx, exampleKey, nil)
	fmt.Println("continuing from", c.Sequence, err)
	// Output:
	// malformed state file - the file ends too early, after 100 bytes
	// keys restored: 1
	// continuing from 1 <nil>
}

func ExampleStore_Advance() {
	s, done := exampleStore()
	defer done()
	for _, seq := range []uint64{17, 17, 16, 18} {
		r, err := s.Advance(context.Background(), exampleKey, checkpoint.Position{Sequence: seq}, nil)
		check(err)
		fmt.Println(seq, r.Status, r.Current.Sequence)
	}
	// Output:
	// 17 advanced 17
	// 17 unchanged 17
	// 16 behind 17
	// 18 advanced 18
}

func ExampleStore_Get() {
	s, done := exampleStore()
	defer done()
	c, err := s.Get(context.Background(), exampleKey, nil)
	if errors.Is(err, store.ErrNotFound) {
		fmt.Println("nothing is saved: begin at", c.Sequence)
	}
	// Output:
	// nothing is saved: begin at 0
}

// A worker that has taken over announces its token. The one before it, which may be
// alive still, can save nothing more.
func ExampleStore_Fence() {
	s, done := exampleStore()
	defer done()
	ctx := context.Background()
	first := &checkpoint.AdvanceOptions{Token: 1}
	_, err := s.Advance(ctx, exampleKey, checkpoint.Position{Sequence: 17}, first)
	check(err)
	c, err := s.Fence(ctx, exampleKey, 2)
	check(err)
	fmt.Println("the second continues from", c.Sequence)
	_, err = s.Advance(ctx, exampleKey, checkpoint.Position{Sequence: 18}, first)
	fmt.Println("the first is fenced off:", errors.Is(err, checkpoint.ErrFenced))
	// Output:
	// the second continues from 17
	// the first is fenced off: true
}

func ExampleStore_Reset() {
	s, done := exampleStore()
	defer done()
	ctx := context.Background()
	_, err := s.Advance(ctx, exampleKey, checkpoint.Position{Sequence: 100}, nil)
	check(err)
	expected := uint64(100)
	c, err := s.Reset(ctx, exampleKey, checkpoint.Position{Sequence: 10}, &checkpoint.ChangeOptions{ExpectedSequence: &expected})
	check(err)
	fmt.Println("sequence", c.Sequence, "epoch", c.Epoch)

	// Work that began before the reset does not undo it.
	r, err := s.Advance(ctx, exampleKey, checkpoint.Position{Sequence: 101}, &checkpoint.AdvanceOptions{Epoch: 1})
	fmt.Println(r.Status, errors.Is(err, checkpoint.ErrRolledBack))
	// Output:
	// sequence 10 epoch 2
	// rolled back true
}

func ExampleStore_Delete() {
	s, done := exampleStore()
	defer done()
	ctx := context.Background()
	_, err := s.Advance(ctx, exampleKey, checkpoint.Position{Sequence: 17}, nil)
	check(err)
	_, err = s.Delete(ctx, exampleKey, nil)
	check(err)
	_, err = s.Get(ctx, exampleKey, nil)
	fmt.Println(errors.Is(err, store.ErrNotFound))
	// Output:
	// true
}

func ExampleStore_List() {
	s, done := exampleStore()
	defer done()
	ctx := context.Background()
	_, err := s.Advance(ctx, exampleKey, checkpoint.Position{Sequence: 17}, nil)
	check(err)
	for c, err := range s.List(ctx, "") {
		check(err)
		fmt.Println(c.Key[:8], c.Sequence)
	}
	// Output:
	// 46fe3e30 17
}

func ExampleStore_Watch() {
	s, done := exampleStore()
	defer done()
	ctx := context.Background()
	for c, err := range s.Watch(ctx, exampleKey) {
		check(err)
		fmt.Println(c.Exists, c.Sequence)
		if c.Exists {
			break
		}
		// From here, or from any other process.
		_, err := s.Advance(ctx, exampleKey, checkpoint.Position{Sequence: 17}, nil)
		check(err)
	}
	// Output:
	// false 0
	// true 17
}
