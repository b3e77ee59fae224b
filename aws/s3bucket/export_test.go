package s3bucket

// IsAWS and BucketID read the options of a client.
var (
	IsAWS    = isAWS
	BucketID = bucketID
)

// SetPartSize makes parts smaller than the protocol allows, for fast tests.
func SetPartSize(b *Bucket, size int64) { b.o.PartSize, b.copyPart = size, size }

// SetTries sets how often a request is sent at most that may be repeated.
func SetTries(b *Bucket, tries int) { b.tries = tries }

// PartSizes returns the size of all parts together, and of the largest, when a body of
// this length fills as many parts as it can; a length of 0 is not known.
func PartSizes(b *Bucket, length int64) (sum, largest int64) {
	u := &upload{b: b, total: length}
	u.PartSize = b.partSize(length)
	for n := 1; n <= maxParts; n++ {
		size := u.sizeOf(n)
		sum, largest = sum+size, max(largest, size)
	}
	return sum, largest
}
