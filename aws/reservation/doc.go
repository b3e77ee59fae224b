// Package reservation keeps reservations in the DynamoDB table of object_store, the Rust
// crate whose releases 0.9 to 0.12 make conditional writes on S3 that way. Programs with
// either library exclude each other on one table. Package reserve has the protocol.
//
//	table, err := reservation.New(client, "locks", nil)
//	r, err := reserve.New(table, &reserve.Options{Timeout: 10 * time.Second})
//	err = r.In(bucket).Do(ctx, "data/manifest.json", info.Version, func(ctx context.Context) error {
//		return anyOperation(ctx)
//	})
//
// # The table
//
// It has the partition key "path" and the sort key "etag", both strings, and should
// remove items by the attribute "ttl"; [CreateTable] makes it. One table serves one
// bucket, since the bucket is not in the key. An item:
//
//	path        S  the key of the object, as it lies in the bucket
//	etag        S  * for "there is no object", otherwise the ETag with its double quotes
//	generation  N  rises with every write of the item
//	timeout     N  milliseconds that the holder has for its operation; 0: released
//	ttl         N  Unix seconds from which the table may remove the item
//	nonce       S  new for every operation of this package; object_store has none
//
// object_store writes generations from 0 on, and reads items with further attributes of
// type S or N. This package begins at random between 2^32 and 2^62, so that no item has
// the generation of an item that the table has removed.
//
// # Keys
//
// The path is the key of the S3 object, byte for byte, for both programs. object_store
// derives that key from the caller's path: it encodes what is not plain ASCII, for
// example. [Key] does the same: use its result as the key of the object and of the
// reservation where a program of object_store names its objects by Path::from.
//
// # Rights
//
// dynamodb:PutItem on the table is enough. [Table.Rows] needs dynamodb:Scan. [CreateTable] needs dynamodb:CreateTable,
// DescribeTable, DescribeTimeToLive and UpdateTimeToLive; [Table.Describe] needs dynamodb:DescribeTable and
// DescribeTimeToLive.
package reservation
