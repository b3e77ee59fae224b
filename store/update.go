package store

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
)

// ErrUnchanged is for the function that the caller passes to [Update]: if the function returns this
// error, Update does not change the register.
var ErrUnchanged = errors.New("unchanged")

// Update reads a key, passes its value to the function change, and writes the result of the
// function. The value is nil if the register is absent. Update writes only if the register still
// has the version that Update has read. If another writer was faster, Update starts again after a
// growing random pause, until the context ends. Update returns the state that it wrote, or the
// state that it left unchanged.
//
// If the function returns [ErrUnchanged], Update writes nothing and returns a nil error. If the
// function returns another error, Update returns this error as it is. Update may call the function
// several times. The function must not modify the slice that it receives, and must not use the
// slice after its return. If the outcome of the write is unknown, Update does not retry: it returns
// an error whose [OutcomeOf] is Unknown. A caller that can recognise its own value can then read
// the register.
func Update(ctx context.Context, s Store, key string, change func(value []byte) ([]byte, error)) (Entry, error) {
	var current Entry
	read := true
	for try := 1; ; try++ {
		if read {
			value, v, err := s.Get(ctx, key)
			if err != nil && !errors.Is(err, ErrNotFound) {
				return Entry{}, MarkNotApplied(err)
			}
			current = Entry{Key: key, Value: value, Version: v}
		}
		value, err := change(current.Value)
		if errors.Is(err, ErrUnchanged) {
			return current, nil
		}
		if err != nil {
			return Entry{}, MarkNotApplied(err)
		}
		v, err := s.Put(ctx, key, current.Version, value)
		if err == nil {
			return Entry{Key: key, Value: value, Version: v}, nil
		}
		// A conflict that was marked as unknown may be our own write.
		if !errors.Is(err, ErrConflict) || OutcomeOf(err) != NotApplied {
			return Entry{}, err
		}
		var conflict *ConflictError
		read = true
		if errors.As(err, &conflict) && conflict.HasCurrent {
			current = Entry{Key: key, Value: conflict.Value, Version: conflict.Version}
			read = false
		}
		if backoff.Wait(ctx, try, time.Millisecond, 250*time.Millisecond) != nil {
			return Entry{}, CheckContext(ctx)
		}
	}
}
