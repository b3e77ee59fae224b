//go:build unix

package certstore_test

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/holdfast-go/holdfast/adapters/certstore"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
)

// wantCount checks how many orders and certificates there are.
func (c *cluster) wantCount(t *testing.T, orders, issued int) {
	t.Helper()
	if o, i := c.Count(t); o != orders || i != issued {
		t.Errorf("%d orders, and %d certificates were issued; want %d and %d", o, i, orders, issued)
	}
}

// together lets three servers begin at once, and returns their serial numbers, or what else they say.
func (c *cluster) together(t *testing.T, change func(*job)) (said []string) {
	t.Helper()
	close(c.release)
	var all []*server
	for range 3 {
		all = append(all, c.start(t, change))
	}
	for _, s := range all {
		s.begin(t)
	}
	for _, s := range all {
		said = append(said, <-s.lines)
	}
	return said
}

// Three servers start at once. One orders, and all have its certificate.
func TestOneOrder(t *testing.T) {
	t.Parallel()
	for name, faults := range map[string]string{"healthy": "", "lost replies": "write * #1 lose; write * #3 lose; write * #4 late 100ms"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachStore(t, func(t *testing.T, c *cluster) {
				said := c.together(t, func(j *job) { j.Faults = faults })
				for _, line := range said {
					if !strings.HasPrefix(line, "serial ") || line != said[0] {
						t.Fatalf("the servers say %q", said)
					}
				}
				c.wantCount(t, 1, 1)
			})
		})
	}
}

// The control: without locks, several servers order.
func TestWithoutLocks(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, c *cluster) {
		said := c.together(t, func(j *job) { j.NoLock = true })
		if orders, issued := c.Count(t); orders < 2 {
			t.Errorf("%d orders, and %d certificates were issued; the servers say %q", orders, issued, said)
		}
	})
}

// A server is killed during its order. One of the others orders again, and both have its certificate.
func TestKilledDuringOrder(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, c *cluster) {
		c.job.TTL = short
		killed := c.start(t, nil)
		killed.begin(t)
		<-c.arrived // the authority checks the host
		others := []*server{c.start(t, nil), c.start(t, nil)}
		for _, s := range others {
			s.begin(t)
		}
		time.Sleep(short + short/2)
		c.wantCount(t, 1, 0)
		if err := killed.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		close(c.release)
		serial := others[0].says(t, "serial")
		if other := others[1].says(t, "serial"); other != serial {
			t.Errorf("got the certificates %s and %s", serial, other)
		}
		c.wantCount(t, 2, 1)
	})
}

// A server is stopped when it has its certificate, and before it stores it. Another server issues, too. When the first
// server continues, it changes nothing. The control does not know what the lock is for.
func TestStoppedBeforeStore(t *testing.T) {
	t.Parallel()
	for name, control := range map[string]bool{"fence": false, "control": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachStore(t, func(t *testing.T, c *cluster) {
				close(c.release)
				c.job.TTL = short
				stopped := c.start(t, func(j *job) { j.StopAfter, j.NoFence = true, control })
				stopped.begin(t)
				stopped.says(t, "issued")
				other := c.start(t, func(j *job) { j.NoFence = control })
				other.begin(t)
				serial := other.says(t, "serial")
				if err := stopped.Process.Signal(syscall.SIGCONT); err != nil {
					t.Fatal(err)
				}
				said := <-stopped.lines
				if late := !strings.HasPrefix(said, "error ") || !strings.Contains(said, " lost: "); late != control {
					t.Errorf("the stopped server says %q", said)
				}
				third := c.start(t, nil)
				third.begin(t)
				if got := third.says(t, "serial"); (got != serial) != control {
					t.Errorf("the second server has the certificate %s, and the storage %s", serial, got)
				}
				c.wantCount(t, 2, 2)
			})
		})
	}
}

// The command takes the values for no damage, and leaves them as they are.
func TestCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bin := servers.BuildCommand(t)
	c := newCluster(t, "file:"+dir, nil)
	said := c.together(t, nil)
	for _, args := range [][]string{
		{"ls", "--all"}, {"doctor"}, {"sweep", "--older-than", "1h"}, {"ls", "--all", "certmagic"}, {"checkpoint", "ls"},
		{"copy-store", "file:" + dir, "file:" + t.TempDir()},
	} {
		cmd := exec.CommandContext(t.Context(), bin, args...)
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "XDG_STATE_HOME=", "HOLDFAST_STORE=file:"+dir)
		out, err := cmd.CombinedOutput()
		text := string(out)
		if err != nil || strings.Contains(text, "unreadable") || strings.Contains(text, "certificates/") || strings.Contains(text, "damage") {
			t.Errorf("holdfast %s: %v\n%s", strings.Join(args, " "), err, text)
		}
		if args[0] == "ls" && !strings.Contains(text, "certmagic/issue_cert_"+host) {
			t.Errorf("holdfast ls shows\n%s", text)
		}
	}
	st, err := openStore(t.Context(), "file:"+dir)
	if err != nil {
		t.Fatal(err)
	}
	storage, err := certstore.New(st, nil)
	if err != nil {
		t.Fatal(err)
	}
	keys := certmagic.StorageKeys
	issuer := (&certmagic.ACMEIssuer{CA: c.Directory}).IssuerKey()
	cert, err1 := storage.Load(t.Context(), keys.SiteCert(issuer, host))
	key, err2 := storage.Load(t.Context(), keys.SitePrivateKey(issuer, host))
	pair, err := tls.X509KeyPair(cert, key)
	if err1 != nil || err2 != nil || err != nil {
		t.Fatalf("got %v, %v, %v", err1, err2, err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil || "serial "+leaf.SerialNumber.Text(16) != said[0] {
		t.Errorf("got %v, and the servers say %q", err, said)
	}
}
