// Package object reads and writes objects. If several writers compete, only one wins, and each
// writer knows the outcome of its own write. An object has a key, a body of any size, a few words
// of metadata, and a [Version]. The objects are in S3, Google Cloud Storage, Azure, a directory, or memory.
//
// # Use
//
// Open a bucket, and create a [Client] for it:
//
//	bucket, err := dirbucket.Open("/var/lib/app/objects", nil) // or s3bucket.Open, gcsbucket.Open
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
// [Client.Copy], [Client.Rename] and [Client.Delete] have the same options. [Client.Download] reads
// a large object by several requests at the same time. [Client.Resume] continues an interrupted
// upload. [FS] shows the objects as an [io/fs.FS]. [OpenLog] returns a log of commits, which
// consists of numbered objects.
//
// Pass the [Info] of a Get, a Stat or a write as [WriteOptions].Base. A bare version
// ([WriteOptions].IfMatch) is less safe: on S3 two states of an object can have the same version.
// Package indexbucket gives every bucket unique versions.
//
// A writer that holds a lock passes its fencing token as [WriteOptions].Fence. After this write,
// clients refuse writes to the object with a lower token. A new holder calls [Client.RaiseFence]
// before it reads the object: the call writes the new token to the object and does not change the
// body. Fences need unique versions. The directory examples/fence shows what happens without a
// fence.
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
// conflict. The object no longer has the id after nine later writes, after one write without a
// condition, or after a delete. If the store refuses a delete and the object does not exist, the
// outcome is unknown.
//
// If the store ignores the condition of a single request, the client tries an upload in parts,
// because some stores check the condition only there. If the store also ignores the condition of an
// upload, the client reserves the object before each write ([Reserver], package reserve). If no
// strategy works, the client refuses the call with an [UnsupportedError]. [Client.Strategies]
// returns the strategies.
//
// A request can take effect late, after the call of the client has returned. If the late request
// has a condition that no longer holds, the store refuses the request. The store cannot refuse a
// late write without a condition. It cannot refuse a late create if the object was deleted in the
// meantime.
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
//   - The store checks the condition and makes the change in one atomic step. If a store cannot do
//     this, the bucket returns an [UnsupportedError], which matches [errors.ErrUnsupported], and
//     changes nothing. The bucket must send the condition with the write: it must not only read the
//     object before the write.
//   - A write has the three outcomes of package store, which [store.OutcomeOf] reads from its
//     error.
//   - The store applies a conditional write at most once. So the bucket sends a conditional write
//     only once, except for the completion of an upload in parts. If the store answers that the
//     condition does not hold, the error matches [store.ErrConflict]. If a proxy repeats the
//     request, the caller's own write can cause the conflict. A Client and package bucketstore
//     recognise such a conflict.
//   - The errors match the errors of package store: ErrNotFound, ErrConflict, ErrDenied,
//     ErrMisconfigured (for example if the bucket does not exist), ErrUnavailable, ErrKey.
//   - Any number of goroutines may call all methods at the same time. The context bounds only the
//     call and the reading of the body that the call returns.
//
// # Versions
//
// A [Version] names a state of an object. On S3 it is the ETag, which depends only on the bytes. So
// if a writer writes the same bytes again, a condition cannot distinguish the two writes. If
// [Traits].UniqueVersions is set, the bucket never uses a version twice. Otherwise a caller that
// needs unique versions puts a unique text into each body.
package object
