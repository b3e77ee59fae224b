package integration_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/holdfast-go/holdfast/aws/dynamostore"
	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/aws/s3store"
	"github.com/holdfast-go/holdfast/compat/s3verstore"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/store"
)

// target is a space of registers on a server, in a form that another process can be
// given.
type target struct {
	Kind   string // "s3", "s3versioned", "dynamodb", "file"
	S3     servers.S3
	Dynamo servers.Dynamo
	Space  string // the bucket, the table or the directory
	Prefix string
	Life   time.Duration // of "s3versioned": how long a PUT may be under way
	File   fileFaults    // of "file"
}

// open opens the space, which exists, as a program would.
func (a target) open(context.Context) (store.Store, error) {
	switch a.Kind {
	case "s3":
		b, err := a.bucket(nil)
		if err != nil {
			return nil, err
		}
		return s3store.New(b, a.Prefix, nil)
	case "s3versioned":
		b, err := a.bucket(nil)
		if err != nil {
			return nil, err
		}
		return s3verstore.New(b, a.Prefix, &s3verstore.Options{PutLifetime: a.Life})
	case "dynamodb":
		return dynamostore.New(a.Dynamo.Client(), a.Space, &dynamostore.Options{Prefix: a.Prefix})
	case "file":
		return openFile(a)
	}
	return nil, fmt.Errorf("no registers of kind %q", a.Kind)
}

// bucket opens the bucket of a target on S3. The client is the SDK's with its
// default retries, as a user would pass it in.
func (a target) bucket(opts *s3bucket.Options, client ...func(*s3.Options)) (*s3bucket.Bucket, error) {
	return s3bucket.New(a.S3.Client(client...), a.Space, opts)
}

// endpoint is the address of the server.
func (a target) endpoint() string {
	if a.Kind == "dynamodb" {
		return a.Dynamo.Endpoint
	}
	return a.S3.Endpoint
}

// at is the same space behind another address, a proxy's.
func (a target) at(endpoint string) target {
	a.S3.Endpoint, a.Dynamo.Endpoint = endpoint, endpoint
	return a
}

// kind is a kind of registers on a server.
type kind struct {
	name string
	ttl  time.Duration // a short lease there

	// target makes an empty space.
	target func(t *testing.T) target
}

// kinds are all kinds of registers that the tests run on.
func kinds() []kind {
	return []kind{
		{"s3/versitygw", 2 * time.Second, func(t *testing.T) target {
			s := set.VersityGW(t)
			return target{Kind: "s3", S3: s, Space: s.NewBucket(t, false)}
		}},
		{"s3/minio", 2 * time.Second, func(t *testing.T) target {
			s := set.MinIO(t)
			return target{Kind: "s3", S3: s, Space: s.NewBucket(t, false)}
		}},
		{"dynamodb", 2 * time.Second, func(t *testing.T) target {
			s := set.DynamoDB(t)
			a := target{Kind: "dynamodb", Dynamo: s, Space: servers.Unique("table")}
			if err := dynamostore.CreateTable(t.Context(), s.Client(), a.Space, nil); err != nil {
				t.Fatal(err)
			}
			return a
		}},
	}
}

// versioned are the registers on buckets with versions, which ask no conditions of
// the server. A write takes six fifths of life.
func versioned(life time.Duration) []kind {
	var all []kind
	for name, start := range s3Servers() {
		all = append(all, kind{"s3versioned/" + name, 4*life + 6*time.Second, func(t *testing.T) target {
			s := start(t)
			return target{Kind: "s3versioned", S3: s, Space: s.NewBucket(t, true), Life: life}
		}})
	}
	return all
}

// eachKind runs a test on all kinds of registers at the same time: they mostly wait
// for different servers.
func eachKind(t *testing.T, f func(t *testing.T, k kind)) { eachOf(t, kinds(), f) }

func eachOf(t *testing.T, kinds []kind, f func(t *testing.T, k kind)) {
	var wg sync.WaitGroup
	for _, k := range kinds {
		wg.Go(func() { t.Run(k.name, func(t *testing.T) { f(t, k) }) })
	}
	wg.Wait()
}

// kindNamed is one kind of registers.
func kindNamed(t *testing.T, name string) kind {
	t.Helper()
	for _, k := range kinds() {
		if k.name == name {
			return k
		}
	}
	t.Fatalf("no kind of registers %q", name)
	return kind{}
}
