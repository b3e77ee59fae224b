package locks

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/observe/picture"
	"github.com/holdfast-go/holdfast/store"
)

// eventsOf returns the events of a history, the oldest entry first. In a history, a takeover is an entry about the old
// grant, before the entry of the new grant.
func eventsOf(lock string, entries []lease.HistoryEntry) (events []picture.Event) {
	var over *picture.Event // the takeover whose new grant follows
	lost := func() {
		if over != nil { // a reader took the lock over
			over.Kind = picture.Lost
			events, over = append(events, *over), nil
		}
	}
	for _, e := range entries {
		event := picture.Event{Time: e.Time, Lock: lock, Token: e.Token, Holder: e.Holder, By: e.By, Reason: e.Reason}
		event.Grant = fmt.Sprint(e.Token, " ", e.Slot, " ", e.Holder) // readers can have one token
		if e.Missing > 0 || e.Kind == lease.HistoryUnrecorded {
			events = append(events, picture.Event{Time: e.Time, Lock: lock, Kind: picture.Missing, Count: e.Missing})
		}
		switch e.Kind {
		case lease.HistoryGranted:
			event.Kind = picture.Granted
			if over != nil {
				event.Kind, event.Reason, over = picture.TakenOver, over.Reason, nil
			}
		case lease.HistoryTakenOver:
			lost()
			over = &event
			continue
		default:
			kind, shown := kinds[e.Kind]
			if !shown {
				continue
			}
			event.Kind = kind
		}
		lost()
		events = append(events, event)
	}
	lost()
	return events
}

// kinds are the events of other entries that a picture shows.
var kinds = map[lease.HistoryKind]picture.Kind{
	lease.HistoryEntered: picture.Entered, lease.HistoryReleased: picture.Released, lease.HistoryLeft: picture.Released,
	lease.HistoryLost: picture.Lost, lease.HistoryBroken: picture.Broken, lease.HistoryYieldRequested: picture.Asked,
}

// past adds the histories of the locks below a prefix, and of the lock with that name.
func past(ctx context.Context, client *lease.Client, prefix string, c *canvas) error {
	var mu sync.Mutex
	names := func(yield func(string, error) bool) {
		for name, err := range client.List(ctx, prefix) {
			if !yield(name, err) {
				return
			}
		}
		if prefix != "" {
			yield(prefix, nil)
		}
	}
	return each(ctx, names, func(ctx context.Context, name string) error {
		entries, err := client.History(ctx, name)
		if errors.Is(err, store.ErrNotFound) {
			return nil // removed after it was listed
		}
		mu.Lock()
		defer mu.Unlock()
		c.add(seen{name, eventsOf(name, entries), err})
		return ctx.Err()
	})
}

// explain finds out from the history of a lock, if there is one, whether a change of hands was a takeover.
func explain(ctx context.Context, client *lease.Client, events []picture.Event) {
	for i, e := range events {
		if e.Kind != picture.Changed {
			continue
		}
		entries, err := client.History(ctx, e.Lock)
		if err != nil {
			continue // the picture says that the lock changed hands
		}
		for _, kept := range eventsOf(e.Lock, entries) {
			if kept.Token == e.Token && (kept.Kind == picture.Granted || kept.Kind == picture.TakenOver) {
				events[i].Kind, events[i].Reason = kept.Kind, kept.Reason
			}
		}
	}
}
