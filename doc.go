// Package holdfast is the front page of a library that gives programs locks and
// checkpoints on the storage they already have: a directory, S3, DynamoDB, a database.
// There is no coordinator to run. The package itself is empty; the example below tells
// the whole story, and these packages carry it out.
//
//   - [github.com/holdfast-go/holdfast/lease]: locks that expire, are renewed while
//     their holder lives, and carry a fencing token.
//   - [github.com/holdfast-go/holdfast/checkpoint]: positions in streams that never go
//     backwards.
//   - [github.com/holdfast-go/holdfast/object]: objects that are written only if no
//     other writer was faster.
//   - [github.com/holdfast-go/holdfast/store]: the register that all of it stands on: a
//     key with a small value that changes only by compare-and-swap. Its stores are
//     memory, files, buckets, tables of PostgreSQL and SQLite, and in a module of their
//     own S3 and DynamoDB. You can write another: it is one small interface, and
//     package storetest checks it.
//
// # Which store
//
// On one machine, or several that share no disk but S3 or DynamoDB:
//
//	filestore.Open("/var/lib/app/locks", nil)            // store/filestore
//	s3store.Open(ctx, "s3://bucket/locks", nil)          // aws/s3store
//	dynamostore.Open(ctx, "dynamodb://table/locks", nil) // aws/dynamostore
//
// A store that cannot keep its promise (a network file system, a server that ignores
// conditions) is refused, with an error that says so.
//
// # What every call tells
//
// A write was applied, was certainly not applied, or its outcome is unknown:
// [github.com/holdfast-go/holdfast/store.OutcomeOf] reads that from any error. A lost
// reply is never reported as a loss or as a success.
//
// The command holdfast does the same for scripts: see cmd/holdfast.
package holdfast
