//go:build unix

package certstore_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/holdfast-go/holdfast/adapters/certstore"
	"github.com/holdfast-go/holdfast/aws/s3store"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
	"github.com/holdfast-go/holdfast/store/filestore"
)

const (
	host = "localhost" // what the certificates are for

	// short is the TTL where a test waits for a takeover.
	short = 6 * time.Second
)

// job is what a process does: it gets the certificate as certmagic does it at the start of a server.
type job struct {
	Store, Directory, CA string
	HTTPPort             int
	TTL                  time.Duration // default: that of package lease

	Faults    string // of faultstore
	NoLock    bool   // a storage whose locks do nothing
	NoFence   bool   // a storage that does not know what its locks are for
	StopAfter bool   // the process stops itself when it has a certificate that it has not stored
}

const jobVar = "HOLDFAST_TEST_CERTSTORE"

var set servers.Set

func TestMain(m *testing.M) {
	if text := os.Getenv(jobVar); text != "" {
		serial, err := obtain(text)
		if err != nil {
			fmt.Println("error", strings.ReplaceAll(err.Error(), "\n", " "))
			os.Exit(1)
		}
		fmt.Println("serial", serial)
		os.Exit(0)
	}
	os.Exit(set.Main(m))
}

// noLock is a storage like some that are published for S3.
type noLock struct{ certmagic.Storage }

func (noLock) Lock(context.Context, string) error   { return nil }
func (noLock) Unlock(context.Context, string) error { return nil }

// noFence has locks with other names.
type noFence struct{ certmagic.Storage }

func (s noFence) Lock(ctx context.Context, name string) error { return s.Storage.Lock(ctx, "x"+name) }
func (s noFence) Unlock(ctx context.Context, name string) error {
	return s.Storage.Unlock(ctx, "x"+name)
}

// stopAfter is an issuer that stops its process after it has got a certificate.
type stopAfter struct{ *certmagic.ACMEIssuer }

func (i stopAfter) Issue(ctx context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	cert, err := i.ACMEIssuer.Issue(ctx, csr)
	if err == nil {
		fmt.Println("issued")
		err = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		time.Sleep(time.Second) // on a busy machine, the threads of the process stop a moment after the signal
	}
	return cert, err
}

func openStore(ctx context.Context, url string) (store.Store, error) {
	if dir, ok := strings.CutPrefix(url, "file:"); ok {
		return filestore.Open(dir, nil)
	}
	return s3store.Open(ctx, url, nil)
}

// obtain runs a job, and returns the serial number of the certificate.
func obtain(text string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return "", err
	}
	st, err := openStore(ctx, j.Store)
	if err != nil {
		return "", err
	}
	faulty := faultstore.New(st, faultstore.MustParse(j.Faults))
	st = faulty
	ours, err := certstore.New(st, &lease.Options{TTL: j.TTL, Grace: -1})
	if err != nil {
		return "", err
	}
	var storage certmagic.Storage = ours
	switch {
	case j.NoLock:
		storage = noLock{ours}
	case j.NoFence:
		storage = noFence{ours}
	}
	pem, err := os.ReadFile(j.CA)
	if err != nil {
		return "", err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	logger, err := zap.NewDevelopment()
	if err != nil {
		return "", err
	}
	var cfg *certmagic.Config
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return cfg, nil }, Logger: logger,
	})
	cfg = certmagic.New(cache, certmagic.Config{Storage: storage, Logger: logger})
	issuer := certmagic.NewACMEIssuer(cfg, certmagic.ACMEIssuer{
		CA: j.Directory, TestCA: j.Directory, Email: "ops@example.com", Agreed: true, TrustedRoots: roots, Logger: logger,
		ListenHost: "127.0.0.1", AltHTTPPort: j.HTTPPort, DisableTLSALPNChallenge: true,
	})
	cfg.Issuers = []certmagic.Issuer{issuer}
	order := cfg.ObtainCertAsync // with RenewLockLease
	if j.NoLock || j.StopAfter {
		order = cfg.ObtainCertSync // without retries, whose pauses are minutes
	}
	if j.StopAfter {
		cfg.Issuers = []certmagic.Issuer{stopAfter{issuer}}
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return "", err
	}
	if err := order(ctx, host); err != nil {
		return "", err
	}
	cert, err := cfg.CacheManagedCertificate(ctx, host)
	if err != nil {
		return "", err
	}
	if rules := faulty.Unmatched(); len(rules.Rules) > 0 {
		return "", fmt.Errorf("no call matched %v", rules)
	}
	return cert.Leaf.SerialNumber.Text(16), nil
}

// server is a process that runs a job.
type server struct {
	*exec.Cmd
	in    io.Writer
	lines chan string
}

// begin lets a server begin that is ready.
func (s *server) begin(t *testing.T) {
	t.Helper()
	if _, err := io.WriteString(s.in, "\n"); err != nil {
		t.Fatal(err)
	}
}

// says returns the rest of the next line of a server, which begins with a word.
func (s *server) says(t *testing.T, word string) string {
	t.Helper()
	line := <-s.lines
	rest, ok := strings.CutPrefix(line, word)
	if !ok {
		t.Fatalf("a server says %q, want %q", line, word)
	}
	return strings.TrimSpace(rest)
}

// cluster is some servers, their store, and the certificate authority.
type cluster struct {
	*servers.Pebble
	job job
	env []string

	mu      sync.Mutex
	ports   []int
	arrived chan struct{} // if not nil, a check of the host waits here
	release chan struct{}
}

// newCluster starts the certificate authority. The cluster is what serves HTTP at the host: it passes requests to its
// servers.
func newCluster(t *testing.T, url string, env []string) *cluster {
	t.Helper()
	c := &cluster{env: env, arrived: make(chan struct{}, 100), release: make(chan struct{})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	front := &http.Server{Handler: c}
	go func() { _ = front.Serve(listener) }()
	t.Cleanup(func() { _ = front.Close() })
	c.Pebble = servers.NewPebble(t, listener.Addr().(*net.TCPAddr).Port)
	c.job = job{Store: url, Directory: c.Directory, CA: c.CA}
	return c
}

// ServeHTTP passes a request to each server until one knows the answer.
func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.arrived <- struct{}{}
	select {
	case <-c.release:
	case <-r.Context().Done():
		return
	}
	c.mu.Lock()
	ports := c.ports
	c.mu.Unlock()
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for _, port := range ports {
		req, err := http.NewRequestWithContext(r.Context(), r.Method, fmt.Sprintf("http://127.0.0.1:%d%s", port, r.URL.Path), nil)
		if err != nil {
			continue
		}
		req.Host = r.Host
		resp, err := client.Do(req)
		if err != nil {
			continue
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err == nil && resp.StatusCode == http.StatusOK {
			_, _ = w.Write(body)
			return
		}
	}
	http.NotFound(w, r)
}

// start starts a server, which waits for begin.
func (c *cluster) start(t *testing.T, change func(*job)) *server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // a free port
	if err != nil {
		t.Fatal(err)
	}
	j := c.job
	j.HTTPPort = listener.Addr().(*net.TCPAddr).Port
	listener.Close()
	c.mu.Lock()
	c.ports = append(c.ports[:len(c.ports):len(c.ports)], j.HTTPPort)
	c.mu.Unlock()
	if change != nil {
		change(&j)
	}
	config, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Cmd: exec.Command(os.Args[0]), lines: make(chan string, 10)}
	s.Env = append(append(os.Environ(), c.env...), jobVar+"="+string(config))
	var log bytes.Buffer
	s.Stderr = &log
	if s.in, err = s.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(s.lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			s.lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() {
		_ = s.Process.Kill()
		<-read
		_ = s.Wait()
		if t.Failed() {
			t.Logf("the server at port %d wrote:\n%s", j.HTTPPort, log.String())
		}
	})
	s.says(t, "ready")
	return s
}

// eachStore runs a test with a directory and with a bucket.
func eachStore(t *testing.T, test func(t *testing.T, c *cluster)) {
	t.Run("directory", func(t *testing.T) {
		t.Parallel()
		test(t, newCluster(t, "file:"+t.TempDir(), nil))
	})
	t.Run("bucket", func(t *testing.T) {
		t.Parallel()
		s3 := set.VersityGW(t)
		test(t, newCluster(t, "s3://"+s3.NewBucket(t, false)+"/app?path_style=true&region="+s3.Region, s3.Env()))
	})
}
