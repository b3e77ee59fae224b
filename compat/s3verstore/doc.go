// Package s3verstore stores registers in a bucket with versioning. It is for servers that speak the
// S3 protocol but have no conditional writes: old S3-compatible servers, and gateways.
//
//	st, err := s3verstore.Open(ctx, "s3+versioned://bucket/prefix?put_lifetime=5s", nil)
//	...
//	client, err := lease.New(st, nil)
//
// If the server has conditional writes, use package s3store. A write of s3store is one request and
// takes milliseconds. A write of this package is at least three requests and takes seconds. The
// command "holdfast doctor" shows which package your server needs.
//
// # Set-up
//
// Enable versioning on the bucket. Do not use Object Lock or MFA Delete. Do not use a lifecycle
// rule that removes or moves versions below the prefix, because an old version can contain the
// current state. The first call of a [Store] reads the settings of the bucket and refuses a bucket
// that breaks these rules. If the rights do not allow the Store to read a setting, "holdfast
// doctor" names that setting.
//
// L is the longest time from the sending of a PUT until the PUT takes effect. [Options].PutLifetime sets
// L; the default is 5 s. Use the same L in all clients of a bucket. A larger L makes writes slower. With
// a smaller L, more writes have an unknown outcome. "holdfast doctor" and [Store.Measure] measure the
// server and recommend a value of L.
//
// The file policies/aws/s3-versioned-locks.json of the repository lists the rights. Without
// s3:ListBucket, S3 answers 403 in place of 404. Then a Get of a register that does not exist returns
// [store.ErrDenied]. Without s3:GetLifecycleConfiguration and s3:GetBucketObjectLockConfiguration, the
// Store does not check these settings and accepts the bucket.
//
// # Time and requests
//
// Each write waits between its PUT and the listing that shows whether the write was applied. This
// wait is the settle delay D ([Options].SettleDelay), 6 s by default.
//
//   - Put and Delete take at least D. If the context would end earlier, they return an error and
//     send no request.
//   - If the Store first saw the last write less than D ago, and the write is not confirmed, Get waits
//     for the rest of D.
//   - GetUncommitted never waits. It can return the value of a write whose outcome is not known yet.
//     That write can still lose against another write.
//   - The shortest lease ([store.Traits].MinTTL) is four times D plus three seconds, because a
//     renewal takes D and must end before the lease expires.
//   - If a PUT takes longer than L, or its answer is lost, the outcome of the write stays
//     unknown. The writer then treats the write as a write of another program
//     ([store.UncommittedReader]).
//
// If the listing of a register fits into one answer, these are the requests:
//
//   - Get and GetUncommitted: 1 LIST.
//   - A write by a client that knows the state: 1 PUT, the settle delay, 1 LIST, and 1 PUT to confirm.
//   - Each version that the Store has not read yet: 1 GET. The Store reads each body once,
//     because versions never change.
//   - About every eighth write: 1 request to remove superseded versions, and 1 GET for each of
//     them that the Store has not read.
//   - The first call of a Store: 3 requests for the settings of the bucket.
//   - The first register that a Store creates: 1 LIST, or 2 LISTs if the Store has a prefix and the
//     bucket has more than a thousand versions.
//
// # What it promises
//
// This package obeys the contract of package store under four conditions:
//
//   - Each PUT takes effect within L or never.
//   - A listing shows every version whose PUT was answered before the listing began.
//   - The order of versions does not change.
//   - If the version ids of the server are ULIDs, its clock does not go back. If there are several
//     servers, their clocks agree.
//
// A ULID begins with the time at which the server made it, and ULIDs give the order of the versions.
// Apart from that, the package uses no clock of the server. It never compares two clocks.
//
// Even if a PUT takes effect later than L, leases stay exclusive and their tokens still increase. But
// a write by PutUnsynced can then be lost. PROOF.md in this directory has the protocol, its
// assumptions and the proof. The tests of proof/versionmodel check all states of a model of the
// protocol, for small cases.
//
// # Locks of other programs
//
// An older program stores locks as versions of objects; see [Store.Settings]. That program ignores
// the locks of this package, and this package ignores the locks of that program. Before a [Store]
// creates its first register, it searches for locks of that program, and for registers of package
// s3store (s3://) with its own prefix. The search covers the first thousand versions of the bucket
// and of the prefix, if the rights allow it. "holdfast doctor" and "holdfast init" report the
// result.
//
// The Store creates no register with the name of such a lock. If the Store finds registers of
// s3store, it creates no register at all, because two programs could then get the same lock.
// Package s3store makes the same check. The check is only about the same prefix: below it,
// under a longer prefix, either package may store its registers. A Store always refuses an object
// whose body another program has written.
//
// # Concurrency
//
// Any number of goroutines may use a [Store]. A Store starts no goroutine that outlives a call,
// and needs no Close.
package s3verstore
