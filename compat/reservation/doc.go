// Package reservation stores reservations in the DynamoDB table of object_store. object_store is a
// Rust crate. Its releases 0.9 to 0.12 use this table for conditional writes on S3. If a program
// with object_store and a program with this package use the same table, they exclude each other.
// Package reserve describes the protocol.
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
// The table has the partition key "path" and the sort key "etag", both strings. DynamoDB should be
// set up to remove expired items by the attribute "ttl". [CreateTable] creates such a table. Use
// one table for each bucket, because the key does not contain the bucket. An item has these
// attributes:
//
//	path        S  key of the object in the bucket
//	etag        S  ETag with its double quotes, or * for "there is no object"
//	generation  N  number that increases with every write of the item
//	timeout     N  time limit of the holder's operation in milliseconds; 0: released
//	ttl         N  Unix seconds from which the table may remove the item
//	nonce       S  new for every operation of this package; object_store has none
//
// object_store begins with generation 0. It can read items with further attributes of type S or N.
// This package begins with a random generation between 2^32 and 2^62. So a new item does not get
// the generation of an item that the table has removed.
//
// # Keys
//
// In both libraries, the attribute path is the key of the S3 object, byte for byte. object_store
// computes this key from the caller's path: for example, it encodes characters that are not ASCII.
// [Key] does the same. If another program names its objects by Path::from of object_store, use the
// result of Key as the key of the object and of the reservation.
//
// # Rights
//
// The file policies/aws/dynamodb-reservations.json of the repository lists the rights. A
// reservation needs only dynamodb:PutItem. [Table.Rows] needs dynamodb:Scan. [CreateTable] needs
// CreateTable, DescribeTable, DescribeTimeToLive and UpdateTimeToLive.
package reservation
