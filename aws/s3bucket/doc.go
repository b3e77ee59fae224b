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
// This package switches off the retries of the SDK, even in a client that the program passes. The
// package sends a conditional request once. If the reply is lost, the outcome is unknown. A Client
// of package object, or package bucketstore, then finds the outcome. After throttling, 5xx and lost
// connections, this package repeats reads and unconditional writes, with growing random pauses.
// Each request has a time limit.
//
// # Large bodies
//
// A put streams its body. If the body is larger than a part, the put uploads it in parts, several
// at a time. The last request completes the upload. Only this request has the condition. If that
// request gets no answer, the put sends it again. That is safe, because the server completes an
// upload at most once. The answer to the second request can be a conflict, or "no such upload".
// Then the first request may have been applied, and the outcome is unknown.
//
// If an upload does not succeed, the put aborts it, because stored parts cost money. An abort never
// changes an object, so the put also aborts after an unknown outcome. If a program crashes, its
// parts remain. [object.SweepUploads] or a lifecycle rule (see [LifecycleRule]) removes them. If
// [object.PutOptions].OnUpload is set, the put does not abort the upload, and [Bucket.Resume]
// continues it. Resume compares the ETag of each part with the MD5 of the part, and sends the parts
// that differ. If the bucket is encrypted with SSE-KMS or SSE-C, an ETag is not an MD5, and Resume
// sends all parts again.
//
// A put needs memory for [Options].Parallel parts: 40 MiB by default. For a put of 2 GiB, the
// command holdfast uses about 100 MB, including memory that Go has not freed yet.
//
// # Servers other than Amazon's
//
// Amazon S3 checks every condition that this package sends. Some other servers accept conditions
// and ignore them: for example, they delete an object although the If-Match of the delete is wrong.
// So before the first use of each condition, the bucket tests the condition on objects below
// [Options].ProbePrefix. If the server ignores the condition, the bucket refuses the call with an
// [object.UnsupportedError]. If the server ignores only the condition of a copy, the bucket copies
// the object in parts. Then the request that completes the copy has the condition.
//
// # Rights
//
// The folder policies/aws of the repository contains policies: s3-locks.json for registers and
// leases, s3-objects.json for objects, s3-sweep.json for a sweep of uploads, and kms.json for
// SSE-KMS.
//
// Without s3:ListBucket, S3 answers 403 for an object that does not exist, and the program cannot
// create an object. Do not limit this right by the condition key s3:prefix, because a request for
// an object has no prefix. A rename writes and deletes below .holdfast/rename/. [Bucket.Settings]
// needs s3:GetBucketVersioning, s3:GetBucketObjectLockConfiguration and
// s3:GetLifecycleConfiguration.
//
// The bucket policy s3-conditional-writers-only.json refuses unconditional writes of other
// programs below PREFIX.
package s3bucket
