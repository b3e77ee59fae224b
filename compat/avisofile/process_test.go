//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package avisofile_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/compat/avisofile"
	"github.com/holdfast-go/holdfast/store"
)

// The test binary is every process of the tests: this variable selects its role.
const roleVariable = "AVISOFILE_TEST_ROLE"

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVariable); role {
	case "":
		os.Exit(m.Run())
	case "peer":
		serve(peerCommands())
	case "store":
		serve(storeCommands())
	case "bench":
		benchProcess(os.Args[1], os.Args[2], os.Args[3])
	case "contend":
		contend(os.Args[1], os.Args[2], os.Args[3])
	case "careless":
		careless(os.Args[1])
	case "writers":
		writers(os.Args[1], os.Args[2], os.Args[3])
	default:
		panic("unknown role " + role)
	}
}

// serve answers each line of the standard input with one line:
//
//	open PATH                 ok, or err and why
//	key NAME                  the key of that name
//	put NAME SEQUENCE EVENT   (EVENT: JSON) ok or a status, or err and why
//	del NAME                  the same
//	get NAME                  the checkpoint as in the file, or none
func serve(answer func(ctx context.Context, fields []string) string) {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		fields := strings.SplitN(in.Text(), " ", 4)
		if fields[0] == "key" {
			fmt.Println(resumeKey(fields[1]))
			continue
		}
		fmt.Println(answer(context.Background(), fields))
	}
}

func parsePut(fields []string) mark {
	var m mark
	var err error
	if m.Sequence, err = strconv.ParseUint(fields[2], 10, 64); err != nil {
		panic(err)
	}
	if err := json.Unmarshal([]byte(fields[3]), &m.Event); err != nil {
		panic(err)
	}
	return m
}

func answerOf(err error) string {
	if err != nil {
		return "err " + err.Error()
	}
	return "ok"
}

func peerCommands() func(context.Context, []string) string {
	var p *peer
	return func(_ context.Context, f []string) string {
		var err error
		switch f[0] {
		case "open":
			p, err = openPeer(f[1])
		case "put":
			err = p.put(resumeKey(f[1]), parsePut(f))
		case "del":
			err = p.delete(resumeKey(f[1]))
		case "get":
			m, ok := p.memory[resumeKey(f[1])]
			if !ok {
				return "none"
			}
			b, _ := json.Marshal(m)
			return string(b)
		}
		return answerOf(err)
	}
}

// storeCommands are those of a Store. They return statuses and outcomes. "get" is from
// memory, "read" from the file.
func storeCommands() func(context.Context, []string) string {
	var s *avisofile.Store
	return func(ctx context.Context, f []string) string {
		var err error
		switch f[0] {
		case "open":
			s, err = avisofile.Open(f[1], &avisofile.Options{Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
		case "restore":
			_, err = avisofile.Restore(ctx, f[1], nil)
		case "put":
			m := parsePut(f)
			p := checkpoint.Position{Sequence: m.Sequence}
			if m.Event != nil {
				p.EventID = *m.Event
			}
			var r checkpoint.Result
			if r, err = s.Advance(ctx, resumeKey(f[1]), p, nil); r.Status != 0 {
				return r.Status.String()
			}
		case "fence":
			m := parsePut(append(f, "null"))
			_, err = s.Fence(ctx, resumeKey(f[1]), m.Sequence)
		case "reset":
			m := parsePut(append(f, "null"))
			_, err = s.Reset(ctx, resumeKey(f[1]), checkpoint.Position{Sequence: m.Sequence}, &checkpoint.ChangeOptions{Force: true})
		case "del":
			_, err = s.Delete(ctx, resumeKey(f[1]), nil)
		case "get", "read":
			var c checkpoint.Checkpoint
			c, err = s.Get(ctx, resumeKey(f[1]), &checkpoint.GetOptions{Cached: f[0] == "get"})
			if errors.Is(err, store.ErrNotFound) {
				return "none"
			}
			if err == nil {
				return fmt.Sprintf("%d epoch %d token %d", c.Sequence, c.Epoch, c.Token)
			}
		}
		if err != nil {
			return fmt.Sprintf("err %s: %v: denied %v", store.OutcomeOf(err), err, errors.Is(err, store.ErrDenied))
		}
		return "ok"
	}
}

// writers advances keys as fast as it can, for ever: it is made to be killed. It
// prints each position and token that was acknowledged.
func writers(path, first, count string) {
	s, err := avisofile.Open(path, nil)
	if err != nil {
		fmt.Println("err", err)
		os.Exit(1)
	}
	from, _ := strconv.Atoi(first)
	n, _ := strconv.Atoi(count)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { fmt.Println("err", advanceForEver(s, fmt.Sprintf("k%d", from+i))) })
	}
	wg.Go(func() { fmt.Println("err", resetForEver(s, fmt.Sprintf("r%d", from))) })
	wg.Wait()
}

// resetForEver moves a key back one by one: in epoch E it is at resetSequence(E).
func resetForEver(s *avisofile.Store, name string) error {
	ctx, key := context.Background(), resumeKey(name)
	c, err := s.Get(ctx, key, nil)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	for {
		if c, err = s.Reset(ctx, key, at(resetSequence(c.Epoch+1)), nil); err != nil {
			return err
		}
		fmt.Println("epoch", name, c.Epoch)
		time.Sleep(time.Millisecond) // a reset costs as much as several advances
	}
}

func resetSequence(epoch uint64) uint64 { return 1e9 - epoch }

// advanceForEver advances a key one by one, and raises its token now and then.
func advanceForEver(s *avisofile.Store, name string) error {
	ctx, key := context.Background(), resumeKey(name)
	c, err := s.Get(ctx, key, nil)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	token := c.Token
	for seq := c.Sequence + 1; ; seq++ {
		if seq%16 == 1 {
			token++
			if _, err := s.Fence(ctx, key, token); err != nil {
				return err
			}
			fmt.Println("token", name, token)
		}
		r, err := s.Advance(ctx, key, checkpoint.Position{Sequence: seq, EventID: name}, &checkpoint.AdvanceOptions{Token: token})
		if err != nil {
			return err
		}
		if r.Status != checkpoint.Advanced {
			return fmt.Errorf("%v at %d: %+v", r.Status, seq, r.Current)
		}
		fmt.Println("ack", name, seq)
	}
}

// process is another process that answers lines.
type process struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// command returns a command that runs the test binary in a role, under the program
// and arguments before it.
func command(t testing.TB, role string, before []string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	line := append(append(before, self), args...)
	cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = time.Second
	return cmd
}

// start runs a process that answers lines.
func start(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.in, p.out = in, bufio.NewReader(out)
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait() // tests that care for the status have waited
	})
	return p
}

// peerVariable names a program that stands for the other kind in place of the one
// in these tests, and answers the same lines; a real one, for example.
const peerVariable = "AVISOFILE_TEST_PEER"

// startPeer runs a program of the other kind that has opened path.
func startPeer(t testing.TB, path string) *process {
	t.Helper()
	cmd := command(t, "peer", nil)
	if name := os.Getenv(peerVariable); name != "" {
		cmd = exec.CommandContext(t.Context(), name)
	}
	p := start(t, cmd)
	p.want("ok", "open %s", path)
	return p
}

func (p *process) send(format string, args ...any) {
	p.t.Helper()
	if _, err := fmt.Fprintf(p.in, format+"\n", args...); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) receive() string {
	p.t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatalf("the other process: %v after %q", err, line)
	}
	return strings.TrimSuffix(line, "\n")
}

func (p *process) ask(format string, args ...any) string {
	p.t.Helper()
	p.send(format, args...)
	return p.receive()
}

func (p *process) want(answer, format string, args ...any) {
	p.t.Helper()
	if got := p.ask(format, args...); got != answer {
		p.t.Fatalf("%s: got %q, want %q", fmt.Sprintf(format, args...), got, answer)
	}
}
