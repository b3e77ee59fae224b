package lease

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/lease/internal/upkeep"
	"github.com/holdfast-go/holdfast/store"
)

// MinSweepAge is the shortest time without use after which [Client.Sweep] removes a lock.
const MinSweepAge = time.Hour

// SweepOptions configures [Client.Sweep].
type SweepOptions struct {
	// Sweep removes a lock only if it has been free for OlderThan, at least [MinSweepAge]. The
	// client computes this time from the wall clocks of the lock's last holder and of this machine.
	// OlderThan has no default, so Sweep refuses nil options.
	OlderThan time.Duration

	// If Prefix is set, Sweep reads only the locks below this prefix; see
	// [Client.List].
	Prefix string

	// With DryRun, Sweep removes nothing. It only reports what it would remove.
	DryRun bool

	// OnLock is called for each lock that Sweep has read.
	OnLock func(name string, removed bool, err error)
}

// Sweep removes the records of locks that have been free for a long time, and returns their number. Then it
// removes the histories of locks without a record. It keeps these records:
//
//   - held and broken locks of any age
//   - unreadable records; then the error of Sweep matches [store.ErrCorrupt]
//   - locks whose NotBefore is in the future (see Options.MinInterval)
//   - locks whose job has run in the present period (see [Client.Once])
//   - locks whose token is not below the Unix time in microseconds; OnLock gets an error that
//     matches [ErrTokenInFuture]
//
// A record keeps the last token of its lock. So before Sweep removes a record, it writes the
// highest of the removed tokens to a special record of the store: the floor. No client lowers the
// floor. The first token of a new lock is at least the Unix time in microseconds. If
// Options.CheckTokenFloor is set, it is also above the floor. Without CheckTokenFloor, new tokens
// are higher than removed ones only if the clocks of all machines that create, use and sweep the
// lock differ by less than OlderThan.
//
// A token can be ahead of the clock for three reasons. The lock was granted more than a million
// times a second, a machine with a wrong clock created it, or its record is damaged. If Sweep
// removed such a lock, its token would raise the floor for all locks above the time of every clock.
//
// If Prefix is empty, Sweep also removes the records of sessions that were closed or revoked at
// least OlderThan ago. The returned number does not include sessions. Sweep also revokes and
// removes a session that was not renewed for OlderThan, but only with one of two proofs: the
// process of the session is dead, or the store's own clock shows that the record is older than its
// TTL.
func (c *Client) Sweep(ctx context.Context, o *SweepOptions) (int, error) {
	o = cmp.Or(o, &SweepOptions{})
	if o.OlderThan < MinSweepAge {
		return 0, fmt.Errorf("%w: cannot sweep locks unused for %v: the age must be at least %v", store.ErrInvalid, o.OlderThan, MinSweepAge)
	}
	return upkeep.Sweep(ctx, c.k, (*upkeep.SweepOptions)(o))
}

// CopyOptions configures [Client.CopyLock].
type CopyOptions struct {
	// With DryRun, CopyLock writes nothing. It only reports what it would write.
	DryRun bool
}

// CopyResult is the result of [Client.CopyLock]. The fields are:
//
//   - From: the version of the record that was copied. If the other store has this version later, no
//     client has taken the lock there meanwhile.
//   - Record: the record of the lock in this client's store after the copy.
//   - Changed: false if the record needed no change.
type CopyResult = upkeep.CopyResult

// CopyLock copies a free lock from the store of another client to the store of this client. From then on
// each grant in this store has a higher token than every grant before in the other store. CopyLock also
// copies the last run of a periodic job ([Client.Once]), NotBefore (Options.MinInterval), the number of
// slots and the data. A second CopyLock changes nothing. So after an error the caller can repeat the call.
//
// CopyLock changes nothing in the other store. So it does not prevent grants there: the caller makes sure
// that no client takes the lock in the other store alone. Clients that take the lock in both stores may
// continue. CopyLock of two clients may run at the same time.
//
// These errors are special:
//
//   - [ErrHeld]: the lock is not free in one of the two stores. The error is a [*HeldError]. A lock whose
//     holder is dead, or that was broken, is free again after the next grant.
//   - [store.ErrCorrupt]: one of the two records cannot be read.
//   - [store.ErrNotFound]: the other store has no record.
//   - [store.ErrInvalid]: both clients use the same record.
//   - [ErrUnresolved]: CopyLock could not find out whether its write was applied.
//
// The call takes at most two minutes.
func (c *Client) CopyLock(ctx context.Context, from *Client, name string, o *CopyOptions) (CopyResult, error) {
	return upkeep.Copy(ctx, from.space, c.space, name, o != nil && o.DryRun)
}

// CopyFloor makes the floor of this client's store at least as high as the floor of another client's
// store; see [Client.Sweep]. So the locks that a sweep has removed there get higher tokens here.
func (c *Client) CopyFloor(ctx context.Context, from *Client) error {
	return upkeep.CopyFloor(ctx, from.space, c.space)
}

// BreakUnreadable makes a lock usable again if its record cannot be read. No other call can free
// such a lock. An unreadable record does not show whether there is a holder. So first make sure
// that the lock has no holder, or that the work of the holder is fenced. A living holder
// continues until its next renewal or its deadline.
//
// First BreakUnreadable calls the function passed as keep, with the key of the register and its
// content. The function must store a copy of the content. If the store itself cannot read the
// register, the content is nil. In this case the function must also move the register away, so that
// the key is absent. If the function returns an error, BreakUnreadable returns this error and
// changes nothing.
//
// After the function has returned nil, BreakUnreadable raises the floor of tokens, and writes a
// free record. The new token is above the floor, above every token that the store has recorded for
// the key, and above the Unix time in microseconds.
//
// If the record can be read, the error matches [ErrNotHeld]: use [Client.Break]. If a newer
// version of this package has written the record, the error matches [ErrNewerFormat]. If there is
// no record, the error matches [store.ErrNotFound].
func (c *Client) BreakUnreadable(ctx context.Context, name string, keep func(ctx context.Context, key string, value []byte) error) (Record, error) {
	return upkeep.Replace(ctx, c.space, name, keep)
}
