// Package s3bucket provides an [object.Bucket] in a bucket on Amazon S3, or on a server that
// speaks the S3 protocol (MinIO, versitygw, Ceph, R2 and others).
//
//	b, prefix, err := s3bucket.Open(ctx, "s3://my-bucket/app?region=eu-central-1", nil)
//
// A program can also configure the SDK itself:
//
//	b, err := s3bucket.New(s3.NewFromConfig(cfg), "my-bucket", nil)
//
// # Requests
//
// This package switches off the retries of the SDK, also for a client that the program passes. It
// sends a conditional request once. If the reply is lost, the outcome is unknown, and the layers
// above resolve it. It repeats reads and unconditional writes after throttling, 5xx and lost
// connections, with growing random pauses. Each request has a time limit.
//
// # Large bodies
//
// A put streams its body. If the body is larger than a part, the put uploads it in parts, several
// at a time. The last request completes the upload and has the condition. If that request gets no
// answer, the put sends it again: the server completes an upload at most once. If the second
// answer is a conflict, or says that the upload does not exist, the first request may have been
// applied, and the outcome is unknown.
//
// If an upload does not succeed, the put aborts it, so that its parts cost nothing. An abort
// never changes an object, so the put also aborts after an unknown outcome. If a program crashes,
// its parts remain. [object.SweepUploads] or a lifecycle rule (see [LifecycleRule]) removes them.
// With [object.PutOptions].OnUpload the upload stays, and [Bucket.Resume] continues it: it
// compares the parts by their MD5, and sends the parts that differ. If the bucket is encrypted
// with SSE-KMS or SSE-C, ETags are no MD5, and Resume sends all parts again.
//
// A put holds [Options].Parallel parts in memory: 40 MiB by default. The program needs more
// memory than that because of garbage that Go's runtime has not collected yet: a put of 2 GiB by
// the command takes about 100 MB.
//
// # Servers other than Amazon's
//
// Amazon S3 honours every condition that this package sends. Other servers accept some conditions
// and ignore them: a delete with a wrong If-Match deletes the object. So before the first use of
// an ability, the bucket tests it on its own objects below [Options].ProbePrefix. If the server
// ignores a condition, the bucket refuses that ability as unsupported. If a server cannot copy an
// object under a condition, the bucket uploads it in parts whose source is the other object.
//
// # Rights
//
// The folder policies/aws of the repository has policies: s3-locks.json for registers and leases,
// s3-objects.json for objects, s3-sweep.json for a sweep of uploads, and kms.json for SSE-KMS.
//
// Without s3:ListBucket, S3 answers 403 for an object that does not exist, and no object can be
// created. Do not limit this right by the condition key s3:prefix, because a request for an
// object has no prefix. A rename writes and deletes below .holdfast/rename/. [Bucket.Settings]
// needs s3:GetBucketVersioning, s3:GetBucketObjectLockConfiguration and
// s3:GetLifecycleConfiguration.
//
// The bucket policy s3-conditional-writers-only.json refuses unconditional writes of other
// programs below PREFIX.
package s3bucket
