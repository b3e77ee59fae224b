package s3bucket

// SetPartSize makes parts smaller than the protocol allows, for fast tests.
func SetPartSize(b *Bucket, size int64) { b.o.PartSize, b.copyPart = size, size }
