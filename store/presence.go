package store

import (
	"context"
)

// Liveness is what a store knows of an announced process.
type Liveness int

const (
	// LivenessUnknown: nothing is known; only time can tell.
	LivenessUnknown Liveness = iota

	// Alive: it runs, or something that it started keeps its place.
	Alive

	// Dead: it ended for certain.
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
	// Announce makes this process known and returns its announcement, a short text
	// for others to judge it by. Further calls return the same. It lasts until the
	// process ends; nothing has to be renewed.
	Announce(ctx context.Context) (string, error)

	// Judge tells whether the process behind an announcement is alive. It answers
	// Dead only if that is certain; what it cannot know, errors too, is
	// LivenessUnknown.
	Judge(ctx context.Context, announcement string) Liveness

	// Await returns nil when it is worth judging again, which may be without
	// reason, or the context's error when that ends.
	Await(ctx context.Context, announcement string) error
}

// presenceAbility passes presence on as it is: it is of processes, not of keys.
func presenceAbility() ability {
	return abilityOf("Presence", "", func(_ *intercepted, a Presence) Presence { return struct{ Presence }{a} })
}
