package locks

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/internal/workerpool"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/observe/picture"
)

// entry is an entry of the history of a lock.
type entry struct {
	Time               time.Time
	Kind               string // the kinds of picture, and begun, unrecorded, entered, left, yield requested, ...
	Token              uint64
	Holder, By, Reason string
	Slot               int
	Missing            uint64 // entries before this one
}

// eventsOf returns the events of a history, the oldest entry first. In a history, a takeover is an entry about the old
// grant, before the entry of the new grant.
func eventsOf(lock string, entries []entry) (events []picture.Event) {
	var over *entry // the takeover whose new grant follows
	for i, e := range entries {
		event := picture.Event{Time: e.Time, Lock: lock, Token: e.Token, Holder: e.Holder, By: e.By, Reason: e.Reason}
		event.Grant = fmt.Sprint(e.Token, " ", e.Slot, " ", e.Holder) // readers can have one token
		if e.Missing > 0 || e.Kind == "unrecorded" {
			events = append(events, picture.Event{Time: e.Time, Lock: lock, Kind: picture.Missing, Count: e.Missing})
		}
		switch e.Kind {
		case "granted":
			event.Kind = picture.Granted
			if over != nil {
				event.Kind, event.Reason, over = picture.TakenOver, over.Reason, nil
			}
		case "taken over":
			over = &entries[i]
			continue
		case "entered":
			event.Kind = picture.Entered
		case "released", "left":
			event.Kind = picture.Released
		case "lost":
			event.Kind = picture.Lost
		case "broken":
			event.Kind = picture.Broken
		case "yield requested":
			event.Kind = picture.Asked
		default:
			continue // a picture does not show it
		}
		events = append(events, event)
	}
	return events
}

// past adds the histories of the locks below a prefix.
func (a *access) past(ctx context.Context, client *lease.Client, prefix string, c *canvas) error {
	var mu sync.Mutex
	pool := workerpool.New(ctx, leases.InParallel, 0)
	for name, err := range client.List(ctx, prefix) {
		if err != nil {
			return err
		}
		if !pool.WaitRoom(0) {
			break
		}
		pool.Go(0, func(ctx context.Context) error {
			entries, err := a.readHistory(ctx, client, name)
			mu.Lock()
			defer mu.Unlock()
			c.add(seen{name, eventsOf(name, entries), err})
			return ctx.Err()
		})
	}
	return pool.Wait()
}

// explain finds out from the history of a lock whether a change of hands was a takeover.
func (a *access) explain(ctx context.Context, client *lease.Client, events []picture.Event) {
	for i, e := range events {
		if e.Kind != picture.Changed || a.readHistory == nil {
			continue
		}
		entries, err := a.readHistory(ctx, client, e.Lock)
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
