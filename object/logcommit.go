package object

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/store"
)

// Commit appends an entry after all others, and first shows the caller those that it has not
// taken into account. after is the number of the last entry that it has, 0 for none.
//
// Commit calls body, and appends what that returns. If another writer was faster, Commit passes
// each entry that follows to apply, in order, and starts again after a growing random
// pause, until the context ends. It calls both functions in the calling goroutine, and may call body
// several times. A nil apply ignores the entries: for bodies that do not depend on them.
//
// If body or apply returns an error, Commit appends nothing and returns that error. If
// entries that the caller needs were removed, the error is a [*TrimmedError]: load the
// state from its First, and call Commit again. The other errors and outcomes are those of
// [Log.Append], except that Commit returns no other conflict. It does not try again after an unknown
// outcome.
func (l *Log) Commit(ctx context.Context, after uint64, apply func(LogEntry) error, body func() ([]byte, error)) (LogEntry, error) {
	for try := 1; ; try++ {
		b, err := body()
		if err != nil {
			return LogEntry{}, store.MarkNotApplied(err)
		}
		e, err := l.Append(ctx, after, b)
		if !errors.Is(err, store.ErrConflict) || store.OutcomeOf(err) != store.NotApplied {
			return e, err
		}
		if !sleep(ctx, l.c.o.pause, try) {
			return LogEntry{}, store.MarkNotApplied(l.fail("commit", context.Cause(ctx)))
		}
		for e, err := range l.Read(ctx, after+1) {
			if err == nil && apply != nil {
				err = apply(e)
			}
			if err != nil {
				return LogEntry{}, store.MarkNotApplied(err)
			}
			after = e.Number
		}
	}
}
