// Package reservation keeps reservations in the DynamoDB table of object_store. object_store is a
// Rust crate whose releases 0.9 to 0.12 use that table for conditional writes on S3. Programs
// with either library exclude each other on one table. Package reserve has the protocol.
//
//	table, err := reservation.New(client, "locks", nil)
//	r, err := reserve.New(table, &reserve.Options{Timeout: 10 * time.Second})
//	err = r.ForBucket(bucket).Do(ctx, "data/manifest.json", info.Version, func(ctx context.Context)
//	error {
//		return anyOperation(ctx)
//	})
//
// # The table
//
// The table has the partition key "path" and the sort key "etag", both strings. DynamoDB should
// remove items by the attribute "ttl". [CreateTable] creates such a table. One table serves one
// bucket, because the bucket is not in the key. An item has these attributes:
//
//	path        S  key of the object in the bucket
//	etag        S  ETag with its double quotes, or * for "there is no object"
//	generation  N  number that rises with every write of the item
//	timeout     N  milliseconds that the holder has for its operation; 0: released
//	ttl         N  Unix seconds from which the table may remove the item
//	nonce       S  new for every operation of this package; object_store has none
//
// object_store writes generations from 0 on. It can read items with further attributes of type S
// or N. This package begins at random between 2^32 and 2^62. So no item has the generation of an
// item that the table has removed.
//
// # Keys
//
// The path is the key of the S3 object, byte for byte, for both libraries. object_store derives
// that key from the caller's path: for example, it encodes characters that are not ASCII. [Key]
// does the same. If a program of object_store names its objects by Path::from, use the result of
// Key as the key of the object and of the reservation.
//
// # Rights
//
// policies/aws/dynamodb-reservations.json of the repository has the rights. To reserve,
// dynamodb:PutItem is enough. [Table.Rows] needs dynamodb:Scan, and [CreateTable] needs
// CreateTable, DescribeTable, DescribeTimeToLive and UpdateTimeToLive.
package reservation
