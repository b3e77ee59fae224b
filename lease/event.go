package lease

import (
	"context"
	"log/slog"
	"time"
)

// EventKind names what happened to a lease.
type EventKind string

// The events of a lease.
const (
	// EventWaiting: an Acquire found the lock held and waits. Once for each
	// grant that it waits for.
	EventWaiting EventKind = "waiting"

	// EventAcquired: a grant began.
	EventAcquired EventKind = "acquired"

	// EventTakenOver: the grant that began ended one that had not been released.
	// It comes just before EventAcquired.
	EventTakenOver EventKind = "taken over"

	// EventRenewed: a renewal was applied.
	EventRenewed EventKind = "renewed"

	// EventAtRisk: half of the trust that was left when the renewal fell due has
	// passed without one. Once until the next renewal.
	EventAtRisk EventKind = "at risk"

	// EventLost: the lease ended although it was not released. The guard's
	// context has ended already.
	EventLost EventKind = "lost"

	// EventReleased: the lease was released. Err tells whether the store was
	// told; otherwise it expires there.
	EventReleased EventKind = "released"
)

// Event tells of one lock.
type Event struct {
	Kind     EventKind
	Name     string
	Token    uint64        // of the grant; when waiting, of the grant waited for
	Holder   string        // when waiting or taking over: whose grant it is or was
	Reason   string        // when taking over: how the old grant was known to be over
	Deadline time.Time     // end of the holder's trust, by the wall clock, for display
	Wait     time.Duration // when waiting: until a takeover, if the holder is dead
	Err      error         // when at risk, lost, released: why, if there is more to say
}

func (c *Client) emit(e Event) {
	if c.set.OnEvent != nil {
		c.set.OnEvent(e)
	}
	level := slog.LevelDebug
	switch e.Kind {
	case EventTakenOver, EventAtRisk:
		level = slog.LevelWarn
	case EventLost:
		level = slog.LevelError
	case EventAcquired, EventReleased:
		level = slog.LevelInfo
	}
	if !c.set.Logger.Enabled(context.Background(), level) {
		return
	}
	attrs := []slog.Attr{slog.String("lock", e.Name), slog.Uint64("token", e.Token)}
	if e.Holder != "" {
		attrs = append(attrs, slog.String("holder", e.Holder))
	}
	if e.Reason != "" {
		attrs = append(attrs, slog.String("reason", e.Reason))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.Any("err", e.Err))
	}
	c.set.Logger.LogAttrs(context.Background(), level, "lease "+string(e.Kind), attrs...)
}
