package cell

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store/memstore"
)

// A call ends when its client is closed, whatever its context comes from.
func TestRunEndsWithTheClient(t *testing.T) {
	newSpace := func() (*Space, context.CancelCauseFunc) {
		life, end := context.WithCancelCause(context.Background())
		return NewSpace(life, &memstore.Store{}, &Settings{TTL: time.Minute}, nil), end
	}
	for name, from := range map[string]func(s, other *Space) (context.Context, context.CancelCauseFunc){
		"a plain context":             func(_, _ *Space) (context.Context, context.CancelCauseFunc) { return t.Context(), func(error) {} },
		"a context of the client":     func(s, _ *Space) (context.Context, context.CancelCauseFunc) { return s.Bind(t.Context()) },
		"a context of another client": func(_, o *Space) (context.Context, context.CancelCauseFunc) { return o.Bind(t.Context()) },
		"a context that never ends by itself": func(s, _ *Space) (context.Context, context.CancelCauseFunc) {
			ctx, cancel := s.Bind(t.Context())
			return WithoutEnd(ctx), cancel
		},
	} {
		s, end := newSpace()
		other, endOther := newSpace()
		ctx, cancel := from(s, other)
		err := s.Run(ctx, 0, func(ctx context.Context) error {
			end(ErrClosed)
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v, want %v", name, err, ErrClosed)
		}
		if err := s.Run(context.Background(), 0, func(context.Context) error { return nil }); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: a call after the close: %v, want %v", name, err, ErrClosed)
		}
		cancel(nil)
		endOther(nil)
	}
}
