package filestore_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// The tests need other processes, which they can kill: they run this test binary
// again, as a worker.
const workerEnv = "HOLDFAST_FILESTORE_WORKER"

// workers are what a process can be asked to do, with its arguments.
var workers = map[string]func(args []string) error{
	"present": present,
	"idle":    idle,
}

// A worker that ends by itself, with an error, fails the test through its command.
func TestMain(m *testing.M) {
	name := os.Getenv(workerEnv)
	if name == "" {
		os.Exit(m.Run())
	}
	work := workers[name]
	if work == nil {
		work = systemWorkers[name]
	}
	if err := work(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// worker returns a command that runs a worker. Its errors go to those of the test.
func worker(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, args...)
	cmd.Env = append(os.Environ(), workerEnv+"="+name, "GOMAXPROCS=2", "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	return cmd
}

// testContext is the context of a worker, which is killed and has no other end.
func testContext() context.Context { return context.Background() }

func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill() // it may have ended, which its diary shows
	_ = cmd.Wait()
}
