package awscall

import (
	"errors"
	"fmt"
	"iter"

	"github.com/holdfast-go/holdfast/store"
)

// ErrPageLoop says that the listing of a server has no end. It matches [store.ErrUnsafe].
var ErrPageLoop = fmt.Errorf("%w: the listing does not end", store.ErrUnsafe)

// maxEmpty is how many pages without an entry may follow each other. A server may
// send many where it passes over what was deleted.
const maxEmpty = 10_000

// maxPages is how many pages a listing may have: a hundred million entries.
const maxPages = 100_000

// Pages checks the pages of one listing: each page must name a next page that the client has not read
// before.
type Pages struct {
	Endless bool // the listing may have any number of pages, because its reader does not keep them in memory

	seen    string // a token of one of the pages before
	since   int    // pages since then
	until   int    // so many, then another is remembered
	started bool
	empty   int
	pages   int
}

// Next checks a page. A page has n entries, and the token of the next page. If the listing repeats itself
// or makes no progress, the error matches [ErrPageLoop].
func (p *Pages) Next(token string, entries int) error {
	if token == "" || p.started && token == p.seen {
		return fmt.Errorf("%w: a page of the listing refers to a page that was already read", ErrPageLoop)
	}
	if p.empty++; entries > 0 {
		p.empty = 0
	}
	p.pages++
	switch {
	case p.empty > maxEmpty:
		return fmt.Errorf("%w: the server sent %d pages in a row without an entry", ErrPageLoop, p.empty)
	case p.pages > maxPages && !p.Endless:
		return fmt.Errorf("%w: the listing has more than %d pages", ErrPageLoop, maxPages)
	}
	// The distance doubles each time, so that a circle of any length is found.
	if p.since++; !p.started || p.since == p.until {
		p.seen, p.since, p.until, p.started = token, 0, max(1, 2*p.until), true
	}
	return nil
}

// maxNames bounds the names of one listing of registers, in bytes: callers keep them.
const maxNames = 32 << 20

// nameCost is what a name costs in addition to its bytes.
const nameCost = 16

var errNames = errors.New("list with a longer prefix")

// BoundNames counts the memory for the names of a listing. If they need more than 32 MiB, it returns an
// error. Each name needs its length and 16 bytes.
func BoundNames(names iter.Seq2[string, error]) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		size := 0
		for name, err := range names {
			if err == nil {
				if size += len(name) + nameCost; size > maxNames {
					err = fmt.Errorf("the names take more than %d MiB: %w", maxNames>>20, errNames)
					name = ""
				}
			}
			if !yield(name, err) || err != nil {
				return
			}
		}
	}
}
