package nats_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-go/holdfast/nats/natsstore"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/store"
)

const password = "zq7hunter2zq7"

// users are an owner, a user that may only read, one that may write but not read the settings, and a user without rights.
const users = `
authorization {
  users: [
    { user: "app", password: "` + password + `" }
    { user: "reader", password: "` + password + `", permissions: { publish: ["$JS.API.STREAM.MSG.GET.>", "$JS.API.STREAM.INFO.>"], subscribe: ["_INBOX.>"] } }
    { user: "blind", password: "` + password + `", permissions: { publish: ["$KV.>", "$JS.API.STREAM.MSG.GET.>"], subscribe: ["_INBOX.>"] } }
    { user: "nobody", password: "` + password + `", permissions: { publish: "nothing", subscribe: ["_INBOX.>"] } }
  ]
}
`

// TestNATSErrors: what is wrong is reported by one line that says what to do, with the right sentinel, and
// without a secret.
func TestNATSErrors(t *testing.T) {
	plain := servers.NewNATS(t, "")
	bucket := newBucket(t, plain.Address(), 1)
	off := servers.NewNATS(t, "# no jetstream\n")
	small := servers.NewNATS(t, "max_payload: 4000\n")
	smallBucket := newBucket(t, small.Address(), 1)
	secret := servers.NewNATS(t, users)
	if err := natsstore.CreateBucket(t.Context(), connected(t, secret.Address(), nats.UserInfo("app", password)), "locks", nil); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	cert, key := servers.Certificate(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() }) // it accepts and never answers
	secure := servers.NewNATS(t, "tls { cert_file: \""+cert+"\", key_file: \""+key+"\" }\n")
	if err := natsstore.CreateBucket(t.Context(), connected(t, secure.Address(), nats.RootCAs(cert)), "locks", nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, at, user, password string
		value                    int
		want                     error
		outcome                  store.Outcome
		text                     string
	}{
		{"good", plain.Address() + "/" + bucket, "", "", 10, nil, store.Applied, ""},
		{"a user", secret.Address() + "/locks", "app", password, 10, nil, store.Applied, ""},
		{"TLS", secure.Address() + "/locks?cacert=" + cert, "", "", 10, nil, store.Applied, ""},
		{"the largest value", plain.Address() + "/" + bucket, "", "", store.MaxValue, nil, store.Applied, ""},
		{"no server", "127.0.0.1:1/locks", "", "", 10, store.ErrUnavailable, store.Unknown, "whether the server runs"},
		{"no answer", l.Addr().String() + "/locks?timeout=300ms", "", "", 10, store.ErrUnavailable, store.Unknown, "accepted the connection"},
		{"a web server", web.Listener.Addr().String() + "/locks", "", "", 10, store.ErrUnavailable, store.Unknown, ""},
		{"no bucket", plain.Address() + "/nothing", "", "", 10, store.ErrMisconfigured, store.NotApplied, "holdfast init"},
		{"no JetStream", off.Address() + "/locks", "", "", 10, store.ErrMisconfigured, store.NotApplied, "turn JetStream on"},
		{"a wrong password", secret.Address() + "/locks", "app", "wrong" + password, 10, store.ErrCredentials, store.NotApplied, "NATS_PASSWORD"},
		{"no user", secret.Address() + "/locks", "", "", 10, store.ErrCredentials, store.NotApplied, "NATS_USER"},
		{"may only read", secret.Address() + "/locks", "reader", password, 10, store.ErrDenied, store.NotApplied, "$KV.locks."},
		{"may not read the settings", secret.Address() + "/locks", "blind", password, 10, store.ErrDenied, store.NotApplied, "$JS.API.STREAM.INFO."},
		{"no rights", secret.Address() + "/locks", "nobody", password, 10, store.ErrDenied, store.NotApplied, "may not publish"},
		{"a value above the server's limit", small.Address() + "/" + smallBucket, "", "", 8000, store.ErrMisconfigured, store.NotApplied, "max_payload"},
		{"TLS, without the parameters", secure.Address() + "/locks", "", "", 10, store.ErrMisconfigured, store.NotApplied, "the parameters tls, cacert"},
		{"parameters of TLS, without TLS", plain.Address() + "/locks?cacert=" + cert, "", "", 10, store.ErrMisconfigured, store.NotApplied, "the parameters tls, cacert"},
		{"an unknown certificate", secure.Address() + "/locks?tls=true", "", "", 10, store.ErrMisconfigured, store.NotApplied, "x509"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("NATS_USER", c.user)
			t.Setenv("NATS_PASSWORD", c.password)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			began := time.Now()
			st, err := natsstore.Open(ctx, "nats://"+c.at, nil)
			if err == nil {
				defer st.Close()
				_, err = st.Put(ctx, servers.Unique("key"), "", make([]byte, c.value))
			}
			if c.want == nil {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, c.want) || store.OutcomeOf(err) != c.outcome {
				t.Errorf("got %v (%v), want %v (%v)", err, store.OutcomeOf(err), c.want, c.outcome)
			}
			if err == nil || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), password) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 600 {
				t.Errorf("the text is %v; want it to contain %q", err, c.text)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
			t.Log(err)
		})
	}
	t.Setenv("NATS_USER", "reader")
	t.Setenv("NATS_PASSWORD", password)
	began := time.Now()
	for key, err := range open(t, "nats://"+secret.Address()+"/locks").List(t.Context(), "") {
		if !errors.Is(err, store.ErrDenied) || time.Since(began) > time.Second {
			t.Errorf("a listing without the right: %q, %v after %v", key, err, time.Since(began))
		}
	}
}

// TestNATSCommand: init creates a bucket, the command takes locks in it, and doctor reports what it finds out
// about a bucket and what it cannot find out.
func TestNATSCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bin := servers.BuildCommand(t)
	server := servers.NewNATS(t, "")
	at := "nats://" + server.Address()
	for _, c := range []struct {
		args   []string
		status int
		text   string
	}{
		{[]string{"--store", at + "/locks/app", "run", "job", "--", "true"}, 78, "holdfast init"},
		{[]string{"--store", at + "/locks/app", "init"}, 0, ""},
		{[]string{"--store", at + "/locks/app", "init"}, 0, ""},
		{[]string{"--store", at + "/locks/app", "run", "job", "--", "echo", "has run"}, 0, "has run"},
		{[]string{"--store", at + "/locks/app", "ls", "--all"}, 0, "job"},
		{[]string{"--store", at + "/locks/app", "doctor"}, 0, "sync_interval"},
		{[]string{"--store", at + "/locks?user=app:" + password, "ls"}, 78, "credentials"},
		{[]string{"--store", at + "/locks?token=" + password, "ls"}, 78, "credentials"},
		{[]string{"--store", at + "/locks?creds=" + password, "ls"}, 64, "creds"},
		{[]string{"--store", at, "ls"}, 64, "nats://HOST:PORT/BUCKET/PREFIX"},
		{[]string{"--store", at + "/other?replicas=3", "init"}, 78, "single server"},
		{[]string{"--store", "nats://127.0.0.1:1/locks", "ls"}, 69, "whether the server runs"},
	} {
		cmd := exec.CommandContext(t.Context(), bin, c.args...)
		cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME=")
		said, _ := cmd.CombinedOutput() // the status is looked at
		if status := cmd.ProcessState.ExitCode(); status != c.status || !strings.Contains(string(said), c.text) || strings.Contains(string(said), password) {
			t.Errorf("holdfast %s: status %d, %s; want status %d and %q", strings.Join(c.args, " "), status, said, c.status, c.text)
		}
	}
}
