package sqlstore_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/store/sqlstore"
)

// listening is a connection that delivers its notifications, and then fails.
type listening struct {
	events []string
	queue  []string
	closed context.Context
}

var errLost = errors.New("connection lost")

func (c *listening) Exec(_ context.Context, statement string, _ ...any) (int, error) {
	c.events = append(c.events, statement)
	return 0, nil
}

func (c *listening) WaitForNotification(context.Context) (string, error) {
	if len(c.queue) == 0 {
		return "", errLost
	}
	n := c.queue[0]
	c.queue = c.queue[1:]
	return n, nil
}

func (c *listening) Close(ctx context.Context) error {
	c.closed = ctx
	return nil
}

// TestListener: the function listens, calls ready, and passes on every notification. It
// closes its connection when the connection is lost, also if its context has ended by then.
func TestListener(t *testing.T) {
	c := &listening{queue: []string{"a", "b"}}
	listen := sqlstore.Listener(
		func(context.Context) (*listening, error) { return c, nil },
		func(n string) string { return n + "!" },
	)
	ctx, cancel := context.WithCancel(t.Context())
	err := listen(ctx, `a"b`, func() { c.events = append(c.events, "ready") }, func(payload string) {
		cancel()
		c.events = append(c.events, payload)
	})
	if !errors.Is(err, errLost) {
		t.Errorf("it ended with %v", err)
	}
	if want := []string{`LISTEN "a""b"`, "ready", "a!", "b!"}; !slices.Equal(c.events, want) {
		t.Errorf("got %q, want %q", c.events, want)
	}
	if c.closed == nil || c.closed.Err() != nil {
		t.Error("the connection was not closed, or with a context that had ended")
	}
	refused := sqlstore.Listener(func(context.Context) (*listening, error) { return nil, errLost }, func(n string) string { return n })
	if err := refused(t.Context(), "c", func() { t.Error("ready without a connection") }, nil); !errors.Is(err, errLost) {
		t.Errorf("without a connection: %v", err)
	}
}
