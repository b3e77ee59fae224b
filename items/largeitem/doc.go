// Package largeitem stores database items that have large attributes. The item itself, a few
// hundred bytes, is in a table. Each large attribute is an object in a bucket. The item has a
// reference to each object: the name, hash and size of the object.
//
// # Use
//
// Create a [Store] for a table and a bucket:
//
//	s, err := largeitem.New(table, bucket, &largeitem.Options{Attributes: []string{"body"}})
//
// Write items with [Store.Create], [Store.Update], [Store.Upsert] and [Store.Replace]. Pass the
// contents of large attributes as a [Large]. Each content is a [Text], [Bytes], or a [Source] with
// any reader. Large and small attributes change in one atomic write:
//
//	_, err = s.Update(ctx, key, largeitem.Change{Set: largeitem.Attributes{"title": "Report"}},
//		largeitem.Large{"body": largeitem.Source{Body: file}}, nil)
//
// To read an item, call [Store.Get], which opens the large attributes, or [Store.GetMeta], which
// does not open them. [Store.List] yields all items, and [Store.Delete] deletes one item:
//
//	item, err := s.Get(ctx, key, nil)
//	defer item.Close()
//	_, err = io.Copy(w, item.Body("body"))
//
// Run [Store.Sweep] once a day: it removes objects that no item refers to. [Store.Verify] checks
// the objects of all items. [Store.Prepare] only uploads the objects. Use Prepare if a transaction
// or another program writes the item itself.
//
// These packages are tables: memtable (memory), storetable (any store of package store, for
// example files), sqltable (a SQL database), and items/dynamotable (DynamoDB). The bucket is any
// [object.Bucket].
//
// # What it promises
//
//   - An item never refers to an object that does not exist. The store writes the objects before
//     the item. No two writes use the same object name, and the store never changes an object.
//     Before the store changes an item, it reads the references in the item. It then writes the
//     item on the condition that these references have not changed. The store deletes an object
//     only if the item has no reference to the object, or if the item does not exist.
//   - After an unknown outcome the store deletes nothing. [Store.Sweep] removes unused objects
//     after the orphan age.
//   - A reader gets the bytes that were written, or an error: the store verifies size and SHA-256
//     while the reader reads.
//
// # What it assumes
//
//   - A sweep never removes an object that is younger than the orphan age of the table: 24 hours by
//     default, at least one hour. The marker is an object in the bucket that records this age; see
//     [Store.ChangeOrphanAge]. A write of an item takes effect within half of this age after it was
//     sent, or never. Every writer finishes within half of this age.
//   - Only this package writes references. A program that uses [Store.Prepare] writes the
//     references that this call returns.
//
// # Outcomes
//
// To get the outcome of a write, pass its error to [store.OutcomeOf]. If a write gets no answer,
// the store reads the item:
//
//   - If the item has a reference of the write, the write was applied, because no two writes have
//     the same reference.
//   - If the item still has a reference that the write would change, the write has not been
//     applied. The store sends it again with the same objects.
//   - Otherwise the outcome is unknown, and the store removes nothing. This happens in three cases:
//     there was no item before, another write has followed, or the write changes no large
//     attribute.
//
// After a conflict the store reads the item in the same way, because a proxy can repeat a
// request.
//
// The outcome of an error can also be "applied". Then the item was written, but an object of the
// item may be missing, because the write took too long. Such a write returns its [Result] with the
// error.
//
// Package itemtest checks the contract of a [Table].
package largeitem
