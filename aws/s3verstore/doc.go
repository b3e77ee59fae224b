// Package s3verstore keeps registers in a bucket with versioning, on a server that speaks the
// S3 protocol but has no conditional writes: old S3-compatible servers, and gateways.
//
//	st, err := s3verstore.Open(ctx, "s3+versioned://bucket/prefix?put_lifetime=5s", nil)
//	...
//	client, err := lease.New(st, nil)
//
// Where the server honours conditional writes, package s3store is the better choice: a
// write is one request there, and takes milliseconds. With this package a write is at least
// three requests, and pauses for seconds. Run `holdfast doctor` to see which package your
// server needs.
//
// # Set-up
//
// Enable versioning on the bucket. Do not use Object Lock, MFA Delete, or a lifecycle rule that
// removes or moves versions below the prefix: the current state can be in an old version. The
// first call of a [Store] refuses such a bucket, as far as the rights let it see. holdfast
// doctor says what could not be seen.
//
// All clients of a bucket should have the same [Options].Life, L: how long a PUT may be under
// way. The default is 5 s. A larger L makes writes slower. With a smaller L, more writes end
// with an unknown outcome. holdfast doctor and [Store.Measure] measure how long PUTs take, and
// whether the server lists versions in the right order, and recommend an L.
//
// # What to expect
//
//   - Put and Delete take a pause of [Options].Settle, 6 s by default. A context that ends
//     sooner is refused, and nothing is sent.
//   - Get answers at once, but for a write that is younger than a pause: then it waits for
//     the rest of the pause.
//   - GetUncommitted never waits. It can return a write that is not confirmed and that later does
//     not count.
//   - If a PUT took longer than L, or its answer was lost, the outcome of the write stays
//     unknown. The writer must then act as if another program had made
//     that write ([store.Traits].CannotReadOwnWrites).
//   - The shortest lease ([store.Traits].MinTTL) is four pauses and three seconds, because a renewal takes one pause
//     and must end before the lease does.
//
// # What it promises
//
// This package keeps the contract of package store under three conditions: each PUT takes
// effect within L or never; a listing shows every version whose PUT was answered before; the
// order of versions does not change. No clock of the server is used, and no two clocks are
// compared.
//
// Where PUTs take effect later than L, leases stay exclusive and their tokens rise; other
// writes can be lost if they were made with PutUnsynced. PROOF.md in this directory has the
// protocol, its assumptions word for word, and why it works. A model of it, in
// internal/model, is searched to the end for small cases.
//
// # Locks of another program
//
// An older program keeps a lock as the versions of an object and takes the oldest version for
// the owner. That rule can let two owners in, and its locks and those of this package do not
// exclude each other. holdfast doctor and init, and [Store.Settings], name such locks among
// the first thousand versions of the bucket, if the rights go so far, and of the prefix. Before
// a [Store] makes its first register, it searches for such locks in the same places. It refuses
// to make a register that has the name of such a lock. The Store always refuses an object whose
// body was not written by this package.
//
// The same look finds registers of package s3store (s3://) that have the prefix of the Store:
// both would hold the same locks, and each refuses to begin where the other is. A store with a
// longer prefix has other locks, and may be of the other kind.
//
// # What it costs
//
// With n versions listed in one page and nothing changed since the last look: Get and
// Peek 1 LIST and no body; a write by a client that knows the state 1 PUT, a pause and
// 1 LIST, and 1 PUT more for the confirmation; a version that is not known yet costs one
// GET. Versions never change, so that each body is read once. About every eighth write also
// removes the superseded versions. That costs one request, and one GET for each of these
// versions that this Store has not read.
//
// The first call of a Store asks for the settings of the bucket (three requests). The first
// register that it makes costs one LIST more, or two below a prefix in a bucket of more than a
// thousand versions.
//
// # Rights
//
// s3:PutObject, s3:GetObjectVersion, s3:GetObject, s3:DeleteObjectVersion on the prefix;
// s3:ListBucket, s3:ListBucketVersions and s3:GetBucketVersioning on the bucket. Without
// s3:ListBucket, S3 answers 403 in place of 404, and a Get of a register that does not exist
// is denied. With s3:GetLifecycleConfiguration and s3:GetBucketObjectLockConfiguration the
// Store can also see settings that remove or keep versions. Without these rights it does not
// check them, and does not refuse the bucket.
//
// # Concurrency
//
// A [Store] may be used by any number of goroutines, starts none that outlive a call,
// and needs no closing.
package s3verstore
