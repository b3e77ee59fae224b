// Package object writes objects so that of several writers one wins, and each writer knows
// the outcome of its write. An object is a key with a body of any size, a few words of
// metadata, and a [Version]. It lives in S3, in a directory, or in memory.
//
// # Use
//
// Open a bucket, and make a [Client] of it:
//
//	bucket, err := dirbucket.Open("/var/lib/app/objects", nil) // or s3bucket.Open
//	client, err := object.New(bucket, nil)
//
// Read with [Client.ReadAll], [Client.Get], [Client.Stat] and [Client.List]. Write with
// [Client.Put], under a condition if other writers may write the same object:
//
//	// Only if there is no object.
//	info, err := client.Put(ctx, "report", body, &object.WriteOptions{IfAbsent: true})
//
//	// Only if the object is still as it was read or written last.
//	info, err = client.Put(ctx, "report", body, &object.WriteOptions{Base: &info})
//
//	// Read, change and write, again if another writer was faster.
//	info, err = client.Update(ctx, "report", change, nil)
//
// A nil error means that the write is committed and durable. An error that matches
// [store.ErrConflict] means that the condition did not hold and nothing was written. For
// every other error, [store.OutcomeOf] says whether the write was certainly not committed,
// or may have been. [Client.Resolve] can ask later about a write in doubt.
//
// [Client.Copy], [Client.Rename] and [Client.Delete] take the same options. [Client.Download]
// reads a large object by several requests at a time, and [Client.Resume] continues an upload
// that was interrupted. [FS] shows the objects as an [io/fs.FS]. [OpenLog] makes a log of
// commits from numbered objects.
//
// A writer that holds a lock passes its fencing token as [WriteOptions].Fence. From then on
// the object refuses writes with a lower token. A new holder calls [Client.RaiseFence] before
// it reads. The directory examples/fence shows what happens without a fence.
//
// Pass the [Info] that a Get, a Stat or a write has returned as [WriteOptions].Base. A bare
// version ([WriteOptions].IfMatch) can be the same for two states where versions can return,
// as on S3. Package indexbucket keeps objects with unique versions, and so with fences, on
// any bucket.
//
// # What the client does
//
//   - Each write has a random id. The client leaves it in the metadata of the object, with the
//     ids of the eight writes before it ([WriteInfo]). After a lost reply the client reads the
//     object. If the object has the id, the write is committed, also if others have written
//     since. If the object still is in the state that the write names, the client sends the
//     write again. It never repeats a write that creates an object: another writer may have
//     deleted the object in between. Otherwise the outcome is unknown.
//   - After a conflict the client reads the object as well. A proxy can repeat a request, and
//     the second copy then conflicts with the first. By then other writers may have removed the
//     id of the write: by nine later writes, by one write without a condition, or by a delete.
//     In that case the client believes the conflict that the store reported. If the store
//     refuses a delete and the object does not exist, the outcome is
//     unknown.
//   - Where the store cannot check a condition itself, the client uses the next best strategy
//     ([Client.Strategies]): the condition of an upload in parts, then a reservation
//     ([Reserver], package reserve). If none of these works, the client refuses the call with
//     an [UnsupportedError]. The
//     client tries what a store can do before it relies on it.
//   - A request can take effect after its caller has given up. If the late request has a
//     condition, and the condition no longer holds, the store refuses the request. A late write
//     without a condition cannot be refused. A late create cannot be refused either, if the
//     object was deleted in the meantime.
//
// # The contract of a bucket
//
// The rest is for authors of buckets, and for callers who use a [Bucket] without a client.
// A Bucket gets, puts, deletes and lists objects. Packages dirbucket and membucket of this
// module and s3bucket of the module aws are buckets. Package objecttest checks this contract.
//
//   - A put takes effect as a whole or not at all: a reader sees the old body or
//     the new one, never a mixture, and never a part.
//   - A read or a listing that starts after a write was answered sees that write or a later
//     one.
//   - The store itself checks the condition and makes the change in one atomic step. If a
//     store cannot, the bucket refuses with an [UnsupportedError], which matches
//     [errors.ErrUnsupported], and changes nothing. It never reads first and then writes
//     without the condition.
//   - A write has the three outcomes of package store, which [store.OutcomeOf] reads from
//     its error: nil is applied and durable, a definite failure was not applied,
//     everything else is unknown.
//   - A bucket sends a conditional write once, or in a way in which the store applies it
//     at most once (the completion of an upload in parts). Its error matches
//     [store.ErrConflict] when the store answered that the condition does not hold. A proxy
//     between the two may repeat requests, so the conflict may be with the caller's own
//     write. A Client finds that out; package bucketstore does so for registers.
//   - The errors are those of package store: ErrNotFound, ErrConflict, ErrDenied,
//     ErrMisconfigured (for example if the bucket does not exist), ErrUnavailable, ErrKey.
//   - Any number of goroutines may call all methods at a time. The context bounds
//     the call and the reading of the body that it returns, and nothing else.
//
// # Versions
//
// A [Version] names a state of an object. On S3 it is the ETag, which is the same again
// when a writer writes the same bytes again: a condition on it cannot distinguish the two
// writes. [Traits].UniqueVersions says that this cannot happen. Elsewhere, a caller that
// needs unique versions puts something unique into each body.
package object
