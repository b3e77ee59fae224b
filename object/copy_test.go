package object_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// changingSource changes the source of each copy just before it is copied.
type changingSource struct {
	object.Bucket
	change func()
}

func (b changingSource) Copy(ctx context.Context, source, destination string, opts *object.CopyOptions) (object.Info, error) {
	b.change()
	return object.Copy(ctx, b.Bucket, source, destination, opts)
}

func (b changingSource) Traits() object.Traits { return object.TraitsOf(b.Bucket) }

// TestCopyOfAChangedSource: a source that changes meanwhile is a conflict that names the
// source, at once, whatever the condition on the destination.
func TestCopyOfAChangedSource(t *testing.T) { synctest.Test(t, copyOfAChangedSource) }

func copyOfAChangedSource(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for kind, open := range buckets() {
		for _, there := range []bool{false, true} {
			for _, o := range []object.WriteOptions{{}, {IfAbsent: true}} {
				below := open()
				other := newClient(t, below, nil)
				changes := 0
				change := func() {
					changes++
					if _, err := other.Put(ctx, "source", body(fmt.Sprint(changes)), nil); err != nil {
						t.Error(err)
					}
				}
				change()
				want, names := "absent", "source"
				if there {
					want = "1"
					if _, err := other.Copy(ctx, "source", "a", nil); err != nil {
						t.Fatal(err)
					}
					if o.IfAbsent {
						names = "a"
					}
				}
				c := newClient(t, changingSource{below, change}, nil)
				_, copyErr := c.Copy(ctx, "source", "a", &o)
				_, renameErr := c.Rename(ctx, "source", "a", &o)
				for _, err := range []error{copyErr, renameErr} {
					var conflict *object.ConflictError
					if !errors.As(err, &conflict) || conflict.Key != names || store.OutcomeOf(err) != store.NotApplied {
						t.Errorf("%s, there %v, if absent %v: got %v", kind, there, o.IfAbsent, err)
					}
				}
				if changes != 3 || content(t, other, "a") != want || content(t, other, "source") != "3" {
					t.Errorf("%s, there %v, if absent %v: %d changes, %s and %s", kind, there, o.IfAbsent, changes, content(t, other, "source"), content(t, other, "a"))
				}
			}
		}
	}
}
