package integration_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/bucketstore"
	"github.com/holdfast-go/holdfast/object/indexbucket"
	"github.com/holdfast-go/holdfast/store"
)

// copyVar makes the test binary a process that copies an object, and renameVar one that
// renames it; the value is a target in JSON.
const (
	copyVar   = "HOLDFAST_TEST_COPY"
	renameVar = "HOLDFAST_TEST_RENAME"
)

// indexed returns a client of objects with an index, on which every condition works.
func (a target) indexed() (*object.Client, error) {
	b, err := a.bucket(&s3bucket.Options{AssumeAbilities: object.Abilities()})
	if err != nil {
		return nil, err
	}
	index, err := bucketstore.New(b, "index", &bucketstore.Options{Trusted: true})
	if err != nil {
		return nil, err
	}
	named, err := indexbucket.New(index, b, &indexbucket.Options{Prefix: "body/"})
	if err != nil {
		return nil, err
	}
	return object.New(named, nil)
}

func copySource(ctx context.Context, c *object.Client) error {
	_, err := c.Copy(ctx, "source", "destination", &object.WriteOptions{IfAbsent: true})
	return err
}

func renameSource(ctx context.Context, c *object.Client) error {
	_, err := c.Rename(ctx, "source", "destination", &object.WriteOptions{IfAbsent: true})
	return err
}

// TestCopyAndRenameKilled kills processes at each request of a copy, and of a rename, before
// the server has seen it and after. The object is never lost, its copy is whole or absent,
// and a second process completes what the first began.
func TestCopyAndRenameKilled(t *testing.T) {
	t.Parallel()
	for name, server := range s3Servers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, variable := range []string{copyVar, renameVar} {
				for _, applied := range []bool{false, true} {
					n := 0
					for ended := false; !ended; {
						n++
						at := target{Kind: "s3", S3: server(t)}
						at.Space = at.S3.NewBucket(t, false)
						ended = killTransfer(t, at, variable, n, applied)
					}
					if requests := n - 1; requests < 5 {
						t.Errorf("%s took %d requests: were the processes killed?", variable, requests)
					}
				}
			}
		})
	}
}

func killTransfer(t *testing.T, at target, variable string, n int, applied bool) bool {
	t.Helper()
	ctx := t.Context()
	c, err := at.indexed()
	if err != nil {
		t.Fatal(err)
	}
	const text = "the only copy"
	if _, err := c.Put(ctx, "source", strings.NewReader(text), nil); err != nil {
		t.Fatal(err)
	}
	out, ended := killAt(t, at, variable, n, applied)
	what := fmt.Sprintf("%s killed at request %d, applied: %t", variable, n, applied)
	there := func(key string) bool {
		body, _, err := c.ReadAll(ctx, key, 1<<10, nil)
		if err != nil && !errors.Is(err, store.ErrNotFound) || err == nil && string(body) != text {
			t.Errorf("%s: %s: %q, %v", what, key, body, err)
		}
		return err == nil
	}
	source, destination := there("source"), there("destination")
	switch {
	case !source && !destination:
		t.Errorf("%s: the object is lost", what)
	case !source && variable == copyVar:
		t.Errorf("%s: the source is gone", what)
	case strings.Contains(string(out), "done") && !destination:
		t.Errorf("%s: it was acknowledged, and there is no copy", what)
	}
	again := copySource
	if variable == renameVar {
		again = renameSource
	}
	err = again(ctx, c)
	if variable == copyVar && destination {
		// The copy is of another write than this one.
		if !errors.Is(err, store.ErrConflict) {
			t.Errorf("%s: a second copy: %v", what, err)
		}
	} else if err != nil {
		t.Errorf("%s: the second process: %v", what, err)
	}
	if !there("destination") || there("source") != (variable == copyVar) {
		t.Errorf("%s: the second process left another state", what)
	}
	return ended
}
