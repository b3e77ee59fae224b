package s3store

import "github.com/holdfast-go/holdfast/aws/s3bucket"

// S3Bucket returns the bucket of the registers.
func (s *Store) S3Bucket() *s3bucket.Bucket { return s.bucket }
