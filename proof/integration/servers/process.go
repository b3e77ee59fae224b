package servers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// commandFunc returns the command that runs a server on an address, with its data
// below dir. The command's Env is what the server needs beyond that of this process.
type commandFunc func(dir, address string) (*exec.Cmd, error)

// watchdog runs a server ("$@") and ends it when the other end of file descriptor 3
// is closed: by stop, or by the end of the process that started it, however that
// came. It removes the server's directory at last.
//
// The parent-death signal of Linux would not do: it comes when the thread ends that
// started the child, is unknown elsewhere, and leaves the data behind.
const watchdog = `
dir=$1; shift
"$@" 3<&- &
server=$!
{ cat >/dev/null; kill -9 "$server" 2>/dev/null; } <&3 &
watcher=$!
wait "$server"
status=$?
kill "$watcher" 2>/dev/null
rm -rf "$dir"
exit "$status"
`

// process is a running server under its watchdog.
type process struct {
	pipe *os.File // closing it ends the server
	done chan struct{}
	once sync.Once
}

// launch runs a server on a free port and waits until ready succeeds. It tries
// again with another port if the server ends at once: another program may have
// taken the port in between.
func launch(ctx context.Context, name string, command commandFunc, ready func(ctx context.Context, address string) error) (*process, error) {
	var errs []error
	for range 3 {
		p, err := launchOnce(ctx, name, command, ready)
		if err == nil {
			return p, nil
		}
		errs = append(errs, err)
		if !errors.Is(err, errEnded) {
			break
		}
	}
	return nil, errors.Join(errs...)
}

var errEnded = errors.New("the server ended")

func launchOnce(ctx context.Context, name string, command commandFunc, ready func(ctx context.Context, address string) error) (*process, error) {
	sh, err := lookPath("sh")
	if err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(os.Getenv("TEST_SERVER_DATA"), "holdfast-"+name+"-")
	if err != nil {
		return nil, err
	}
	inner, err := command(dir, address)
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	p, output, err := run(sh, dir, inner)
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	if err := p.await(ctx, func(ctx context.Context) error { return ready(ctx, address) }); err != nil {
		log, _ := os.ReadFile(output)
		p.stop()
		return nil, fmt.Errorf("start %s: %w\n%s", name, err, tail(log))
	}
	return p, nil
}

// run starts a command under its watchdog, with its output in a file in dir.
func run(sh, dir string, inner *exec.Cmd) (p *process, output string, err error) {
	output = filepath.Join(dir, "output")
	log, err := os.Create(output)
	if err != nil {
		return nil, "", err
	}
	defer log.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, "", err
	}
	defer r.Close()
	cmd := exec.Command(sh, append([]string{"-c", watchdog, "sh", dir}, inner.Args...)...)
	cmd.Env = append(os.Environ(), inner.Env...)
	cmd.Dir = dir
	// A file, not a pipe: go test waits for every process that holds its own output open.
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{r}
	detach(cmd)
	if err := cmd.Start(); err != nil {
		w.Close()
		return nil, "", err
	}
	p = &process{pipe: w, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // a server that was killed has no status to look at
	}()
	return p, output, nil
}

// await polls until the server answers.
func (p *process) await(ctx context.Context, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		once, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := ready(once)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return errEnded
		case <-ctx.Done():
			return fmt.Errorf("no good answer after %s: %w", startTimeout, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// stop ends the server and waits until its data no longer exists.
func (p *process) stop() {
	p.once.Do(func() { p.pipe.Close() })
	<-p.done
}

// Ports of this process, counted from a random one.
var (
	firstPort = rand.Uint32N(ports)
	takenPort atomic.Uint32
)

const ports = 20_000

// freeAddress returns another loopback address each time, on which no process listened a moment ago. Systems give
// ports from 32768 on to outgoing connections. Such a connection could take the port before the server listens, so
// freeAddress returns ports below.
func freeAddress() (address string, err error) {
	for range 100 {
		address = fmt.Sprint("127.0.0.1:", 12_000+(firstPort+takenPort.Add(1))%ports)
		var l net.Listener
		if l, err = net.Listen("tcp", address); err == nil {
			return address, l.Close()
		}
	}
	return "", err
}

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}
