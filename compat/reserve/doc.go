// Package reserve ensures that only one writer at a time changes an object: each writer makes a
// reservation in a table. Use it for object stores that ignore conditions such as If-Match, and for
// deletes and renames that have no condition.
//
// # Use
//
// Create a table and a [Reserver], and pass the Reserver to an [object.Client]. The client then
// reserves the object before every conditional write:
//
//	table := reserve.NewStoreTable(st) // in any store; or package compat/reservation
//	reserver, err := reserve.New(table, nil)
//	client, err := object.New(bucket, &object.Options{Reserver: reserver})
//
// Use one Reserver for all operations of a program. All writers of the objects must use the same
// table. For other operations, call [Reserver.ForBucket] and [BucketReserver.Do]. [Reserver.List]
// yields the reservations.
//
// # What it promises
//
// The object store applies at most one operation on each state of an object, if three conditions
// are true:
//
//   - All writers of the object use the same table.
//   - No clock runs more than [Options].MaxClockSkewRate times as fast as another clock.
//   - The store does not apply the operation later than Timeout * (MaxClockSkewRate - 1) after
//     the end of the operation's context.
//
// No reservation can ensure the third condition. If the object store supports a condition, also
// send the condition with the operation. Then the object store refuses a late write, and the result
// does not depend on time.
//
// On S3, if a write restores the earlier bytes of an object, the object has its earlier version
// again. Then a writer can find the row of an earlier operation on this version. The writer waits
// until it can take the row over. If the row is from an operation of the same [Reserver], and this
// operation has ended, the writer does not wait.
//
// # The protocol
//
// A reservation is a row in a [Table]. It belongs to a key and a version of an object. An empty
// version means that there is no object. The Rust crate object_store, releases 0.9 to 0.12, makes
// conditional writes on S3 through a DynamoDB table. This package follows the same protocol.
// Package compat/reservation implements that table, so programs with object_store and programs with
// this package exclude each other. [NewStoreTable] returns a table in any [store.Store].
//
// A writer
//
//  1. checks that the object is in the state that its operation names (HEAD),
//  2. inserts a row for that state, or waits if there is a row,
//  3. operates for at most Options.Timeout, counted from the moment before it sends the row,
//  4. leaves the row in the table. The writer releases the row only if the operation was certainly
//     not applied.
//
// A reservation costs the check and one write to the table. The row remains after the operation,
// because another writer may have checked the object before the operation. Because of the row, that
// writer checks the object again.
//
// A waiter checks the object repeatedly. When the object has another state, the waiter's operation
// fails with the error of the check. From time to time the waiter tries to insert its row. If there
// is another row, the answer contains that row, and shows whether its holder has released it. If a
// row has not changed for its timeout multiplied by MaxClockSkewRate, a waiter takes it over. The
// takeover replaces exactly the row that the waiter has seen, and raises its number, the
// generation. Then the waiter checks the object once more, and starts its operation.
//
// # Differences from object_store
//
//   - If an operation was certainly not applied, the writer releases its row: it raises the
//     generation and sets the timeout to 0. Then every waiter of either program may take the row
//     over at once. A row is never deleted, because a waiter of object_store fails when its row
//     disappears.
//   - If the reply to the write of a row is lost, the writer recognises its own row by the nonce.
//     The timeout of the operation then begins at the first attempt.
//   - If the write of the row takes so long that less than half of the timeout is left, the writer
//     renews the row before it starts its operation.
//   - A takeover is conditional on the generation, the time to live and the nonce that the waiter
//     has seen. So a takeover cannot replace a new row that has the same generation as an old row.
//   - Goroutines of one Reserver that want the same state wait in a queue. One of them checks the
//     object, and the others get the result. The pauses of waiters grow and are jittered.
package reserve
