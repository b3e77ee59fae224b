package s3verstore_test

import (
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/aws/awstest"
)

// newBucket returns a server with one versioned bucket.
func newBucket() *awstest.S3 {
	b := awstest.NewS3("bucket")
	b.Versioning = "Enabled"
	return b
}

// live returns the visible versions of an object, oldest first.
func live(b *awstest.S3, key string) []awstest.Version { return b.Versions("bucket", key) }

// put puts a version as another program would, and returns its id.
func put(b *awstest.S3, key, body string, meta map[string]string) (id string) {
	return b.PutMeta("bucket", key, []byte(body), meta)
}

// ops returns the operations of the requests since the last call.
func ops(b *awstest.S3) []string {
	defer b.Reset()
	return b.Ops()
}

// brief returns ops in short words: LIST for ListObjectVersions.
func brief(b *awstest.S3) string {
	return strings.NewReplacer(
		"GetBucketVersioning", "VERSIONING", "GetObjectLockConfiguration", "LOCK", "GetBucketLifecycleConfiguration", "RULES", "ListObjectVersions", "LIST",
		"GetObject", "GET", "HeadObject", "HEAD", "PutObject", "PUT",
	).Replace(strings.Join(ops(b), " "))
}

// drain waits for what is still under way.
func drain() { time.Sleep(10 * time.Minute) }

// dice is a source of random numbers for several goroutines.
type dice struct {
	mu  sync.Mutex
	src rand.Source
}

func newRand(seed, stream uint64) *rand.Rand {
	return rand.New(&dice{src: rand.NewPCG(seed, stream)})
}

func (d *dice) Uint64() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.src.Uint64()
}
