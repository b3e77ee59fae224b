// Package dynamostore keeps registers in a table of Amazon DynamoDB.
//
//	s, err := dynamostore.Open(ctx, "dynamodb://holdfast/app?region=eu-central-1", nil)
//
// # The table
//
// The table has a partition key "part" and a sort key "key", both strings;
// [CreateTable] makes it, as "holdfast init" does. One register is one item:
//
//	part     one hexadecimal digit: the first of the SHA-256 of the key attribute
//	key      the key of the register, with the prefix
//	version  its number and a nonce, new in every write
//	after    the nonces of up to seven states before, newest first
//	value    the value as text, or bytes, where it is not UTF-8
//	deleted  true in a tombstone
//
// The sixteen parts spread the load of many locks over the table's partitions, of
// which each takes a thousand writes a second. A listing is one query for each part
// that reads only what is below its prefix, whatever else is in the table; a
// scan, which a table with a partition key alone would need, reads it all.
//
// Nothing of ours is a number, so that no TTL setting of the table can remove it:
// expiry of a table's items is garbage collection, hours late, and no client
// hears of it. Deleted registers stay as tombstones.
//
// # Requests
//
// A write is one PutItem with a condition on the version, and asks for the item
// that is in the way of the condition (ALL_OLD): a conflict costs no more than a
// success, gives the state that it found, and shows whether a lost reply was our
// own success. A write without an answer is sent again, the same item under the
// same condition, so that at most one of them is applied, and the refusal of the
// second shows that the first was applied. A read is one GetItem, consistent. The retries of the
// SDK are off in every call, also on a client that is passed in.
//
// Throttling is answered with status 400 and certain: DynamoDB documents that a
// request which is refused as ProvisionedThroughputExceededException,
// ThrottlingException or RequestLimitExceeded was not carried out. It is sent again
// after a growing random pause.
//
// # Safety
//
// The first write of a [Store] looks at the table: the wrong keys are reported, and a
// global table is refused whose regions do not share one order of writes, since
// conditions hold in one region only there. On an endpoint other than Amazon's it
// also tries whether conditions are honoured. [Options].Trusted leaves both out.
//
// # Rights
//
// The file policies/aws/dynamodb-locks.json of the repository is a policy to paste. Registers and
// leases need dynamodb:GetItem, PutItem and DescribeTable, and listings Query. Without DescribeTable
// the look at the table is left out, with a warning in the log. [Store.Erase] needs DeleteItem: it
// serves the sweep, the doctor, and the probe of an endpoint other than Amazon's. For the rights of
// [CreateTable] see policies/aws/dynamodb-init.json.
package dynamostore
