// Package trylock provides locks on a store that has only one operation: a try-lock with a duration. Such a
// store is, for example, a table of leases that another program already uses, or a service with one call for
// locks. If the store can compare and swap a value, use package lease: it promises more.
//
//	handle, err := trylock.New(backend, "sync", nil)
//	guard, err := handle.Acquire(ctx)
//	err = work(guard.Context(), guard.Token())
//	err = guard.Release(ctx)
//
// [New] makes a [Handle] from a [Backend]. [Handle.Acquire] waits for the lock, and [Handle.TryAcquire] does
// not. Each returns a [Guard]. While a handle has the lock, each further call returns another guard of the same
// grant, without a request. The release of the last guard frees the lock.
//
// # What is promised
//
// A holder trusts its lease until the context of its guard ends. The trust ends [Options].TTL - Margin after the
// handle sent the last call that is known to have taken or renewed the lock. The handle reads the clocks of its
// machine at least every min(TTL/10, 1 s), and in each call of Guard.Err. A timer ends the context, even if the
// backend hangs. The cause of the context is a [lease.LostError].
//
// At most one holder trusts its lease, if the backend obeys the contract of [Backend].
//
// # What cannot be promised
//
//   - The backend alone decides when a lease has expired. A waiter of package lease measures on its own clock how
//     long a record has not changed. Here a waiter has nothing to measure. Some backends compare the wall clocks
//     of their callers: then these clocks must agree, and the difference must be less than Margin. If the wall
//     clock of such a machine jumps forward, another program can take the lock at once. The holder detects this
//     at its next reading of the clocks if its own clock jumped, otherwise at its next renewal.
//   - If the backend has no generation, [Guard.Token] is 0: no store can then refuse late writes of an earlier
//     holder. [Guard.WasLastHolder] is always false.
//   - After a lost reply, only another call with the same holder shows who has the lock. The handle makes this
//     call. But the server can apply a delayed call even later, after the release. Then the lock stays held until
//     the duration of this call is over, although no program trusts it.
//   - The handle cannot know who has the lock, or for how long. So the errors name no holder.
//   - A program that restarts waits until its earlier lease has expired.
//
// # Protocol
//
//   - Each grant has a random holder id, so two handles of a process exclude each other, and a late call of an
//     earlier grant cannot change a later one. Each grant has a new generation, which is its token.
//   - A renewal calls TryLock with the same holder. The handle sends no renewal while an earlier call of the
//     grant has not returned. A renewal that fails is repeated until the trust ends. If the reply says that
//     another holder has the lock, or has had it, the lease is lost.
//   - A release calls TryLock with the duration 0. If another holder's lease has expired, this call takes the
//     lock from it, as every call does. So the handle sends no release after the end of its own trust. The lock
//     then stays held until the TTL is over.
//   - If a call that takes the lock has no certain result, and the caller does not wait any longer, the handle
//     frees the lock in the same way. A call that ignores its context is left behind. If it returns while the
//     lease would still be trusted, the handle frees the lock then.
//
// # Goroutines
//
// A grant has one timer and one goroutine. They end when the lease is lost or released, and Release waits for the
// goroutine. A handle has no other goroutine, except for calls that are under way. It needs no Close.
package trylock
