package store

import (
	"context"
)

// Liveness is what a store knows of an announced process.
type Liveness int

const (
	// LivenessUnknown: the store cannot tell. A caller has to wait for a lease to expire.
	LivenessUnknown Liveness = iota

	// Alive: the process runs, or a child to which it passed its announcement does.
	Alive

	// Dead: the process has certainly ended.
	Dead
)

// String returns "unknown", "alive" or "dead".
func (l Liveness) String() string {
	switch l {
	case Alive:
		return "alive"
	case Dead:
		return "dead"
	}
	return "unknown"
}

// Presence is a store that knows which processes are alive.
type Presence interface {
	// Announce makes this process known and returns its announcement: a short text that
	// other processes pass to Judge. Further calls return the same text. The announcement
	// lasts until the process ends, and needs no renewal.
	Announce(ctx context.Context) (string, error)

	// Judge reports whether the process that made an announcement is alive. It answers
	// Dead only if that is certain. Where it cannot know, after an error too, it answers
	// LivenessUnknown.
	Liveness(ctx context.Context, announcement string) Liveness

	// WaitLiveness returns nil when the answer of Judge may have changed, sometimes although it
	// has not. When the context ends, it returns the context's error.
	WaitLiveness(ctx context.Context, announcement string) error
}

// presenceAbility hands out the inner store's presence undecorated: it concerns
// processes, not keys.
func presenceAbility() ability {
	return abilityOf("Presence", "", func(_ *intercepted, a Presence) Presence { return struct{ Presence }{a} })
}
