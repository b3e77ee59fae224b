// Package holdfast is the front page of a library for locks, commits and checkpoints. Programs
// keep them on storage that they already have: a directory, S3, DynamoDB, a database. There is no
// server to run. The package itself is empty. Its example shows a worker with a lock, a fencing
// token and a checkpoint.
//
// # What there is
//
//   - [github.com/holdfast-go/holdfast/lease]: locks that expire and that their holder renews,
//     with fencing tokens; sessions, readers and writers, semaphores, fair queues, elections, and
//     jobs that run once in each period. [github.com/holdfast-go/holdfast/lease/trylock] has locks
//     for stores that have only a try-lock.
//   - Module [github.com/holdfast-go/holdfast/object]: conditional put, copy, rename and delete of
//     objects of any size, and a log of numbered commits. The buckets are
//     [github.com/holdfast-go/holdfast/object/dirbucket] (a directory), aws/s3bucket (S3) and
//     [github.com/holdfast-go/holdfast/object/membucket] (memory).
//   - [github.com/holdfast-go/holdfast/checkpoint]: positions in streams that never move
//     backwards.
//   - Module items, package largeitem: database items whose large attributes are objects in a
//     bucket. The tables are in a SQL database, in DynamoDB (items/dynamotable), or in any store.
//   - [github.com/holdfast-go/holdfast/store]: the register below all of these: a key with a
//     small value that changes only by compare-and-swap. A program can implement the interface
//     [github.com/holdfast-go/holdfast/store.Store] for another storage system, and check it with
//     package storetest.
//
// This module and module object need only the standard library. S3 and DynamoDB are in module aws,
// the command is in module cmd, and formats of other programs (aviso, object_store,
// matrix-sdk-sqlite) are in module compat.
//
// # Which store
//
// A directory serves one machine. Each other store serves all machines that reach it:
//
//	filestore.Open("/var/lib/app/locks", nil)            // a directory: store/filestore
//	s3store.Open(ctx, "s3://bucket/locks", nil)          // S3: aws/s3store
//	dynamostore.Open(ctx, "dynamodb://table/locks", nil) // DynamoDB: aws/dynamostore
//	sqlstore.New(db, sqlstore.PostgreSQL, nil)           // PostgreSQL, MySQL, SQLite: store/sqlstore
//
// If a storage system cannot do what a store needs, Holdfast refuses it with an error that says
// what is missing. Examples are a network file system and a server that ignores conditions.
//
// # The outcome of a write
//
// A write was applied, was not applied, or its outcome is unknown.
// [github.com/holdfast-go/holdfast/store.OutcomeOf] reads the outcome from any error. A lost
// reply is never reported as a failure or as a success.
//
// Scripts can use the command holdfast in place of the packages: see cmd/holdfast.
package holdfast
