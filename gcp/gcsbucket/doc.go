// Package gcsbucket is an [object.Bucket] in Google Cloud Storage, or on another server that speaks its
// JSON API over HTTP. It uses the library google.golang.org/api/storage/v1. The library
// cloud.google.com/go/storage would bring 220 more packages into each program.
//
//	b, prefix, err := gcsbucket.Open(ctx, "gs://my-bucket/app", nil)
//
// # Versions
//
// The [object.Version] of an object is its generation, a decimal number. Every write makes a new
// generation, even if it writes the same bytes. The conditions are those of Google Cloud Storage:
// ifGenerationMatch for a put, a delete and the destination of a copy, and ifSourceGenerationMatch for
// the source of a copy. The generation 0 means "no object".
//
// # Requests
//
// The bucket repeats only reads, and small writes without a condition. If a conditional write were
// repeated after a lost reply, and the first request was applied, the repetition would fail with status
// 412, so the caller would learn of a conflict with its own write.
//
//   - A put is one request of any size, with its condition. A body of up to 8 MiB has a CRC32C, which
//     the server checks before it writes. The bucket compares the CRC32C of a larger body with the
//     answer.
//   - A get is one request. The bucket compares a whole body with its CRC32C. With IfChanged, a get is
//     one request for the metadata, and one more if the object has changed.
//   - A copy is at least one request. The server decides how many requests a large copy needs.
//
// # Limits
//
// The service accepts about one write a second for each object. It refuses further writes with status
// 429: the error matches [object.ErrBusy], and the outcome is NotApplied.
//
// A get cannot distinguish an object without CacheControl from an object with the default of the
// service ("private, max-age=0" or "public, max-age=3600"). In both cases CacheControl is empty.
//
// # Other servers
//
// The bucket trusts the service of Google, at any name below googleapis.com. On another server it tests
// each condition on objects below [Options].ProbePrefix before it first uses the condition. A server that
// ignores the condition of a get is no danger: the bucket compares the generation in the answer.
//
// # Credentials
//
// The bucket uses the Application Default Credentials: the file that GOOGLE_APPLICATION_CREDENTIALS
// names, the file of "gcloud auth application-default login", or the service account of the machine. It
// sends credentials only over https://. It follows no redirects.
package gcsbucket
