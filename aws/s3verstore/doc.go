// Package s3verstore keeps registers on a bucket with versions on S3 that has no
// conditional writes: old look-alikes of S3, and gateways.
//
//	st, err := s3verstore.Open(ctx, "s3+versioned://bucket/prefix?put_lifetime=5s", nil)
//	...
//	client, err := lease.New(st, nil)
//
// Where the server honours conditional writes, package s3store is the better choice: a
// write is one request there, and takes milliseconds. Here it is at least three, and
// takes a pause of seconds. holdfast doctor says which it is.
//
// # Set-up
//
// The bucket needs versioning, and neither Object Lock nor MFA Delete, nor a lifecycle rule
// that removes or moves versions below the prefix: an old version can be the state. The
// first call of a [Store] refuses such a bucket, as far as the rights let it see. holdfast
// doctor says what could not be seen.
//
// All clients of a bucket should have the same [Options].Life, L: how long a PUT may be under
// way. The default is 5 s. A larger L makes writes slower; a smaller one makes more of them
// end with an unknown outcome. holdfast doctor, and [Store.Measure], find out how long PUTs
// take, how far the server is from showing versions in order, and recommend an L.
//
// # What to expect
//
//   - Put and Delete take a pause of [Options].Settle, 6 s by default. A context that ends
//     sooner is refused, and nothing is sent.
//   - Get answers at once, but for a write that is younger than a pause: then it waits for
//     the rest of the pause.
//   - Peek never waits. What it answers may turn out never to have happened.
//   - A write whose PUT took longer than L, or whose answer was lost, has an unknown outcome
//     for good: its writer must treat it as another program's ([store.Traits].CannotReadOwnWrites).
//   - The shortest lease ([store.Traits].MinTTL) is four pauses and three seconds, so that a
//     renewal, which takes a pause, is through in time.
//
// # What it promises
//
// The contract of package store, if a PUT takes effect within L or never, if a listing
// shows every version whose PUT was answered before, and if the order of versions does not
// change. No clock of the server is used, and no two clocks are compared.
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
// a [Store] makes its first register it looks there too; it then refuses to make a register
// with the name of such a lock. A body that is no entry is refused in any case.
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
// GET. Versions never change, so that each body is read once. Every eighth write or so
// removes what is superseded, by one request, and a GET for each version of it that this
// Store has not read.
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
// is denied. To find out what would take versions away also s3:GetLifecycleConfiguration and
// s3:GetBucketObjectLockConfiguration: without them a Store is not refused for it.
//
// # Concurrency
//
// A [Store] may be used by any number of goroutines, starts none that outlive a call,
// and needs no closing.
package s3verstore
