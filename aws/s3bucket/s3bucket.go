// Package s3bucket makes an object.Bucket of a bucket on S3 or on a server that
// speaks its protocol.
package s3bucket

import (
	_ "github.com/aws/aws-sdk-go-v2/aws"
	_ "github.com/aws/aws-sdk-go-v2/config"
	_ "github.com/aws/aws-sdk-go-v2/credentials"
	_ "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	_ "github.com/aws/aws-sdk-go-v2/service/s3"
	_ "github.com/aws/smithy-go"
	_ "github.com/holdfast-go/holdfast/store"
)
