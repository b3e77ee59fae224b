// Package reserve lets one writer at a time work on a state of an object. It is for stores
// that ignore conditions such as If-Match, and for deletes and renames that have no condition.
//
// # Use
//
// Make a table, a [Reserver] on it, and pass that to an [object.Client]. The client then
// reserves the object before every conditional write:
//
//	table := reserve.NewStoreTable(st) // in any store; or package aws/reservation
//	reserver, err := reserve.New(table, nil)
//	client, err := object.New(bucket, &object.Options{Reserver: reserver})
//
// Use one Reserver for all operations of a program. All writers of the objects must use the
// same table. For an operation of your own, call [Reserver.ForBucket] and
// [BucketReserver.Do]. [Reserver.List] shows the reservations.
//
// # What it promises
//
// The store applies at most one of the operations on one state of an object, if
//
//   - all writers of the object reserve its states in the same table,
//   - no clock runs more than [Options].MaxClockSkewRate times as fast as another, and
//   - after the operation's context has ended, the store applies the operation within
//     timeout times (MaxClockSkewRate-1), or never.
//
// The last one is an assumption about the store that no reservation can remove. Where
// the store honours a condition, send it with the operation. Then the store refuses a late
// write, and nothing depends on time.
//
// A version that returns (an ETag of equal bytes) names the same state again. A writer can
// reserve that state again after it has waited for the earlier row, or at once if its
// [Reserver] knows that its own operation is over.
//
// # The protocol
//
// A reservation is a row in a [Table]. It belongs to a key and a version of an object; an
// empty version means that there is no object. The protocol is that of the DynamoDB
// table of object_store, releases 0.9 to 0.12. Package aws/reservation keeps that table,
// and both programs exclude each other on it. [NewStoreTable] keeps a table on any register.
//
// A writer
//
//  1. checks that the object is in the state that its operation names (HEAD),
//  2. inserts a row for that state; if there is a row already, it waits,
//  3. operates until its timeout has passed since it sent the row,
//  4. leaves the row as it is when the operation was applied or may have been.
//
// It costs the check and one write of the table. Every row outlives its operation:
// another writer may have checked the object before that operation. The row keeps that writer
// from operating without another check.
//
// A waiter checks the object again and again. When the object has left the state, the
// waiter's operation fails with the error of the check. A few times the waiter also reads the
// row, by an insertion: the holder may have released it. A waiter takes a row over when it has
// seen the same row for longer than the timeout in the row times MaxClockSkewRate. The
// take-over is conditional on everything that identifies the row, and has a higher
// generation. Then the waiter checks the object once more, and operates.
//
// # What is better than in object_store
//
//   - An operation that was certainly not applied releases its row. The row gets the next
//     generation and a timeout of 0, so that every waiter of either program may take it
//     over at once. A row is never deleted: a waiter of object_store fails when the row
//     that it waits for disappears.
//   - When the reply to a row's write is lost, the writer finds its own row by its nonce.
//     The time of its operation counts from the first try.
//   - If writing the row took so long that less than half of its timeout is left, the writer
//     renews the row before it operates.
//   - A take-over names the generation, the time to live and the nonce that the waiter has
//     seen. So it cannot replace a new row that has the generation of an old one.
//   - Goroutines of one Reserver that want one state wait in a queue: one of them checks, and
//     the others get its result. The pauses of waiters grow and are jittered.
package reserve
