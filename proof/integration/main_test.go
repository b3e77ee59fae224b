package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/proof/integration/servers"
)

// set holds the servers of this test process. It is a variable because TestMain,
// which ends them, has no other way to reach the tests.
var set servers.Set

// workerVar makes the test binary a worker of the torture; its value is a job in
// JSON.
const workerVar = "HOLDFAST_TEST_WORKER"

func TestMain(m *testing.M) {
	if job := os.Getenv(workerVar); job != "" {
		work(job) // this process is a worker of the torture
	}
	for name, work := range map[string]func(string) error{
		countVar: role(count), uploadVar: role(upload), tableVar: role(keepTable), itemsVar: role(writeItems),
		appendVar: role(on(target.log, appendOne)), cleanVar: role(on(target.log, cleanAllButOne)),
		copyVar: role(on(target.indexed, copySource)), renameVar: role(on(target.indexed, renameSource)),
	} {
		if config := os.Getenv(name); config != "" {
			if err := work(config); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(set.Main(m))
}

// role returns what a process of the tests does with its configuration, in JSON.
func role[C any](do func(C) error) func(string) error {
	return func(config string) error {
		var c C
		if err := json.Unmarshal([]byte(config), &c); err != nil {
			return err
		}
		return do(c)
	}
}

// on opens something on a target, works with it, and prints "done" when that has succeeded.
func on[T any](open func(target) (T, error), do func(context.Context, T) error) func(target) error {
	return func(at target) error {
		opened, err := open(at)
		if err == nil {
			err = do(context.Background(), opened)
		}
		if err == nil {
			fmt.Println("done")
		}
		return err
	}
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
