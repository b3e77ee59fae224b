package store

import (
	"context"
)

// Liveness is what a store knows of an announced process.
type Liveness int

const (
	// LivenessUnknown: the store does not know. A waiter has to wait until the lease
	// expires.
	LivenessUnknown Liveness = iota

	// Alive: the process runs, or a child that inherited its announcement runs.
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
	// other processes pass to Liveness. Further calls return the same text. The
	// announcement lasts until the process ends, and needs no renewal.
	Announce(ctx context.Context) (string, error)

	// Liveness reports whether the process that made an announcement is alive. It returns
	// Dead only if that is certain. If the store cannot know, or after an error, Liveness
	// returns LivenessUnknown.
	Liveness(ctx context.Context, announcement string) Liveness

	// WaitLiveness returns nil when the answer of Liveness may have changed. It may return
	// although nothing changed. When the context ends, it returns the context's error.
	WaitLiveness(ctx context.Context, announcement string) error
}
