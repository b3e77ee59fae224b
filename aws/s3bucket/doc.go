// Package s3bucket makes an [object.Bucket] of a bucket on Amazon S3, or on a
// server that speaks its protocol (MinIO, versitygw, Ceph, R2 and others).
//
//	b, prefix, err := s3bucket.Open(ctx, "s3://my-bucket/app?region=eu-central-1", nil)
//
// or with a client of one's own, configured in every way that the SDK knows:
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
// Bodies are streamed. What is larger than a part goes up in parts, one at a time,
// with the condition on the request that completes the upload, since one that is
// sent at its start is not kept. An upload that fails for certain is aborted; one
// whose outcome is unknown is left to the bucket's rule for incomplete uploads.
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
// The smallest policy for registers and leases below PREFIX:
//
//	{"Version": "2012-10-17", "Statement": [
//	  {"Effect": "Allow", "Action": ["s3:GetObject", "s3:PutObject"],
//	   "Resource": "arn:aws:s3:::BUCKET/PREFIX/*"},
//	  {"Effect": "Allow", "Action": "s3:ListBucket",
//	   "Resource": "arn:aws:s3:::BUCKET"}]}
//
// Without s3:ListBucket, S3 answers 403 for an object that does not exist, and
// nothing can be created. Do not bind it to a prefix with the condition key
// s3:prefix: a request for an object has none, and would get 403 again. Registers
// need no s3:DeleteObject on Amazon S3; on other servers the probe of conditions
// removes what it made with it. Objects of one's own need s3:DeleteObject to
// delete (with a condition, s3:GetObject as well) and s3:AbortMultipartUpload to
// clean up after failed uploads. SSE-KMS needs kms:GenerateDataKey and kms:Decrypt
// on the key. [Bucket.Settings] needs s3:GetBucketVersioning,
// s3:GetBucketObjectLockConfiguration and s3:GetLifecycleConfiguration.
//
// A bucket policy that makes every other program conditional too, so that none
// overwrites blindly what lies below PREFIX:
//
//	{"Effect": "Deny", "Principal": "*", "Action": "s3:PutObject",
//	 "Resource": "arn:aws:s3:::BUCKET/PREFIX/*",
//	 "Condition": {"Null": {"s3:if-none-match": "true", "s3:if-match": "true"},
//	               "Bool": {"s3:ObjectCreationOperation": "true"}}}
package s3bucket
