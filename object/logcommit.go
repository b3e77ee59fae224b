package object

import (
	"context"

	"github.com/holdfast-go/holdfast/store"
)

// Commit appends an entry at the end of the log. The caller passes the number of the last entry
// that it has processed, or 0 if it has processed no entry.
//
// Commit calls the function body, and appends the result of the function. If another writer has
// appended an entry first, Commit passes each new entry to the function apply, in order. Then
// Commit starts again after a growing random pause, until the context ends. Commit calls both
// functions in the calling goroutine. It may call body several times. If the new entry does not
// depend on the other entries, apply can be nil.
//
// If one of the functions returns an error, Commit appends nothing and returns that error. If
// entries that the caller needs were removed, the error is a [*TrimmedError]: load the state from
// the error's First, and call Commit again. Commit returns no other conflict. For the other errors
// and outcomes, see [Log.Append]. Commit does not try again after an unknown outcome.
func (l *Log) Commit(ctx context.Context, after uint64, apply func(LogEntry) error, body func() ([]byte, error)) (LogEntry, error) {
	for try := 1; ; try++ {
		b, err := body()
		if err != nil {
			return LogEntry{}, store.MarkNotApplied(err)
		}
		e, err := l.Append(ctx, after, b)
		if !surpassed(err) {
			return e, err
		}
		if !sleep(ctx, l.c.o.pause, try) {
			return LogEntry{}, store.MarkNotApplied(l.fail("commit", store.Cause(ctx)))
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
