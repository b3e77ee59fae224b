// Package reserve lets one writer at a time work on a state of an object, where the
// bucket itself has no condition for the operation: a store that ignores If-Match, or a
// delete or rename that has no condition on any store.
//
// # The protocol
//
// A reservation is a row in a [Table]. It belongs to a key and a version of an object; an
// empty version stands for "there is no object". The protocol is that of the DynamoDB
// table of object_store, releases 0.9 to 0.12; package aws/reservation keeps that table,
// and both programs exclude each other on it. [NewStoreTable] keeps a table on any register.
//
// A writer
//
//  1. checks that the object is in the state that its operation names (HEAD),
//  2. inserts a row for that state; if one is there already, it waits,
//  3. operates until its timeout has passed since it sent the row,
//  4. leaves the row as it is when the operation was applied or may have been.
//
// It costs the check and one write of the table. Every row outlives its operation:
// another writer may have checked the object before that operation, and the row keeps it
// from operating without another check.
//
// A waiter checks the object again and again. When the object has left the state, the
// waiter's operation fails with the error of the check. A few times it also looks at the
// row, by an insertion: its holder may have released it. When the waiter has seen the same
// row for longer than the timeout in the row times [Options].Rate, it takes the row over:
// conditional on everything that identifies the row, with a higher generation. Then it
// checks the object once more, and operates.
//
// # What is promised
//
// At most one of the operations on one state of an object is applied, if
//
//   - all writers of the object reserve its states in the same table,
//   - no clock runs more than Rate times as fast as another, and
//   - the store applies an operation, or never does, within timeout times (Rate-1) after
//     the operation's context has ended.
//
// The last one is an assumption about the store that no reservation can remove. Where
// the store honours a condition, send it with the operation: then the store refuses a late
// write, and nothing depends on time. Versions that return (an ETag of equal bytes) name
// the same state again: it can be reserved again when the earlier row has been waited out,
// at once if this [Reserver] knows that its own operation is over.
//
// # What is better than in object_store
//
//   - An operation that was certainly not applied releases its row: the row gets the next
//     generation and a timeout of 0, so that every waiter of either program may take it
//     over at once. A row is never deleted: a waiter of object_store fails when the row
//     that it waits for disappears.
//   - When the reply to a row's write is lost, the writer finds its own row by its nonce.
//     The time of its operation counts from the first try.
//   - A writer whose row took so long that less than half of its timeout is left renews the
//     row before it operates.
//   - A take-over names the generation, the time to live and the nonce that the waiter has
//     seen, so that it cannot hit a new row which has the generation of an old one.
//   - Goroutines of one Reserver that want one state wait in line: one of them checks, and
//     the others get its result. The pauses of waiters grow and are jittered.
package reserve
