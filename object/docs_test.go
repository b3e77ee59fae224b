package object_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// addUser adds a user to a list that many programs change.
func addUser(ctx context.Context, c *object.Client, user string) error {
	body, base, err := c.ReadAll(ctx, "users", 1<<20, nil)
	if err != nil {
		return err
	}
	body = append(body, user+"\n"...)
	_, err = c.Put(ctx, "users", bytes.NewReader(body), &object.WriteOptions{Base: &base})
	switch {
	case err == nil:
		return nil // committed: the user is in the list, durably
	case errors.Is(err, store.ErrConflict):
		return addUser(ctx, c, user) // not committed: read again, decide again
	case store.OutcomeOf(err) == store.NotApplied:
		return err // not committed, for another reason
	}
	return err // unknown: the user may be in the list
}

// TestDocumentedFunctions: the function of docs/commits.md is in this file as it is there, and works. So
// does Log.Commit as the page describes it.
func TestDocumentedFunctions(t *testing.T) {
	code, err := os.ReadFile("docs_test.go")
	if err != nil {
		t.Fatal(err)
	}
	docs, err := os.ReadFile("../docs/commits.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for i, block := range strings.Split(string(docs), "```") {
		function, isGo := strings.CutPrefix(block, "go\n")
		if i%2 == 0 || !isGo || !strings.Contains(function, "func ") {
			continue
		}
		found++
		if !strings.Contains(string(code), function) {
			t.Errorf("docs/commits.md shows a function that is not tested as it is:\n%s", function)
		}
	}
	if found != 1 {
		t.Errorf("%d functions in docs/commits.md", found)
	}

	c := memory()
	if _, err := c.Put(t.Context(), "users", nil, nil); err != nil {
		t.Fatal(err)
	}
	const users = 8
	done := make(chan error)
	for n := range users {
		go func() { done <- addUser(t.Context(), c, fmt.Sprint(n)) }()
	}
	for range users {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if got := strings.Count(content(t, c, "users"), "\n"); got != users {
		t.Errorf("%d users, want %d", got, users)
	}

	l := newLog(t, c.Bucket())
	for n := range uint64(users) {
		applied := uint64(0)
		apply := func(object.LogEntry) error { applied++; return nil }
		e, err := l.Commit(t.Context(), 0, apply, func() ([]byte, error) { return nil, nil })
		if err != nil || e.Number != n+1 || applied != n {
			t.Errorf("got %d after %d entries, %v", e.Number, applied, err)
		}
	}
}
