// Package azblobbucket is a bucket in Azure Blob Storage: the block blobs of one container.
//
//	b, prefix, err := azblobbucket.Open(ctx, "azblob://ACCOUNT/CONTAINER/PREFIX", nil)
//	client, err := object.New(b, nil)
//
// # Conditions
//
// A version is the ETag of a blob. Each request of a write carries its condition, If-Match or If-None-Match,
// and the service checks the condition and writes in one step. A large body is uploaded as blocks. The
// condition is then on the request that commits the blocks (Put Block List).
//
// Azure makes a new ETag for each write, from the time of the write, also for equal bytes. So on Azure a
// version is never used twice ([object.Traits].UniqueVersions). The Bucket promises nothing about the
// ETags of other servers.
//
// # Outcomes
//
// The Bucket switches off the retries of the SDK for each request. By default, the SDK sends a write again
// after a lost reply, and then returns a conflict with the caller's own write. The Bucket sends a write with
// a condition only once. It repeats reads, blocks, and writes without a condition.
//
// Only the error code of the service (x-ms-error-code) shows that a condition did not hold: ConditionNotMet
// and BlobAlreadyExists. Other answers with the same status, such as LeaseIdMissing, are other errors. A status
// of 5xx, 408 or 429 means that the outcome is unknown. This includes ServerBusy: Microsoft does not document
// that the service never applies a request that it answers with ServerBusy.
//
// # Uploads in blocks
//
// A body that is larger than [Options].BlockSize is uploaded in blocks. The blocks of an upload have random
// names, so two uploads of one blob do not mix. But Azure has no separate uploads: all blocks that are not
// committed belong to the blob. So:
//
//   - Each write of the blob by another client removes the blocks of an upload in progress. If the upload
//     has a condition, the condition no longer holds, and the error is a conflict. Otherwise the error is
//     [object.ErrBusy], nothing is written, and the caller can put the body again.
//   - The Bucket cannot abort an upload, and cannot resume one: it ignores [object.PutOptions].OnUpload. If an
//     upload fails, its blocks cost money until the next write of the blob. Azure removes them after one week.
//   - All blocks of a blob must have names of one length. If another program uploads the same blob
//     with other lengths, the service refuses one of the two uploads.
//
// # Copies
//
// The service copies a body as blocks (Put Block From URL). Each block carries the condition on the source,
// and the commit carries the condition on the destination. The source is authorized by a short-lived signature if
// the client has an account key, by the client's own SAS token, or by a token of [Options].Credential.
//
// # Keys and metadata
//
// Azure changes some names of blobs: it removes a dot at the end of a segment, resolves the segments "." and
// "..", and takes a backslash for a slash. Two such keys could name one blob. So the Bucket refuses these keys
// with [store.ErrKey]. In an account with a hierarchical namespace, the blobs a and a/b cannot both exist.
//
// Names of metadata must be C# identifiers. The Bucket writes a hyphen as _0, and puts _1 before a name that
// begins with a digit. It writes _2 for an underscore that would look like one of these.
//
// # Checksums
//
// The Bucket sends the MD5 of each blob and block, and the service verifies it. The blob keeps the MD5
// of its whole body. A Get of the whole body compares it at the end.
package azblobbucket
