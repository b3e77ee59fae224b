// Package object writes objects so that only one of several competing writers wins, and each
// writer knows the outcome of its write. An object is a key with a body of any size, a few words
// of metadata, and a [Version]. Objects are kept in S3, in a directory, or in memory.
//
// # Use
//
// Open a bucket, and create a [Client] for it:
//
//	bucket, err := dirbucket.Open("/var/lib/app/objects", nil) // or s3bucket.Open
//	client, err := object.New(bucket, nil)
//
// Read with [Client.ReadAll], [Client.Get], [Client.Stat] and [Client.List]. Write with
// [Client.Put]. If other writers may write the same object, give a condition:
//
//	// Only if there is no object.
//	info, err := client.Put(ctx, "report", body, &object.WriteOptions{IfAbsent: true})
//
//	// Only if the object is still in the state that the client read or wrote last.
//	info, err = client.Put(ctx, "report", body, &object.WriteOptions{Base: &info})
//
//	// Read, change and write; start again if another writer was faster.
//	info, err = client.Update(ctx, "report", change, nil)
//
// An error has one of these outcomes:
//
//   - A nil error: the write is committed and durable.
//   - An error that matches [store.ErrConflict]: the condition did not hold, and nothing was
//     written.
//   - Any other error: [store.OutcomeOf] says whether the write was certainly not committed. If
//     the outcome is unknown, ask [Client.Resolve] later.
//
// [Client.Copy], [Client.Rename] and [Client.Delete] have the same options. [Client.Download]
// reads a large object by several requests at the same time. [Client.Resume] continues an
// interrupted upload. [FS] shows the objects as an [io/fs.FS]. [OpenLog] returns a log of
// commits, kept in numbered objects.
//
// Pass the [Info] of a Get, a Stat or a write as [WriteOptions].Base. A bare version
// ([WriteOptions].IfMatch) is less safe: on S3 two states of an object can have the same version.
// Package indexbucket gives every bucket unique versions.
//
// A writer that holds a lock passes its fencing token as [WriteOptions].Fence. After this write
// clients refuse writes with a lower token to the object. A new holder calls [Client.RaiseFence]
// before it reads: the call writes the new token to the object and keeps the body. Fences need
// unique versions. The directory examples/fence shows what happens without a fence.
//
// # How a client finds the outcome
//
// Each write has a random id. The client stores it in the metadata of the object, with the ids of
// the eight writes before it ([WriteInfo]). After a lost reply the client reads the object:
//
//   - If the object has the id, the write is committed, even if other writers have written since.
//   - If the object is still in the state that the write replaces, the client sends the write
//     again. It never repeats a write that creates an object, because another writer may have
//     deleted the object in between.
//   - Otherwise the outcome is unknown.
//
// The client also reads the object after a conflict: if a proxy repeats a request, the second
// request conflicts with the first. If the object does not have the id, the client returns the
// conflict. Nine later writes remove the id. One write without a condition or a delete also
// removes it. If the store refuses a delete and the object does not exist, the outcome is
// unknown.
//
// If the store ignores the condition of a single request, the client tries an upload in parts,
// because some stores check the condition only there. If this does not work either, the client
// reserves the object before each write ([Reserver], package reserve). If no strategy works, the
// client refuses the call with an [UnsupportedError]. [Client.Strategies] returns the strategies.
//
// A request can take effect after its caller has given up. If the late request has a condition
// that no longer holds, the store refuses the request. The store cannot refuse a late write
// without a condition. It cannot refuse a late create if the object was deleted in the meantime.
//
// # The contract of a bucket
//
// This section is for authors of buckets, and for callers who use a [Bucket] without a client. A
// Bucket gets, puts, deletes and lists objects. Packages dirbucket, membucket and aws/s3bucket
// are buckets. Package objecttest checks this contract:
//
//   - A put takes effect as a whole or not at all. A reader sees the old body or the new body,
//     never a mixture and never a part.
//   - A read or a listing that starts after the answer of a write sees that write or a later one.
//   - The store checks the condition and makes the change in one atomic step. If a store cannot,
//     the bucket returns an [UnsupportedError], which matches [errors.ErrUnsupported], and
//     changes nothing. A bucket must not read the object before the write in place of sending the
//     condition.
//   - A write has the three outcomes of package store, which [store.OutcomeOf] reads from its
//     error.
//   - The store applies a conditional write at most once. So the bucket sends it once, except for
//     the completion of an upload in parts. If the store answers that the condition does not
//     hold, the error matches [store.ErrConflict]. If a proxy repeats the request, this can be a
//     conflict with the caller's own write. A Client and package bucketstore recognise such a
//     conflict.
//   - The errors are those of package store: ErrNotFound, ErrConflict, ErrDenied,
//     ErrMisconfigured (for example if the bucket does not exist), ErrUnavailable, ErrKey.
//   - Any number of goroutines may call all methods at the same time. The context bounds only the
//     call and the reading of the body that the call returns.
//
// # Versions
//
// A [Version] names a state of an object. On S3 it is the ETag, which depends only on the bytes.
// So if a writer writes the same bytes again, a condition cannot distinguish the two writes. If
// [Traits].UniqueVersions is set, the bucket never uses a version twice. Otherwise a caller that
// needs unique versions puts something unique into each body.
package object
