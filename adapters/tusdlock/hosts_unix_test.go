//go:build unix

package tusdlock_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// process is a host of tusd in a process of its own.
type process struct {
	*exec.Cmd
	address string
	stdin   io.Closer
	stdout  *bufio.Reader
}

// line returns the next line that the process prints.
func (p process) line(t *testing.T) string {
	t.Helper()
	line, err := p.stdout.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func (p process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// scene is a set of hosts with one directory.
type scene struct {
	config
	t   *testing.T
	rnd *rand.Rand
}

func newScene(t *testing.T, c config) *scene {
	c.Dir = t.TempDir()
	for _, name := range []string{"data", "locks"} {
		if err := os.Mkdir(filepath.Join(c.Dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return &scene{config: c, t: t, rnd: rand.New(rand.NewPCG(1, c.Faults))}
}

func (s *scene) host() process {
	s.t.Helper()
	text, err := json.Marshal(s.config)
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), configVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Process.Signal(syscall.SIGCONT)
		timer := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
		_ = cmd.Wait()
	})
	p := process{cmd, "", stdin, bufio.NewReader(stdout)}
	p.address = p.line(s.t)
	return p
}

// request sends a request of the tus protocol.
func request(method, url string, body []byte, header ...string) (*http.Response, error) {
	r, err := http.NewRequest(method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Tus-Resumable", "1.0.0")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	client := http.Client{Timeout: 45 * time.Second}
	re, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	text, _ := io.ReadAll(re.Body)
	_ = re.Body.Close()
	if re.StatusCode >= 300 {
		return nil, fmt.Errorf("%s: %s: %s", method, re.Status, text)
	}
	return re, nil
}

// create creates an upload, and returns its id.
func (s *scene) create(p process, size int) string {
	s.t.Helper()
	re, err := request("POST", "http://"+p.address+"/files/", nil, "Upload-Length", strconv.Itoa(size))
	if err != nil {
		s.t.Fatal(err)
	}
	return re.Header.Get("Location")[strings.LastIndex(re.Header.Get("Location"), "/")+1:]
}

// offset asks the host how much of the upload it has.
func offset(p process, id string) (int, error) {
	re, err := request("HEAD", "http://"+p.address+"/files/"+id, nil)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(re.Header.Get("Upload-Offset"))
}

func patch(p process, id string, at int, data []byte) error {
	_, err := request("PATCH", "http://"+p.address+"/files/"+id, data, "Upload-Offset", strconv.Itoa(at), "Content-Type", "application/offset+octet-stream")
	return err
}

// connection is a connection of a client that may be cut.
type connection struct {
	net.Conn
	answers *bufio.Reader
}

// cut sends the first part of a chunk. The connection then stays open without a byte, as when the
// network of the client fails. It returns when the host has stored the part.
func (s *scene) cut(p process, id string, at int, data []byte, part int) (connection, error) {
	s.t.Helper()
	conn, err := net.Dial("tcp", p.address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	c := connection{conn, bufio.NewReader(conn)}
	fmt.Fprintf(c, "PATCH /files/%s HTTP/1.1\r\nHost: test\r\nTus-Resumable: 1.0.0\r\nUpload-Offset: %d\r\n"+
		"Content-Type: application/offset+octet-stream\r\nContent-Length: %d\r\n\r\n%s", id, at, len(data), data[:part])
	for len(s.stored(id)) < at+part {
		if answer := c.late(nil, 5*time.Millisecond); answer != "" {
			return c, errors.New(answer)
		}
	}
	return c, nil
}

// late sends the rest of a chunk, and returns the first line of the host's answer.
func (c connection) late(rest []byte, wait time.Duration) string {
	_, _ = c.Write(rest) // the host may have closed the connection
	_ = c.SetReadDeadline(time.Now().Add(wait))
	if _, err := c.answers.Peek(1); err != nil {
		return ""
	}
	line, _ := c.answers.ReadString('\n')
	return strings.TrimSpace(line)
}

// stored is what the data store has of the upload.
func (s *scene) stored(id string) []byte {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.Dir, "data", id))
	if err != nil {
		s.t.Fatal(err)
	}
	return data
}

func (s *scene) random(size int) []byte {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(s.rnd.Uint32())
	}
	return data
}

const size = 256 << 10

// An upload is cut at one host and continues at another host, while the first host still has the lock. In
// the control, tusd's own locker reaches one process, and the late bytes damage the file.
func TestResumeAtAnotherHost(t *testing.T) {
	for name, c := range map[string]struct {
		config
		same bool
	}{
		"holdfast":              {config: config{TTL: 10 * time.Second}},
		"holdfast, same host":   {config: config{TTL: 10 * time.Second}, same: true},
		"control: memorylocker": {config: config{Memory: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, c.config)
			first := s.host()
			second := first
			if !c.same {
				second = s.host()
			}
			data := s.random(size)
			id := s.create(first, size)
			conn, err := s.cut(first, id, 0, data, size/2)
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			at, err := offset(second, id)
			if err != nil || at != size/2 {
				t.Fatalf("offset %d, %v; want %d", at, err, size/2)
			}
			if waited := time.Since(start); waited > 8*time.Second { // less than the TTL
				t.Errorf("the second host waited %v for the lock", waited)
			}
			if err := patch(second, id, at, data[at:]); err != nil {
				t.Fatal(err)
			}
			answer := conn.late(data[size/2:], 30*time.Second)
			if refused := strings.Contains(answer, " 400 "); refused == c.Memory {
				t.Errorf("the first host answered %q", answer)
			}
			if equal := bytes.Equal(s.stored(id), data); equal == c.Memory {
				t.Errorf("the file has %d bytes; equal to the upload: %v", len(s.stored(id)), equal)
			}
		})
	}
}

// The host that has the lock is killed. Where the store knows which processes live, another host gets
// the lock at once, otherwise after the TTL.
func TestKilledHost(t *testing.T) {
	for name, c := range map[string]struct {
		config
		min, max time.Duration
	}{
		"presence": {config{TTL: 15 * time.Second, Presence: true}, 0, 10 * time.Second},
		"TTL":      {config{TTL: 4 * time.Second}, 3 * time.Second, 19 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, c.config)
			first, second := s.host(), s.host()
			data := s.random(size)
			id := s.create(first, size)
			if _, err := s.cut(first, id, 0, data, size/2); err != nil {
				t.Fatal(err)
			}
			first.signal(t, syscall.SIGKILL)
			start := time.Now()
			at, err := offset(second, id)
			if waited := time.Since(start); err != nil || at != size/2 || waited < c.min || waited > c.max {
				t.Fatalf("offset %d after %v, %v; want %d after %v to %v", at, waited, err, size/2, c.min, c.max)
			}
			if err := patch(second, id, at, data[at:]); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(s.stored(id), data) {
				t.Errorf("the file has %d bytes, and differs from the upload", len(s.stored(id)))
			}
		})
	}
}

// The host that has the locks is stopped for longer than the TTL, while bytes wait in its connections.
// When it runs again, it stops its uploads, and stores none of these bytes.
func TestStoppedHost(t *testing.T) {
	t.Parallel()
	s := newScene(t, config{TTL: 4 * time.Second, Presence: true})
	first, second := s.host(), s.host()
	data := s.random(size)
	cut := map[string]connection{}
	for range 10 {
		id := s.create(first, size)
		conn, err := s.cut(first, id, 0, data, size/2)
		if err != nil {
			t.Fatal(err)
		}
		cut[id] = conn
	}
	first.signal(t, syscall.SIGSTOP)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(first.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("the host is not stopped: %v, %v", status, err)
	}
	for id, conn := range cut {
		conn.late(data[size/2:3*size/4], time.Millisecond)
		at, err := offset(second, id)
		if err != nil || at != size/2 {
			t.Fatalf("offset %d, %v; want %d", at, err, size/2)
		}
		if err := patch(second, id, at, data[at:]); err != nil {
			t.Fatal(err)
		}
	}
	first.signal(t, syscall.SIGCONT)
	for id, conn := range cut {
		if answer := conn.late(data[3*size/4:], 30*time.Second); !strings.Contains(answer, " 400 ") {
			t.Errorf("the first host answered %q", answer)
		}
		if got := s.stored(id); !bytes.Equal(got, data) {
			t.Errorf("the file has %d bytes, and differs from the upload", len(got))
		}
	}
}

// A client uploads a file over three hosts. Its connections are cut again and again, and deliver the
// rest of their bytes later. The store of the locks loses requests and replies.
func TestManyCuts(t *testing.T) {
	t.Parallel()
	s := newScene(t, config{TTL: 10 * time.Second, Presence: true})
	var hosts []process
	for i := range 3 {
		s.Faults = uint64(i + 1)
		hosts = append(hosts, s.host())
	}
	data := s.random(20 * size)
	id := s.create(hosts[0], len(data))
	anyHost := func() process { return hosts[s.rnd.IntN(len(hosts))] }
	cuts, failed := 0, 0
	for at := 0; at < len(data); {
		chunk := data[at:min(len(data), at+size)]
		part, old := 1+s.rnd.IntN(len(chunk)), connection{}
		var err error
		if s.rnd.IntN(2) == 0 {
			err = patch(anyHost(), id, at, chunk)
		} else if old, err = s.cut(anyHost(), id, at, chunk, part); err == nil {
			cuts++
		}
		if err != nil {
			failed++
		}
		now, wrong := offset(anyHost(), id)
		for tries := 0; wrong != nil; tries++ { // as a client of tus does
			if failed++; tries > 5 {
				t.Fatal(wrong)
			}
			now, wrong = offset(anyHost(), id)
		}
		if old.Conn != nil && err == nil {
			if now != at+part {
				t.Fatalf("after a cut the offset is %d, want %d", now, at+part)
			}
			old.late(chunk[part:], time.Second)
		}
		at = now
	}
	if got := s.stored(id); !bytes.Equal(got, data) {
		t.Errorf("the file has %d bytes, and differs from the upload of %d bytes", len(got), len(data))
	}
	faults := 0
	for _, p := range hosts {
		_ = p.stdin.Close()
		n, err := strconv.Atoi(p.line(t))
		if faults += n; err != nil {
			t.Error(err)
		}
	}
	if cuts == 0 || faults == 0 {
		t.Errorf("%d cuts and %d faults, want some", cuts, faults)
	}
	t.Logf("%d cuts, %d faults of the store, %d failed requests", cuts, faults, failed)
}
