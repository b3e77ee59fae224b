// Package s3bucket makes an [object.Bucket] of a bucket on Amazon S3, or on a
// server that speaks its protocol (MinIO, versitygw, Ceph, R2 and others).
//
//	b, prefix, err := s3bucket.Open(ctx, "s3://my-bucket/app?region=eu-central-1", nil)
//
// or with a client that the program configures in every way that the SDK knows:
//
//	b, err := s3bucket.New(s3.NewFromConfig(cfg), "my-bucket", nil)
//
// # Requests
//
// The retries of the SDK are off in every call, also on a client that is passed in.
// What is conditional is sent once: a lost reply is an unknown outcome, which the
// layers above settle (package bucketstore by a nonce in the body). Reads, and
// writes without a condition, are repeated after throttling, 5xx and lost
// connections, with growing random pauses. Each request has a time limit of its
// own.
//
// # Large bodies
//
// Bodies are streamed. What is larger than a part goes up in parts, a few at a time,
// with the condition on the request that completes the upload, since one that is
// sent at its start is not kept. That request is sent again when no answer came: an
// upload is completed once at most. A conflict, or an upload that no longer exists, in the answer
// to the repetition may be the effect of the first, and is an unknown outcome.
//
// An upload that does not complete is aborted, so that its parts cost nothing; also after
// an unknown outcome, since an abort never touches an object. A program that crashes
// leaves parts: [object.SweepUploads] removes what is old, and a lifecycle rule (see
// [LifecycleRule]) does so without a program. With [object.PutOptions].Keep the upload
// stays, and [Bucket.Resume] continues: it compares the parts by their MD5, and sends those
// that differ. Where the bucket is encrypted with SSE-KMS or SSE-C, ETags are no MD5, and
// all parts are sent again.
//
// A put holds [Options].Parallel parts in memory: 40 MiB by default. The memory of a program
// is higher, by the garbage that Go's runtime has not yet collected: a put of 2 GiB by the
// command takes about 100 MB.
//
// # What a server can do
//
// Amazon S3 honours every condition that this package sends. Other servers accept
// some of them and ignore them: a delete whose If-Match is wrong deletes. So unless
// it is known that a server keeps an ability, its first use tries it on objects of
// this package's own, below [Options].Scratch; what is ignored is refused as
// unsupported from then on. What a server cannot do in a copy is done by an upload
// in parts whose source is the other object, if it can do that.
//
// # Rights
//
// Policies to paste are in the folder policies of the repository: policies/aws/s3-locks.json for
// registers and leases, s3-objects.json for objects, s3-sweep.json for a sweep of uploads.
//
// Without s3:ListBucket, S3 answers 403 for an object that does not exist, and
// nothing can be created. Do not bind it to a prefix with the condition key
// s3:prefix: a request for an object has none, and would get 403 again. Registers
// need no s3:DeleteObject on Amazon S3; on other servers the probe of conditions
// removes what it made with it. Other objects need s3:DeleteObject to
// delete (with a condition, s3:GetObject as well), a rename s3:GetObject, s3:PutObject and
// s3:DeleteObject below .holdfast/rename/, and all of them s3:AbortMultipartUpload to
// clean up after failed uploads. To resume an upload needs s3:ListMultipartUploadParts,
// and a sweep of uploads that as well as s3:ListBucketMultipartUploads on the bucket. A
// copy needs s3:GetObject of its source. SSE-KMS needs kms:GenerateDataKey and kms:Decrypt
// on the key. [Bucket.Settings] needs s3:GetBucketVersioning,
// s3:GetBucketObjectLockConfiguration and s3:GetLifecycleConfiguration.
//
// policies/aws/s3-conditional-writers-only.json is a policy of the bucket: it makes every other program
// conditional too, so that none overwrites blindly what is below PREFIX.
package s3bucket
