package object_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/store"
)

// failingSeeker is a body that can be read again, and fails with an error of another call.
type failingSeeker struct {
	io.ReadSeeker
	err   error
	reads *int
}

func (s failingSeeker) Read(p []byte) (int, error) { *s.reads++; return 0, s.err }

// TestErrorOfTheBody: Put returns an error of the body, and takes it for no answer of the store, whatever it matches.
func TestErrorOfTheBody(t *testing.T) {
	for name, cause := range map[string]error{
		"conflict": &object.ConflictError{Key: "source", HasCurrent: true, Version: "v2"}, "store conflict": &store.ConflictError{Key: "register"}, "busy": object.ErrBusy, "fenced": object.ErrFenced,
	} {
		for _, cond := range []string{"none", "IfAbsent", "Base", "IfMatch"} {
			for _, kind := range []string{"seeker", "stream of 2 MiB"} {
				t.Run(name+"/"+cond+"/"+kind, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						c := newClient(t, membucket.New(), nil)
						key := "a"
						base, err := c.Put(t.Context(), key, body("old"), nil)
						if err != nil {
							t.Fatal(err)
						}
						o := &object.WriteOptions{}
						switch cond {
						case "IfAbsent":
							o.IfAbsent, key = true, "new"
						case "Base":
							o.Base = &base
						case "IfMatch":
							o.IfMatch = base.Version
						}
						ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
						defer cancel()
						reads := 0
						var r io.Reader = failingSeeker{strings.NewReader("new"), cause, &reads}
						if kind != "seeker" {
							r = io.MultiReader(strings.NewReader(strings.Repeat("x", 2<<20)), iotest.ErrReader(cause))
						}
						start := time.Now()
						_, err = c.Put(ctx, key, r, o)
						if !errors.Is(err, cause) || time.Since(start) > time.Second || errors.Is(err, store.ErrUnsafe) || reads > 1 {
							t.Errorf("after %d reads and %v, Put returned %v", reads, time.Since(start), err)
						}
					})
				})
			}
		}
	}
}
