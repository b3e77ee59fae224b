//go:build unix

package command

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startServe starts serve on a free port, and returns the address of the page. The function stop ends it with TERM.
func startServe(t *testing.T, p *place, store string, args ...string) (address string, stop func()) {
	t.Helper()
	return startServer(t, p, store, `the page is at (http://127\.0\.0\.1:\d+)/`, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
}

// startServer starts a command that serves, and says so with its address.
func startServer(t *testing.T, p *place, store, says string, args ...string) (address string, stop func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), p.bin, args...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "HOME="+p.dir, "XDG_STATE_HOME="+p.dir, "HOLDFAST_STORE="+store)
	messages, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(messages).ReadString('\n')
	match := regexp.MustCompile(`^holdfast: ` + says + `\n$`).FindStringSubmatch(line)
	if match == nil {
		_ = cmd.Process.Kill()
		t.Fatalf("%q says %q, %v", args, line, err)
	}
	return match[1], func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("after TERM: %v", err)
		}
	}
}

// TestServe: the page shows a lock only to those who may see it, and ends with a signal even while a page is open.
func TestServe(t *testing.T) {
	t.Parallel()
	p, store := newPlaceOfFiles(t)
	p.must(t, store, "lock", "job/a", "--handle", "a.json", "--history")
	const token = "0123456789abcdef0123"
	for name, text := range map[string]string{"token": token + "\n", "password": "ada:correct horse\n", "sweep.json": `{"dry_run":true,"complete":true,"scanned":7,"removed":2}`, "verify.json": `{"complete":true,"items":9,"missing":1,"problems":[{"kind":"missing","key":{"id":"7"},"attr":"html","error":"no object"}]}`} {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(url, host, user, password, bearer string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		if user != "" {
			req.SetBasicAuth(user, password)
		}
		if bearer != "" {
			req.Header.Set("Authorization", "Bearer "+bearer)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}

	open, stop := startServe(t, p, store, "--host", "locks.example.org", "--report", "sweep.json", "--report", "verify.json")
	for host, want := range map[string]int{"": 200, "localhost:7070": 200, "[::1]": 200, "locks.example.org": 200, "evil.example": 421, "127.0.0.1.evil.example": 421} {
		if status, body := ask(open, host, "", "", ""); status != want || strings.Contains(body, "job/a") != (want == 200) {
			t.Errorf("host %q: got status %d, want %d: %s", host, status, want, body)
		}
	}
	if status, body := ask(open+"/reports", "", "", "", ""); status != 200 || !strings.Contains(body, "2 of 7 objects would be removed") || !strings.Contains(body, "1 objects are missing") || !strings.Contains(body, "no object") {
		t.Errorf("the reports: status %d: %s", status, body)
	}
	// serve reads the store only while it is asked: so the first answers can lack the lock.
	for path, want := range map[string]string{"/lock?name=job/a": "k-granted", "/metrics": "holdfast_seen_held{"} {
		body := ""
		for end := time.Now().Add(20 * time.Second); !strings.Contains(body, want) && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			_, body = ask(open+path, "", "", "", "")
		}
		if !strings.Contains(body, want) {
			t.Errorf("%s never has %q: %s", path, want, body)
		}
	}
	resp, err := http.Get(open + "/events?kind=locks")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	stop()

	secret, stop := startServe(t, p, store, "--token-file", "token", "--password-file", "password")
	for _, c := range []struct {
		user, password, bearer string
		want                   int
	}{
		{want: 401}, {bearer: "wrong", want: 401}, {user: "token", password: "wrong", want: 401}, {user: "ada", password: token, want: 401}, {user: "ada", password: "wrong", want: 401},
		{bearer: token, want: 200}, {user: "token", password: token, want: 200}, {user: "ada", password: "correct horse", want: 200},
	} {
		if status, body := ask(secret, "any.example", c.user, c.password, c.bearer); status != c.want || strings.Contains(body, "job/a") != (c.want == 200) {
			t.Errorf("%+v: got status %d: %s", c, status, body)
		}
	}
	if status, _ := ask(secret+"/metrics", "", "", "", ""); status != 401 {
		t.Errorf("metrics without a password: status %d", status)
	}
	if status, _ := ask(secret+"/healthz", "", "", "", ""); status != 200 {
		t.Errorf("healthz: status %d", status)
	}
	stop()
}

// TestServeMistakes: each mistake is one line, and no page is served.
func TestServeMistakes(t *testing.T) {
	t.Parallel()
	p, store := newPlaceOfFiles(t)
	p.must(t, store, "init")
	for name, text := range map[string]string{"open": "0123456789abcdef0123", "short": "0123", "two": "ada:correct horse\nbob:correct horse", "none": "ada", "large": strings.Repeat("x", 5000), "secret": "0123456789abcdef0123"} {
		mode := os.FileMode(0o600)
		if name == "open" {
			mode = 0o644
		}
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(p.dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for _, c := range []struct {
		args string
		want int
		says string
	}{
		{"--listen " + listener.Addr().String(), 78, "address already in use"},
		{"--store s3://no-bucket?endpoint=http://127.0.0.1:1 --listen " + listener.Addr().String(), 78, "address already in use"},
		{"--listen 192.0.2.1:7070 --token-file secret", 78, "cannot assign requested address"},
		{"--report nosuch.json", 66, "--report: stat nosuch.json: no such file"},
		{"--report open --report .", 64, ". is not an ordinary file"},
		{"--report pipe", 64, "pipe is not an ordinary file"},
		{"--listen 0.0.0.0:0", 64, "give --token-file or --password-file"},
		{"--listen [::]:0", 64, "give --token-file or --password-file"},
		{"--listen :0", 64, "give --token-file or --password-file"},
		{"--listen localhost.evil.example:0", 64, "give --token-file or --password-file"},
		{"--listen banana", 64, "an address and a port"},
		{"--listen 127.0.0.1:http", 64, "an address and a port"},
		{"--requests-per-minute 0", 64, "from 1 to 60000"},
		{"--max-clock-drift -1", 64, "clock"},
		{"--token-file open", 78, "chmod 600"},
		{"--password-file open", 78, "chmod 600"},
		{"--token-file short", 78, "at least 16 characters"},
		{"--token-file large", 78, "larger than"},
		{"--token-file pipe", 78, "not an ordinary file"},
		{"--token-file absent", 78, "no such file"},
		{"--password-file two", 78, "one line"},
		{"--password-file none", 78, "one line"},
		{"--log s3//bucket/log", 64, "lacks a colon"},
		{"jobs//x", 64, "empty"},
	} {
		out, message, status := p.run(t, store, append([]string{"serve"}, strings.Fields(c.args)...)...)
		if status != c.want || !strings.Contains(message, c.says) || bytes.Count([]byte(message), []byte("\n")) != 1 || out != "" {
			t.Errorf("serve %s: got status %d, want %d, and %q: %s%s", c.args, status, c.want, c.says, out, message)
		}
	}
	if _, message, status := p.run(t, store, "serve", ""); status != 64 || !strings.Contains(message, "PREFIX is empty") {
		t.Errorf("an empty prefix: status %d: %s", status, message)
	}
}

// TestServeTofu: the states of OpenTofu are behind the same rules of access as the page. A browser does not write
// for the page of another site, and no request is redirected: a client would repeat a POST as a GET.
func TestServeTofu(t *testing.T) {
	t.Parallel()
	p, store := newPlaceOfFiles(t)
	if err := os.WriteFile(filepath.Join(p.dir, "password"), []byte("ada:correct horse\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ask := func(method, url, body string, change func(*http.Request)) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(req)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		reply, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(reply)
	}
	start := func(args ...string) (address string, stop func()) {
		return startServer(t, p, store, `the address of a state is (http://127\.0\.0\.1:\d+)/state/NAME`, append([]string{"serve", "tofu", "--listen", "127.0.0.1:0"}, args...)...)
	}
	// stalls sends a request whose body never ends, from a client that needs no password for that.
	stalls := func(address, path, name string, want string) {
		t.Helper()
		conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		_, err = io.WriteString(conn, "POST "+path+" HTTP/1.1\r\nHost: "+name+"\r\nContent-Length: 100000\r\n\r\n{")
		reply, end := io.ReadAll(conn)
		if err != nil || end != nil || !strings.HasPrefix(string(reply), "HTTP/1.1 "+want) {
			t.Errorf("%s: %v, %v: %s", path, err, end, reply)
		}
	}
	open, stop := start("--keep", "2")
	stalls(open, "/state/s", "evil.example", "421")
	stalls(open, "/healthz", "evil.example", "200")
	for _, c := range []struct {
		what, method, path string
		change             func(*http.Request)
		want               int
	}{
		{"a foreign name", "GET", "/state/s", func(r *http.Request) { r.Host = "evil.example" }, 421},
		{"another site", "POST", "/state/s", func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, 403},
		{"another site, in new browsers", "POST", "/state/s", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		{"two slashes", "POST", "/state//s", nil, 400},
		{"dots", "POST", "/x/../state/s", nil, 400},
		{"no state yet", "GET", "/state/s", nil, 404},
		{"OpenTofu", "POST", "/state/s", nil, 200},
		{"healthz", "GET", "/healthz", nil, 200},
	} {
		if status, reply := ask(c.method, open+c.path, `{"serial":1}`, c.change); status != c.want {
			t.Errorf("%s: got status %d, want %d: %s", c.what, status, c.want, reply)
		}
	}
	stop()

	secret, stop := start("--password-file", "password")
	defer stop()
	stalls(secret, "/state/s", "localhost", "401")
	ada := func(r *http.Request) { r.SetBasicAuth("ada", "correct horse") }
	for _, method := range []string{"GET", "POST", "LOCK", "UNLOCK", "DELETE"} {
		if status, reply := ask(method, secret+"/state/s", "", nil); status != 401 || strings.Contains(reply, "serial") {
			t.Errorf("%s without a password: %d %s", method, status, reply)
		}
	}
	if status, reply := ask("GET", secret+"/state/s", "", ada); status != 200 || reply != `{"serial":1}` {
		t.Errorf("the state: %d %s", status, reply)
	}
	if status, _ := ask("LOCK", secret+"/state/s", `{"ID":"A"}`, ada); status != 200 {
		t.Errorf("the lock: status %d", status)
	}
	for args, says := range map[string]string{"--keep 0": "from 1 to 150", "--listen 0.0.0.0:0": "give --token-file", "--token-file absent": "no such file", "a": "argument"} {
		if _, message, status := p.run(t, store, append([]string{"serve", "tofu"}, strings.Fields(args)...)...); status == 0 || !strings.Contains(message, says) {
			t.Errorf("serve tofu %s: status %d: %s", args, status, message)
		}
	}
}
