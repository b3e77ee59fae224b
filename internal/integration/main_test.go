package integration_test

import (
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/internal/integration/servers"
)

// set holds the servers of this test process. It is a variable because TestMain,
// which ends them, has no other way to reach the tests.
var set servers.Set

func TestMain(m *testing.M) {
	if job := os.Getenv(workerVar); job != "" {
		work(job) // this process is a worker of the torture
	}
	os.Exit(set.Main(m))
}

// torture reports whether the long versions of the tests are wanted.
func torture() bool { return os.Getenv("HOLDFAST_TORTURE") == "1" }

// s3Servers names every S3 server once, so that a test can be a loop over them. A
// server is started when its test begins.
func s3Servers() map[string]func(testing.TB) servers.S3 {
	return map[string]func(testing.TB) servers.S3{
		"versitygw": set.VersityGW,
		"minio":     set.MinIO,
	}
}
