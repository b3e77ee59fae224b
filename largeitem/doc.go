// Package largeitem keeps database items whose large attributes live in an object store:
// an item of a few hundred bytes in a table, and each large attribute as an object in a
// bucket, to which the item refers with its hash and size.
//
// # What it promises
//
//   - An item never refers to an object that is not there. Objects are written before the
//     item, under names that no other write uses, and are never changed. An item is written
//     only if it still refers to what the write was made for. An object is deleted only
//     after the item is known to refer to another one, or to be gone.
//   - Nothing is deleted on an unknown outcome. What a write leaves behind, [Store.Sweep]
//     removes after the grace period.
//   - A reader gets the bytes that were written, or an error: size and SHA-256 are verified
//     while the body streams.
//
// # What it assumes
//
//   - No write of an item takes effect later than half the grace period after it was sent.
//     The grace period belongs to the table: 24 hours by default, at least one hour. The
//     object that marks the table's names says it, so that no writer takes longer, and no
//     sweep looks earlier; see [Store.ChangeOrphanAge].
//   - Programs that write references do it by this package, in one call or in two steps
//     ([Store.Prepare]).
//
// # Outcomes
//
// [store.OutcomeOf] tells what became of a write, from its error.
//
//   - A write that got no answer is looked for: its references are unique to it, so an item
//     that has one of them was written. While the item still has a reference that the write
//     changes, the write was not made, and is sent again with the same objects. Otherwise the
//     outcome is unknown: the item was not there before, or another write has followed. Then
//     nothing is removed. A write that changes no large attribute leaves no such trace.
//   - A refused write is looked for in the same way, since a proxy can repeat a request.
//   - An error with the outcome applied says that the item was written, and that after a
//     delay of half the grace period one of its objects was not found. Such a write returns
//     its [Result] with the error.
//
// # Where the parts are
//
// A [Table] holds the items: package memtable in memory, package storetable on any register
// of package store (files, for example), package sqltable in a SQL database, and
// aws/dynamotable in DynamoDB. Any [object.Bucket] holds the objects. Package itemtest
// checks the contract of a Table.
package largeitem
