package object_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/store"
)

// TestTrace: Trace sees each call that writes, with its error, also if a function of the caller panics.
func TestTrace(t *testing.T) {
	var calls []string
	c, err := object.New(membucket.New(), &object.Options{Trace: func(ctx context.Context, op store.Kind, key string) (context.Context, func(error)) {
		return ctx, func(err error) { calls = append(calls, fmt.Sprintf("%s %s %v", op, key, err == nil)) }
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	put := func(key string) {
		_, _ = c.Put(ctx, key, strings.NewReader("x"), &object.WriteOptions{IfAbsent: true})
	}
	put("a")
	put("a")
	_, _ = c.Copy(ctx, "a", "b", nil)
	_, _ = c.Copy(ctx, "none", "b", nil)
	_, _ = c.Rename(ctx, "b", "c", nil)
	_ = c.Delete(ctx, "c", nil)
	func() {
		defer func() { _ = recover() }()
		_, _ = c.Update(ctx, "a", func([]byte, object.Info) ([]byte, error) { panic("change") }, nil)
	}()
	log, err := object.OpenLog(c, "log", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = log.Append(ctx, 0, nil)
	_ = log.Trim(ctx, 1)
	_ = log.Sweep(ctx)
	want := []string{"put a true", "put a false", "copy b true", "copy b false", "rename b true", "delete c true", "update a false", "append log true", "trim log true", "sweep log true"}
	if !slices.Equal(calls, want) {
		t.Errorf("got %q, want %q", calls, want)
	}
}
