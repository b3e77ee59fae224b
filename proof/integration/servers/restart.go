package servers

import (
	"context"
	"errors"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/workerpool"
)

// Restartable is a server whose data remain when it ends. So a test can kill it and start it again. Each
// start uses another port.
type Restartable struct {
	name    string
	command func(address string) (*exec.Cmd, error)
	ready   func(ctx context.Context, address string) error

	mu      sync.Mutex
	address string
	proc    *process
}

// newRestartable returns a server that the function command runs. The server is ready if the function
// ready returns nil.
func newRestartable(name string, command func(address string) (*exec.Cmd, error), ready func(ctx context.Context, address string) error) *Restartable {
	return &Restartable{name: name, command: command, ready: ready}
}

// Address returns the address of the present server, 127.0.0.1:PORT. While the server does not run, it is the
// address of the last one.
func (r *Restartable) Address() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.address
}

// Kill ends the server as kill -9 does.
func (r *Restartable) Kill() {
	r.mu.Lock()
	proc := r.proc
	r.proc = nil
	r.mu.Unlock()
	if proc != nil {
		proc.stop()
	}
}

// Start starts the server on a free port. After Kill, the server first recovers its data.
func (r *Restartable) Start(ctx context.Context) error {
	var proc *process
	var address string
	var err error
	for range 20 { // while processes of a server that was killed still end
		proc, err = launch(ctx, r.name, func(_, at string) (*exec.Cmd, error) {
			address = at
			return r.command(at)
		}, r.ready)
		if err == nil {
			break
		}
		time.Sleep(250 * time.Millisecond)
	}
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.address, r.proc = address, proc
	return nil
}

// startFor starts the server, which ends with the test.
func (r *Restartable) startFor(t testing.TB) {
	t.Helper()
	started(t, r.name, func(ctx context.Context) (*Restartable, error) { return r, r.Start(ctx) })
}

// started starts a server, which ends with the test.
func started[T interface{ Kill() }](t testing.TB, name string, start func(ctx context.Context) (T, error)) T {
	t.Helper()
	server := get(t, name, start)
	t.Cleanup(server.Kill)
	return server
}

// startAll starts the members of a cluster. After an error, none of them runs.
func startAll[T interface {
	Start(ctx context.Context) error
	Kill()
}](ctx context.Context, members []T) ([]T, error) {
	n := len(members)
	err := errors.Join(workerpool.Each(n, n, func(i int) error { return members[i].Start(ctx) })...)
	if err != nil {
		for _, m := range members {
			m.Kill()
		}
	}
	return members, err
}

// startedAll starts the members of a cluster, which end with the test.
func startedAll[T interface{ Kill() }](t testing.TB, name string, start func(ctx context.Context) ([]T, error)) []T {
	t.Helper()
	members := get(t, name, start)
	for _, m := range members {
		t.Cleanup(m.Kill)
	}
	return members
}
