package kubestore_test

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/kubernetes/kubestore"
	"github.com/holdfast-go/holdfast/store"
)

const secret = "zq7secret7token"

// server starts an HTTPS server, and returns a kubeconfig for it. The parameter user is the user in the kubeconfig.
func server(t *testing.T, user string, handle http.HandlerFunc) (kubeconfig string) {
	t.Helper()
	s := httptest.NewUnstartedServer(handle)
	s.EnableHTTP2 = true
	s.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	s.StartTLS()
	t.Cleanup(s.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return write(t, fmt.Sprintf("{current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}], users: [{name: u, user: {%s}}], "+
		"clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]}", user, s.URL, base64.StdEncoding.EncodeToString(authority)))
}

func write(t *testing.T, text string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

// open opens a store whose requests have more time than a busy machine takes to answer.
func open(t *testing.T, kubeconfig string) *kubestore.Store {
	t.Helper()
	return openWithin(t, "20s", kubeconfig)
}

// openWithin opens a store with a time limit of each request.
func openWithin(t *testing.T, limit, kubeconfig string) *kubestore.Store {
	t.Helper()
	st, err := kubestore.Open(t.Context(), "k8s://jobs/app?timeout="+limit+"&kubeconfig="+kubeconfig, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st
}

// TestOutcomes: an answer that the API server gives instead of a write proves that nothing was written. Each other
// answer leaves the outcome unknown. No message repeats the token.
func TestOutcomes(t *testing.T) {
	status := func(code int, reason string) string {
		return fmt.Sprintf(`{"kind":"Status","code":%d,"reason":%q,"message":"it says %s","details":{"kind":"leases"}}`, code, reason, secret)
	}
	for _, c := range []struct {
		name    string
		code    int
		body    string
		want    error
		outcome store.Outcome
	}{
		{"unauthorized", 401, status(401, "Unauthorized"), store.ErrCredentials, store.NotApplied},
		{"unauthorized by a proxy", 401, "<html>", store.ErrCredentials, store.NotApplied},
		{"forbidden", 403, status(403, "Forbidden"), store.ErrDenied, store.NotApplied},
		{"a full quota", 403, strings.Replace(status(403, "Forbidden"), "it says", "exceeded quota", 1), store.ErrDenied, store.NotApplied},
		{"a busy quota", 409, strings.Replace(status(409, "Conflict"), "leases", "resourcequotas", 1), store.ErrUnavailable, store.NotApplied},
		{"invalid", 422, status(422, "Invalid"), store.ErrMisconfigured, store.NotApplied},
		{"too many requests", 429, status(429, "TooManyRequests"), store.ErrUnavailable, store.NotApplied},
		{"an error of the server", 500, status(500, "InternalError"), store.ErrUnavailable, store.Unknown},
		{"a gateway", 502, "<html>", store.ErrUnavailable, store.Unknown},
		{"time out", 504, status(504, "Timeout"), store.ErrUnavailable, store.Unknown},
		{"a redirect", 307, "", store.ErrMisconfigured, store.NotApplied},
		{"a web page", 200, "<html>", store.ErrUnavailable, store.Unknown},
		{"no state", 200, "{}", store.ErrUnavailable, store.Unknown},
		{"no answer", 0, "", store.ErrUnavailable, store.Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			limit := "20s"
			if c.code == 0 {
				limit = "300ms"
			}
			st := openWithin(t, limit, server(t, "token: "+secret, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Header.Get("Authorization") != "Bearer "+secret:
					w.WriteHeader(http.StatusTeapot)
				case c.code == 0:
					<-r.Context().Done()
				default:
					w.Header().Set("Location", "https://other.example/")
					w.WriteHeader(c.code)
					_, _ = w.Write([]byte(c.body))
				}
			}))
			_, err := st.Put(t.Context(), "key", "", []byte("value"))
			if !errors.Is(err, c.want) || store.OutcomeOf(err) != c.outcome || strings.Contains(err.Error(), secret) {
				t.Errorf("got %v (%v), want %v, %v", err, store.OutcomeOf(err), c.want, c.outcome)
			}
		})
	}
}

// TestForeignObject: an object that belongs to another key is not used, although it has the right name.
func TestForeignObject(t *testing.T) {
	st := open(t, server(t, "token: "+secret, func(w http.ResponseWriter, r *http.Request) {
		name := filepath.Base(r.URL.Path)
		fmt.Fprintf(w, `{"metadata":{"name":%q,"uid":"u","resourceVersion":"1","annotations":{"holdfast-go.dev/key":"app/other"}}}`, name)
	}))
	if _, _, err := st.Get(t.Context(), "key"); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}

// TestTokens: the token comes from a file, which is read, or from a program, which gets its variables.
func TestTokens(t *testing.T) {
	file := write(t, secret+"\n")
	program := func(script string) string {
		return fmt.Sprintf("exec: {apiVersion: client.authentication.k8s.io/v1, command: %q, args: [x], env: [{name: PART, value: zq7secret}]}", write(t, "#!/bin/sh\n"+script))
	}
	for _, c := range []struct {
		name, user string
		want       error // of a get; the server knows no object
	}{
		{"a file", fmt.Sprintf("tokenFile: %q", file), store.ErrNotFound},
		{"an empty file", fmt.Sprintf("tokenFile: %q", write(t, "")), store.ErrCredentials},
		{"a program", program(`case "$KUBERNETES_EXEC_INFO" in *ExecCredential*) printf '{"status":{"token":"%s7token","expirationTimestamp":"2099-01-01T00:00:00Z"}}' "$PART";; esac`), store.ErrNotFound},
		{"a program that fails", program("echo " + secret + " >&2; exit 3"), store.ErrCredentials},
		{"a program that prints nothing", program("true"), store.ErrCredentials},
		{"a program that hangs", program("exec sleep 100"), store.ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			st := open(t, server(t, c.user, func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(http.StatusNotFound)
				if r.Header.Get("Authorization") == "Bearer "+secret {
					_, _ = w.Write([]byte(`{"kind":"Status","details":{"kind":"leases"}}`))
				}
			}))
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			start := time.Now()
			if _, _, err := st.Get(ctx, "key"); !errors.Is(err, c.want) || strings.Contains(err.Error(), secret) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// TestFromURL: a wrong URL or kubeconfig is refused, and a secret is never shown.
func TestFromURL(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("HOME", t.TempDir())
	first := write(t, "{current-context: a, contexts: [{name: a, context: {cluster: c, user: u}}, {name: b, context: {cluster: d}}], clusters: [{name: c, cluster: {server: 'https://one:6443'}}]}")
	second := write(t, "{current-context: b, clusters: [{name: c, cluster: {server: 'https://two'}}, {name: d, cluster: {server: 'https://three'}}]}")
	t.Setenv("KUBECONFIG", first+string(filepath.ListSeparator)+filepath.Join(t.TempDir(), "none")+string(filepath.ListSeparator)+second)
	for raw, id := range map[string]string{"k8s://jobs/app/prod?timeout=2s": "kubernetes:one:6443/jobs", "k8s://jobs/app/prod?context=b": "kubernetes:three/jobs"} {
		cluster, o, err := kubestore.FromURL(raw, nil)
		if err != nil || o.Namespace != "jobs" || o.Prefix != "app/prod" {
			t.Errorf("%s: %+v, %v", raw, o, err)
			continue
		}
		st, err := kubestore.New(cluster, o)
		if err != nil || store.TraitsOf(st).ID != id {
			t.Errorf("%s: %v, %v", raw, store.TraitsOf(st), err)
		}
	}
	for _, raw := range []string{
		"k8s://jobs", "k8s:///app", "k8s:jobs", "http://jobs/app", "k8s://jobs/app//b", "k8s://JOBS/app", "k8s://a.b/app", "k8s://jobs:1/app", "k8s://jobs/app?timeout=1", "k8s://jobs/app?timeout=-1s",
		"k8s://jobs/app?context=none", "k8s://u:secret@jobs/app", "k8s://jobs/app?token=secret", "k8s://jobs/app/secret@b", "k8s://jobs/app?secret=x", "k8s://jobs/app?context=",
	} {
		if _, _, err := kubestore.FromURL(raw, nil); !errors.Is(err, store.ErrMisconfigured) || strings.Contains(strings.ReplaceAll(err.Error(), `parameter "secret"`, ""), "secret") {
			t.Errorf("%s: %v", raw, err)
		}
	}
	for _, config := range []string{
		"", ":", "{current-context: x}", "{current-context: x, contexts: [{name: x, context: {cluster: c}}]}",
		"CLUSTER http://a", "CLUSTER https://u:secret@a", "CLUSTER https://a, insecure-skip-tls-verify: true", "CLUSTER https://a, proxy-url: 'http://secret'",
		"CLUSTER https://a, certificate-authority: /secret", "CLUSTER https://a, certificate-authority-data: secret", "CLUSTER https://a, certificate-authority-data: c2VjcmV0",
		"USER username: secret, password: secret", "USER as: secret", "USER auth-provider: {name: secret}", "USER client-certificate: /secret", "USER client-certificate-data: secret", "USER client-certificate-data: c2VjcmV0, client-key-data: c2VjcmV0",
	} {
		form := "{current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: %s}}], users: [{name: u, user: {%s}}]}"
		if server, ok := strings.CutPrefix(config, "CLUSTER "); ok {
			config = fmt.Sprintf(form, server, "")
		} else if user, ok := strings.CutPrefix(config, "USER "); ok {
			config = fmt.Sprintf(form, "https://a", user)
		}
		if _, err := kubestore.FromKubeconfig([]string{write(t, config)}, ""); !errors.Is(err, store.ErrMisconfigured) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", config, err)
		}
	}
	for _, c := range []struct{ files, context, says string }{
		{first, "none", `the context "none" of the kubeconfig ` + first + ": it does not exist"},
		{"/none/config", "a", "the kubeconfig /none/config: no such file"},
		{write(t, ":"), "a", "config: it is not readable YAML"},
		{write(t, "{current-context: old, contexts: [{name: old, context: {cluster: c}}]}"), "", `the context "old" of the kubeconfig `},
	} {
		if _, err := kubestore.FromKubeconfig([]string{c.files}, c.context); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v does not say %q", err, c.says)
		}
	}
	t.Setenv("KUBECONFIG", "")
	if _, _, err := kubestore.FromURL("k8s://jobs/app", nil); !errors.Is(err, store.ErrMisconfigured) || !strings.Contains(err.Error(), "set KUBECONFIG") {
		t.Errorf("without a kubeconfig and outside of a pod: %v", err)
	}
}

// TestOptions: options out of their bounds are refused.
func TestOptions(t *testing.T) {
	cluster, err := kubestore.FromKubeconfig([]string{write(t, "{current-context: a, contexts: [{name: a, context: {cluster: c}}], clusters: [{name: c, cluster: {server: 'https://a'}}]}")}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []kubestore.Options{
		{}, {Namespace: "a"}, {Namespace: "A", Prefix: "a"}, {Namespace: "a", Prefix: "a//b"}, {Namespace: "a", Prefix: "a", Timeout: time.Millisecond}, {Namespace: "a", Prefix: "a", Timeout: -1},
		{Namespace: "a", Prefix: strings.Repeat("a", kubestore.MaxPrefix+1)},
	} {
		if _, err := kubestore.New(cluster, &o); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := kubestore.New(nil, nil); err == nil {
		t.Error("a nil cluster was accepted")
	}
}

// TestDamagedTLS: a device on the way breaks an encrypted connection after the server got the request. It may be applied.
func TestDamagedTLS(t *testing.T) {
	st := open(t, server(t, "token: "+secret, func(w http.ResponseWriter, r *http.Request) {
		conn := r.Context().Value(connKey{}).(*tls.Conn)
		_, _ = io.WriteString(conn.NetConn(), "HTTP/1.1 302 Found\r\n\r\n")
		conn.NetConn().Close()
	}))
	_, err := st.Put(t.Context(), "key", "", []byte("value"))
	if store.OutcomeOf(err) != store.Unknown {
		t.Errorf("%v, %v", err, store.OutcomeOf(err))
	}
}

type connKey struct{}
