// Package dynamostore stores registers in a table of Amazon DynamoDB.
//
//	s, err := dynamostore.Open(ctx, "dynamodb://holdfast/app?region=eu-central-1", nil)
//
// # The table
//
// The table has a partition key "part" and a sort key "key"; both are strings. [CreateTable] and
// "holdfast init" create it. One register is one item:
//
//	part     one hexadecimal digit: the first digit of the SHA-256 of the key attribute
//	key      key of the register, with the prefix
//	version  number and nonce, new in every write
//	after    nonces of up to seven earlier states, newest first
//	value    value as text, or as bytes if it is not UTF-8
//	deleted  true in a tombstone
//
// The sixteen parts spread the load of many locks over the partitions of the table. Each
// partition accepts a thousand writes a second. A listing is one query for each part, and reads
// only the keys below its prefix. With a partition key alone, a listing would scan the whole
// table.
//
// No attribute is a number, so a TTL setting of the table cannot remove an item. TTL is unsuitable
// for locks: the removal can be hours late, and clients do not notice it. Deleted registers remain
// as tombstones.
//
// # Requests
//
// A write is one PutItem with a condition on the version. If DynamoDB refuses the write, it returns
// the present item (ALL_OLD). So a conflict costs one request, like a success. If a write gets no
// answer, the store sends the same item again under the same condition. At most one of the two
// requests is applied. If the first request was applied, DynamoDB refuses the second request. The
// refusal contains the item of the first request, so the store knows that the write was applied. A
// read is one consistent GetItem. The store switches off the retries of the SDK, even in a client
// that the program passes.
//
// A throttled write was not applied: DynamoDB documents this for the errors
// ProvisionedThroughputExceededException, ThrottlingException and RequestLimitExceeded. The store
// sends a throttled request again after a growing random pause.
//
// # Safety
//
// Before its first write, a [Store] checks the table. It refuses a table with the wrong keys. It
// refuses a global table whose regions do not have the same order of writes, because such a table
// checks a condition only in one region. If the endpoint is not Amazon's, the Store also tests
// whether the server checks conditions. With [Options].Trusted the Store makes none of these
// checks.
//
// # Rights
//
// The folder policies/aws of the repository lists the rights: dynamodb-locks.json for registers and
// leases, dynamodb-init.json for [CreateTable]. Without DescribeTable the Store does not check the
// table, and logs a warning. A global table of the version 2017.11.29 is found only with the right
// DescribeGlobalTable. Only [Store.Erase] needs DeleteItem. Erase is part of a sweep, of
// "holdfast doctor", and of the test of an endpoint that is not Amazon's.
package dynamostore
