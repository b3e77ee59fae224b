package leases

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// FlatName turns a text into a name that can be part of a file's name.
func FlatName(name string) string {
	return fmt.Sprintf("%.100s", strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, name))
}

// CheckLockName refuses what is no name of a lock.
func CheckLockName(name string) error {
	if err := store.CheckKey(name); err != nil {
		return exit.Usagef("lock name: %w", err)
	}
	if printable.Text(name) != name {
		return exit.Usagef("lock name %s contains control characters, or is not valid text", printable.Text(name))
	}
	return nil
}

// HeldLock is one element of HOLDFAST_LOCKS.
type HeldLock struct {
	Store string `json:"store"`
	Name  string `json:"name"`
	Token uint64 `json:"token"`
	Slot  int    `json:"slot,omitempty"` // of a semaphore
}

// InheritedLocks returns the locks that outer runs hold around this process.
func InheritedLocks() []HeldLock {
	var locks []HeldLock
	// A variable of that name that another program has set says nothing about locks.
	_ = json.Unmarshal([]byte(os.Getenv(cmdline.LocksVariable)), &locks)
	return locks
}

// HeldAround refuses a lock that an ancestor of this process holds: the wait for it would
// never end. An ancestor that has ended, or no longer holds the lock, does not count: only
// the environment (of a daemon, say) still names it.
func HeldAround(ctx context.Context, client *lease.Client, url, name string) error {
	for _, held := range InheritedLocks() {
		if held.Store != url || held.Name != name {
			continue
		}
		info, err := client.Inspect(ctx, name)
		if err != nil || !holds(info.Record, held.Token) || info.Liveness == store.Dead {
			continue
		}
		return exit.With(exit.Busy, fmt.Errorf("lock %q on %s is held by the run that started this command (token %d): the two would wait for each other for ever", name, url, held.Token))
	}
	return nil
}

// holds reports whether a grant with this token holds the lock, alone or with others. A
// second grant would wait for ever as soon as another process waits to be alone.
func holds(r lease.Record, token uint64) bool {
	return r.State == lease.Held && r.Token == token ||
		r.State == lease.Shared && slices.ContainsFunc(r.Holders, func(m lease.Member) bool { return m.Token == token })
}

// WaitedError says that the wait has reached its limit.
type WaitedError struct{ Limit time.Duration }

func (e *WaitedError) Error() string { return fmt.Sprintf("the wait of %v has ended", e.Limit) }

// Is makes the error match the two errors that it stands for. run reports it only if the
// store has not answered.
func (e *WaitedError) Is(target error) bool {
	return target == context.DeadlineExceeded || target == store.ErrUnavailable
}
