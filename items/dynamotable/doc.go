// Package dynamotable stores items in a table of Amazon DynamoDB. It implements [largeitem.Table].
//
// # Guarantees
//
// Every write is one PutItem, UpdateItem or DeleteItem with its condition. The table sends each
// write once. The retries of the SDK are off: if the first request was applied, a repeated request
// would get a conflict. Reads are consistent. The table repeats reads after throttling and lost
// answers. A throttled write was not applied, and [store.OutcomeOf] says so. A write without an
// answer has an unknown outcome.
//
// The refusal of a write carries the present item ([largeitem.ConditionFailedError].Current), so
// the caller needs no further request to read it. Some DynamoDB-compatible servers omit the item.
// So the table takes a refusal without an item as "there is no item" only if an earlier refusal of
// this server carried an item. Otherwise HasCurrent of the error is false.
//
// # The table
//
// The table has a partition key and optionally a sort key; each is a text or a number. Binary keys
// are refused. Other attributes can have all ten types and any names. A write does not change
// attributes that it does not name. [CreateTable] creates a table; the package can also use an
// existing table.
//
// The table refuses a global table whose regions do not share one order of writes. If two regions
// of such a table update an item at the same time, DynamoDB keeps only one of the updates. The
// item that remains could refer to a deleted object. See [Options].GlobalTable.
//
// # Expressions
//
// [largeitem.Change].Expr may be an [Update], and [largeitem.Condition].Expr may be a
// [Condition]. Each is an expression of DynamoDB with its names and values. The table sends it in
// one request with the rest of the change. For other writes, such as a transaction, see
// [Table.UpdateOf].
//
// # Rights
//
// The file policies/aws/dynamodb-items.json of the repository lists the rights.
package dynamotable
