// Package largeitem keeps database items whose large attributes live in an object store. The
// item, of a few hundred bytes, is in a table. Each large attribute is an object in a
// bucket, to which the item refers with its hash and size.
//
// # Use
//
// Make a [Store] of a table and a bucket:
//
//	s, err := largeitem.New(table, bucket, &largeitem.Options{Attributes: []string{"body"}})
//
// Write items with [Store.Create], [Store.Update], [Store.Upsert] and [Store.Replace]. Give the
// content of large attributes as [Large]: [Text], [Bytes], or any reader as a [Source]. Large
// and small attributes change in one atomic write:
//
//	_, err = s.Update(ctx, key, largeitem.Change{Set: largeitem.Attributes{"title": "Report"}},
//		largeitem.Large{"body": largeitem.Source{Body: file}}, nil)
//
// Read with [Store.Get], which opens the large attributes, or [Store.GetMeta], which does not.
// [Store.List] yields all items, and [Store.Delete] deletes one:
//
//	item, err := s.Get(ctx, key, nil)
//	defer item.Close()
//	_, err = io.Copy(w, item.Body("body"))
//
// Run [Store.Sweep] once a day: it removes objects that no item refers to any more.
// [Store.Verify] checks the objects of all items. Where the item is written by another
// program, or in a transaction, [Store.Prepare] uploads the objects only.
//
// A table is one of these packages: memtable in memory, storetable on any register of package
// store (files, for example), sqltable in a SQL database, and aws/dynamotable in DynamoDB.
// The bucket is any [object.Bucket].
//
// # What it promises
//
//   - An item never refers to an object that does not exist. The store writes objects before
//     the item, under names that no other write uses, and never changes them. It writes an
//     item only if the item still refers to what the write was made for. It deletes an object
//     only after it knows that the item refers to another one, or does not exist.
//   - Nothing is deleted on an unknown outcome. [Store.Sweep] removes what a write leaves,
//     after the orphan age.
//   - A reader gets the bytes that were written, or an error: the store verifies size and
//     SHA-256 while the reader reads.
//
// # What it assumes
//
//   - No write of an item takes effect later than half the orphan age after it was sent.
//     The orphan age belongs to the table: 24 hours by default, at least one hour. An object
//     in the bucket, the marker, records it. So every writer finishes within half the recorded
//     age, and every sweep keeps objects until they have the full age; see
//     [Store.ChangeOrphanAge].
//   - Programs that write references do it by this package, in one call or in two steps
//     ([Store.Prepare]).
//
// # Outcomes
//
// [store.OutcomeOf] returns the outcome of a write, from its error.
//
//   - If a write gets no answer, the store reads the item. The references of a write are unique
//     to it, so an item that has one of them was written. If the item still has a reference
//     that the write would change, the write has not been applied. The store then sends it
//     again with the same objects. Otherwise the outcome is unknown: there was no item before,
//     or another
//     write has followed. Then nothing is removed. A write that changes no large attribute
//     leaves no such trace.
//   - After a conflict the store reads the item in the same way, since a proxy can repeat a
//     request.
//   - An error with the outcome applied says that the item was written, and that after a
//     delay of half the orphan age one of its objects was not found. Such a write returns
//     its [Result] with the error.
//
// Package itemtest checks the contract of a [Table].
package largeitem
