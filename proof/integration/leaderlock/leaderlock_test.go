// Package leaderlock_test tests package adapters/leaderlock with managers of controller-runtime, which have no API server,
// and a real server of S3.
package leaderlock_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/holdfast-go/holdfast/adapters/leaderlock"
	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/aws/s3store"
	"github.com/holdfast-go/holdfast/proof/integration/faultproxy"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

var set servers.Set

func TestMain(m *testing.M) { os.Exit(set.Main(m)) }

// The times of the elector, for a machine that runs other tests too.
const (
	leaseDuration = 6 * time.Second
	renewDeadline = 4 * time.Second
	retryPeriod   = 500 * time.Millisecond
)

// candidate is a manager with one controller.
type candidate struct {
	proxy  *faultproxy.Proxy
	leads  chan uint64 // gets the token when the controller starts
	ended  chan error  // gets the result of the manager
	cancel context.CancelFunc
}

func openS3(t *testing.T, server servers.S3, bucket string) store.Store {
	t.Helper()
	b, err := s3bucket.New(server.Client(), bucket, nil)
	if err != nil {
		t.Fatal(err)
	}
	st, err := s3store.New(b, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func newLock(t *testing.T, st store.Store, name string) *leaderlock.Lock {
	t.Helper()
	lock, err := leaderlock.New(st, "prod/invoices", name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

func startManager(t *testing.T, server servers.S3, bucket, name string) *candidate {
	t.Helper()
	c := &candidate{proxy: faultproxy.New(t, server.Endpoint), leads: make(chan uint64, 1), ended: make(chan error, 1)}
	lock := newLock(t, openS3(t, server.At(c.proxy.URL), bucket), name)
	lease, renew, retry := leaseDuration, renewDeadline, retryPeriod
	m, err := manager.New(&rest.Config{Host: "http://127.0.0.1:1"}, manager.Options{
		LeaderElection: true, LeaderElectionResourceLockInterface: lock, LeaderElectionReleaseOnCancel: true,
		LeaseDuration: &lease, RenewDeadline: &renew, RetryPeriod: &retry,
		Metrics: metricsserver.Options{BindAddress: "0"}, Logger: logr.Discard(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Add(manager.RunnableFunc(func(ctx context.Context) error {
		token, err := lock.Token(ctx)
		if err != nil {
			return err
		}
		c.leads <- token
		<-ctx.Done()
		return nil
	})); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c.cancel = cancel
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.ended <- m.Start(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return c
}

// await returns what a channel gets.
func await[T any](t *testing.T, what string, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(time.Minute):
		t.Fatalf("a minute has passed without %s", what)
	}
	return v
}

// TestManagers: one of two managers leads. Lost replies change nothing. A leader that cannot reach the store stops, and the
// other one leads with a higher token.
func TestManagers(t *testing.T) {
	t.Parallel()
	server := set.VersityGW(t)
	bucket := server.NewBucket(t, false)
	a := startManager(t, server, bucket, "a")
	first := await(t, "a leader", a.leads)
	b := startManager(t, server, bucket, "b")

	a.proxy.Inject(&faultproxy.Rule{When: faultproxy.Writes(), Do: faultproxy.Lose()})
	select {
	case err := <-a.ended:
		t.Fatalf("the leader has ended, because replies are lost: %v", err)
	case token := <-b.leads:
		t.Fatalf("another manager leads with token %d, because replies are lost", token)
	case <-time.After(2 * leaseDuration):
	}

	a.proxy.Inject(&faultproxy.Rule{Do: faultproxy.Hang()})
	if err := await(t, "the end of the leader", a.ended); err == nil || !strings.Contains(fmt.Sprint(err), "leader election lost") {
		t.Errorf("the first manager ends with %v", err)
	}
	second := await(t, "another leader", b.leads)
	if second <= first {
		t.Errorf("the second leader has token %d, the first one had %d", second, first)
	}

	// A manager that ends frees the record.
	c := startManager(t, server, bucket, "c")
	b.cancel()
	if err := await(t, "the end of the manager", b.ended); err != nil {
		t.Errorf("the second manager ends with %v", err)
	}
	if third := await(t, "a third leader", c.leads); third <= second {
		t.Errorf("the third leader has token %d, the second one had %d", third, second)
	}
}

// TestCommands: the commands of holdfast take the record neither for a lock nor for damage, and do not change it.
func TestCommands(t *testing.T) {
	t.Parallel()
	bin, home, server := servers.BuildCommand(t), t.TempDir(), set.VersityGW(t)
	bucket, dir := server.NewBucket(t, false), t.TempDir()
	files, err := filestore.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	for _, c := range []struct {
		url string
		st  store.Store
	}{{"file:" + dir, files}, {"s3://" + bucket, openS3(t, server, bucket)}} {
		lock := newLock(t, c.st, "a")
		if err := lock.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: lock.Identity(), LeaseDurationSeconds: 15}); err != nil {
			t.Fatal(err)
		}
		_, before, err := c.st.Get(t.Context(), "leader/prod/invoices")
		if err != nil {
			t.Fatal(err)
		}
		for _, args := range []string{"run job -- echo has run", "ls --all", "doctor", "sweep --older-than 1h"} {
			cmd := exec.CommandContext(t.Context(), bin, append([]string{"--store", c.url}, strings.Fields(args)...)...)
			cmd.Env = append(append(os.Environ(), "HOME="+home, "XDG_STATE_HOME="), server.Env()...)
			out, err := cmd.CombinedOutput()
			if err != nil || strings.Contains(string(out), "invoices") || strings.Contains(string(out), "leader/") {
				t.Errorf("holdfast --store %s %s: %v\n%s", c.url, args, err, out)
			}
		}
		if _, after, err := c.st.Get(t.Context(), "leader/prod/invoices"); err != nil || after != before {
			t.Errorf("%s: the version of the record is %q, %v, before it was %q", c.url, after, err, before)
		}
	}
}
