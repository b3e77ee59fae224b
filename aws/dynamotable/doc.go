// Package dynamotable keeps items in a table of Amazon DynamoDB: it is a
// [largeitem.Table].
//
// # Guarantees
//
// Every write is one PutItem, UpdateItem or DeleteItem with its condition, sent once: the
// retries of the SDK are off, since a repeated write whose first try was applied is
// reported as a conflict. Reads are consistent, and are repeated when they are throttled
// or get no answer (five times at most). A throttled write was not applied, and says so
// ([store.OutcomeOf]); a write without an answer has an unknown outcome.
//
// A refused write carries the item that it found ([largeitem.ConditionFailedError].Current), without a
// further request. On a server that is not Amazon's, "there is no item" is reported only after
// the server has shown an item to another refusal: some servers leave it out.
//
// # The table
//
// It has a partition key and may have a sort key, each a text or a number. Binary keys are
// refused. Its other attributes may be of all ten types and of any names; those that a
// write does not name stay as they are. [CreateTable] makes a table; others may be used as
// they are. A global table whose regions do not share one order of writes is refused:
// of two updates at the same time in two regions one is lost, and an item can come back
// that refers to an object which was deleted. See [Options].GlobalTable.
//
// # Expressions
//
// [largeitem.Change].Expr may be an [Update] and [largeitem.Condition].Expr a [Condition]:
// an expression of DynamoDB with its names and values. It is sent in one request with the
// rest of the change. For a write of the caller's own, such as a transaction, see
// [Table.UpdateOf].
//
// The rights that the table needs are dynamodb:DescribeTable, GetItem, BatchGetItem,
// PutItem, UpdateItem, DeleteItem and Scan.
package dynamotable
