package awscall_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/aws/awscall"
	"github.com/holdfast-go/holdfast/store"
)

// TestPages: a listing may have many pages, and ends with an error when they lead
// round in circles of any length, or bring nothing.
func TestPages(t *testing.T) {
	for _, c := range []struct {
		name   string
		token  func(n int) string
		keys   int
		before int // it ends at this page at the latest; 0: it continues
	}{
		{"each leads on", func(n int) string { return fmt.Sprint(n) }, 1, 0},
		{"no token", func(int) string { return "" }, 1, 1},
		{"the same token", func(int) string { return "a" }, 1, 2},
		{"two by turns", func(n int) string { return fmt.Sprint(n % 2) }, 1, 6},
		{"a circle of 1000", func(n int) string { return fmt.Sprint(n % 1000) }, 1, 4000},
		{"a circle behind a way to it", func(n int) string { return fmt.Sprint(min(n, 500+n%7)) }, 1, 2000},
		{"nothing for ever", func(n int) string { return fmt.Sprint(n) }, 0, 10_001},
		{"entries for ever", func(n int) string { return fmt.Sprint(n) }, 1000, 100_001},
	} {
		var pages awscall.Pages
		var err error
		n := 0
		for limit := max(c.before, 50_000); err == nil && n < limit; n++ {
			err = pages.Next(c.token(n), c.keys)
		}
		switch {
		case c.before == 0 && err != nil:
			t.Errorf("%s: page %d: %v", c.name, n, err)
		case c.before > 0 && !errors.Is(err, awscall.ErrPageLoop):
			t.Errorf("%s: got %v after %d pages, want an end", c.name, err, n)
		}
	}
}

// TestBoundNames: a listing of names that no program could keep ends with an error, and
// passes on what is before.
func TestBoundNames(t *testing.T) {
	name := strings.Repeat("x", 1<<20-16)
	n := 0
	var last error
	for got, err := range awscall.BoundNames(func(yield func(string, error) bool) {
		for yield(name, nil) {
		}
	}) {
		if last = err; err != nil {
			if got != "" {
				t.Error("a name came with the error")
			}
			continue
		}
		n++
	}
	if n != 32 || last == nil || !strings.Contains(last.Error(), "longer prefix") {
		t.Errorf("%d names of a MiB each, then %v; want 32 and an error", n, last)
	}
	failed := errors.New("failed")
	for _, err := range awscall.BoundNames(func(yield func(string, error) bool) { yield("", failed) }) {
		if !errors.Is(err, failed) || store.OutcomeOf(err) != store.Unknown {
			t.Errorf("got %v, want the error of the listing", err)
		}
	}
}
