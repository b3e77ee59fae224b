package kubestore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/kubernetes/kubestore"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// api keeps Lease objects, and compares their resourceVersion and uid as an API server does.
type api struct {
	mu       sync.Mutex
	objects  map[string]map[string]any // the metadata
	revision int
}

// ServeHTTP handles the requests for objects, without listings and watches.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var sent struct {
		Metadata map[string]any `json:"metadata"`
	}
	if r.Method != http.MethodGet && json.NewDecoder(r.Body).Decode(&sent) != nil {
		refuse(w, 400, "")
		return
	}
	name := filepath.Base(r.URL.Path)
	if r.Method == http.MethodPost {
		name, _ = sent.Metadata["name"].(string)
	}
	is, known := a.objects[name]
	switch {
	case r.Method == http.MethodGet && !known:
		refuse(w, 404, "")
		return
	case r.Method == http.MethodPost && known, r.Method == http.MethodPut && (!known || sent.Metadata["uid"] != is["uid"] || sent.Metadata["resourceVersion"] != is["resourceVersion"]):
		refuse(w, 409, "")
		return
	case r.Method != http.MethodGet:
		if r.Method == http.MethodPost {
			sent.Metadata["uid"] = fmt.Sprint("uid", a.revision)
		}
		is = sent.Metadata
		a.touch(is)
		a.objects[name] = is
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"metadata": is})
}

// touch gives an object a new resourceVersion. The caller holds the mutex, or is alone.
func (a *api) touch(object map[string]any) {
	a.revision++
	object["resourceVersion"] = fmt.Sprint(a.revision)
}

func refuse(w http.ResponseWriter, code int, more string) {
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, `{"kind":"Status","code":%d,"message":"refused","details":{"kind":"leases"}%s}`, code, more)
}

// TestRepeatedWrites: a proxy sends each write twice, and returns the answer to the second one, a conflict. The
// writes succeed.
func TestRepeatedWrites(t *testing.T) {
	a := &api{objects: map[string]map[string]any{}}
	st := open(t, server(t, "token: "+secret, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodGet {
			first := r.Clone(r.Context())
			first.Body = io.NopCloser(strings.NewReader(string(body)))
			a.ServeHTTP(httptest.NewRecorder(), first)
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		a.ServeHTTP(w, r)
	}))
	v, err := st.Put(t.Context(), "key", "", []byte("1"))
	if err == nil {
		v, err = st.Put(t.Context(), "key", v, []byte("2"))
	}
	if err == nil {
		err = st.Delete(t.Context(), "key", v)
	}
	if err == nil {
		_, err = st.Put(t.Context(), "key", "", []byte("3"))
	}
	if err != nil {
		t.Error(err)
	}
}

// TestTouchedObject: another program changes the object of a lock, but not its record. The holder renews.
func TestTouchedObject(t *testing.T) {
	a := &api{objects: map[string]map[string]any{}}
	st := open(t, server(t, "token: "+secret, a.ServeHTTP))
	c, err := lease.New(st, &lease.Options{TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	h, err := c.Handle("job", nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := h.TryAcquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		a.mu.Lock()
		for _, object := range a.objects {
			object["annotations"].(map[string]any)["other.example/seen"] = "now"
			a.touch(object)
		}
		a.mu.Unlock()
		if err := g.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestTouchedDeadHolder: another program changes the object of a lock again and again. This is no sign of life of the
// holder, so a waiter takes the lock.
func TestTouchedDeadHolder(t *testing.T) {
	a := &api{objects: map[string]map[string]any{}}
	st := open(t, server(t, "token: "+secret, a.ServeHTTP))
	newClient := func(o *lease.Options) *lease.Client {
		c, err := lease.New(st, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(context.Background()) }) // a guard may be lost
		return c
	}
	dead, err := newClient(&lease.Options{TTL: 2 * time.Second, ManualRenewal: true}).TryAcquire(t.Context(), "job", nil)
	if err != nil {
		t.Fatal(err)
	}
	end := make(chan struct{})
	var touching sync.WaitGroup
	touching.Go(func() {
		for tick := time.NewTicker(50 * time.Millisecond); ; {
			select {
			case <-end:
				return
			case <-tick.C:
				a.mu.Lock()
				for _, object := range a.objects {
					a.touch(object)
				}
				a.mu.Unlock()
			}
		}
	})
	defer touching.Wait()
	defer close(end)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	g, err := newClient(&lease.Options{TTL: time.Minute}).Acquire(ctx, "job", nil)
	if err != nil {
		t.Fatal(err)
	}
	if g.Token() <= dead.Token() {
		t.Errorf("token %d after %d", g.Token(), dead.Token())
	}
}

// TestRefusedToken: the server refuses a token before its end. The store then gets a new one, and sends the
// request again. It does not do so with the same token.
func TestRefusedToken(t *testing.T) {
	const next = "zq7secret7other"
	for _, c := range []struct {
		name   string
		rotate bool
		want   error
		sent   int // requests of the second put
	}{{"a new token", true, nil, 2}, {"the same token", false, store.ErrCredentials, 1}} {
		file := write(t, secret)
		valid, sent := secret, 0
		a := &api{objects: map[string]map[string]any{}}
		st := open(t, server(t, fmt.Sprintf("tokenFile: %q, token: old", file), func(w http.ResponseWriter, r *http.Request) {
			if sent++; r.Header.Get("Authorization") != "Bearer "+valid {
				refuse(w, 401, "")
				return
			}
			a.ServeHTTP(w, r)
		}))
		if _, err := st.Put(t.Context(), "one", "", []byte("1")); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if c.rotate {
			if err := os.WriteFile(file, []byte(next), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		valid, sent = next, 0
		if _, err := st.Put(t.Context(), "two", "", []byte("1")); !errors.Is(err, c.want) || sent != c.sent {
			t.Errorf("%s: %v after %d requests, want %v after %d", c.name, err, sent, c.want, c.sent)
		}
	}
}

// TestOneProgram: many requests at once run the program of the kubeconfig once.
func TestOneProgram(t *testing.T) {
	count := filepath.Join(t.TempDir(), "count")
	program := write(t, "#!/bin/sh\necho >>"+count+"\nsleep 0.3\n"+`printf '{"status":{"token":"%s"}}' `+secret)
	st := open(t, server(t, fmt.Sprintf("exec: {command: %q}", program), func(w http.ResponseWriter, _ *http.Request) { refuse(w, 404, "") }))
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, _, err := st.Get(t.Context(), "key"); !errors.Is(err, store.ErrNotFound) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if text, err := os.ReadFile(count); err != nil || len(text) != 1 {
		t.Errorf("the program ran %d times, %v", len(text), err)
	}
}

// TestSlowProgram: the program of the kubeconfig takes longer than each call. It runs once, and a later call has the
// token.
func TestSlowProgram(t *testing.T) {
	count := filepath.Join(t.TempDir(), "count")
	program := write(t, "#!/bin/sh\necho >>"+count+"\nsleep 1\n"+`printf '{"status":{"token":"%s"}}' `+secret)
	st := open(t, server(t, fmt.Sprintf("exec: {command: %q}", program), func(w http.ResponseWriter, _ *http.Request) { refuse(w, 404, "") }))
	calls := 0
	for err, end := error(nil), time.Now().Add(20*time.Second); !errors.Is(err, store.ErrNotFound); calls++ {
		if time.Now().After(end) {
			t.Fatalf("call %d: %v", calls, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, _, err = st.Get(ctx, "key")
		cancel()
	}
	if text, err := os.ReadFile(count); err != nil || len(text) != 1 || calls < 2 {
		t.Errorf("the program ran %d times in %d calls, %v", len(text), calls, err)
	}
}

// TestClosedProgram: Close ends the program of the kubeconfig.
func TestClosedProgram(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "pid")
	st := open(t, server(t, fmt.Sprintf("exec: {command: %q}", write(t, "#!/bin/sh\necho $$ >"+pid+"\nexec sleep 100")), nil))
	var text []byte
	for len(text) == 0 {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, _, _ = st.Get(ctx, "key") // it fails
		cancel()
		text, _ = os.ReadFile(pid)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if err := exec.CommandContext(t.Context(), "kill", "-0", strings.TrimSpace(string(text))).Run(); err == nil {
		t.Error("the program still runs")
	}
}

// TestVerify: a namespace that does not exist is noticed, and nothing is created.
func TestVerify(t *testing.T) {
	sent := ""
	st := open(t, server(t, "token: "+secret, func(w http.ResponseWriter, r *http.Request) {
		sent = r.Method + " " + r.URL.RequestURI()
		w.WriteHeader(404)
		_, _ = w.Write([]byte(`{"kind":"Status","message":"namespaces \"jobs\" not found","details":{"kind":"namespaces"}}`))
	}))
	if err := st.Verify(t.Context()); !errors.Is(err, store.ErrMisconfigured) || !strings.Contains(err.Error(), "kubectl create namespace jobs") {
		t.Error(err)
	}
	if want := "POST /apis/coordination.k8s.io/v1/namespaces/jobs/leases?dryRun=All"; sent != want {
		t.Errorf("sent %s, want %s", sent, want)
	}
}

// TestEndedWait: a call whose context ends while it waits for a token has sent nothing, and does not wait longer.
func TestEndedWait(t *testing.T) {
	st := open(t, server(t, fmt.Sprintf("exec: {command: %q}", write(t, "#!/bin/sh\nexec sleep 100")), func(http.ResponseWriter, *http.Request) {
		t.Error("a request was sent")
	}))
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if _, err := st.Put(ctx, "key", "", []byte("1")); !errors.Is(err, context.DeadlineExceeded) || store.OutcomeOf(err) != store.NotApplied {
				t.Errorf("%v (%v)", err, store.OutcomeOf(err))
			}
		})
	}
	all.Wait()
}

// TestBadToken: a token that no header can have is refused before a request, and is not shown.
func TestBadToken(t *testing.T) {
	for _, user := range []string{`token: "` + secret + `\nX: y"`, fmt.Sprintf("tokenFile: %q", write(t, secret+"\nmore"))} {
		st := open(t, server(t, user, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") }))
		if _, err := st.Put(t.Context(), "key", "", []byte("1")); !errors.Is(err, store.ErrCredentials) || store.OutcomeOf(err) != store.NotApplied || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", user, err)
		}
	}
}

// TestExpiredListing: the server forgets the state of a listing between two pages, and gives a token that continues
// with a later state. The listing yields each key once.
func TestExpiredListing(t *testing.T) {
	a := &api{objects: map[string]map[string]any{}}
	st := open(t, server(t, "token: "+secret, func(w http.ResponseWriter, r *http.Request) {
		if filepath.Base(r.URL.Path) != "leases" || r.Method != http.MethodGet {
			a.ServeHTTP(w, r)
			return
		}
		var items []any
		for _, object := range a.objects {
			items = append(items, map[string]any{"metadata": object})
		}
		switch r.URL.Query().Get("continue") {
		case "":
			_ = json.NewEncoder(w).Encode(map[string]any{"metadata": map[string]any{"continue": "old"}, "items": items[:1]})
		case "old":
			refuse(w, 410, `,"reason":"Expired","metadata":{"continue":"new"}`)
		case "new":
			_ = json.NewEncoder(w).Encode(map[string]any{"items": items[:0]})
		}
	}))
	if _, err := st.Put(t.Context(), "key", "", []byte("1")); err != nil {
		t.Fatal(err)
	}
	found := 0
	for key, err := range st.List(t.Context(), "") {
		if found++; err != nil || key != "key" {
			t.Errorf("%q, %v", key, err)
		}
	}
	if found != 1 {
		t.Errorf("%d keys", found)
	}
}

// TestEndedNamespace: an object cannot be created in a namespace that is being deleted. This is not a question of
// rights.
func TestEndedNamespace(t *testing.T) {
	st := open(t, server(t, "token: "+secret, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(403)
		_, _ = w.Write([]byte(`{"kind":"Status","message":"it is being terminated","details":{"kind":"leases","causes":[{"reason":"NamespaceTerminating"}]}}`))
	}))
	if _, err := st.Put(t.Context(), "key", "", []byte("1")); !errors.Is(err, store.ErrMisconfigured) || strings.Contains(err.Error(), "a role must") {
		t.Error(err)
	}
}

// TestErase: the server accepts a deletion that a finalizer delays.
func TestErase(t *testing.T) {
	st := open(t, server(t, "token: "+secret, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(202)
		_, _ = w.Write([]byte(`{"kind":"Lease"}`))
	}))
	if err := st.Erase(t.Context(), "key"); err != nil {
		t.Error(err)
	}
}

// TestSamePlace: the ids of two clusters behind one address differ.
func TestSamePlace(t *testing.T) {
	var ids []string
	for _, path := range []string{"", "/k8s/clusters/a", "/k8s/clusters/b"} {
		file := write(t, "{current-context: a, contexts: [{name: a, context: {cluster: c}}], clusters: [{name: c, cluster: {server: 'https://one"+path+"'}}]}")
		st, err := kubestore.Open(t.Context(), "k8s://jobs/app?kubeconfig="+file, nil)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, store.TraitsOf(st).ID)
	}
	if ids[0] != "kubernetes:one/jobs" || ids[0] == ids[1] || ids[1] == ids[2] {
		t.Error(ids)
	}
}

// TestWatchAnswers: a watch ends when anything arrives. If the server ends it at once, the watch fails: the caller
// then waits without it, and sends few requests.
func TestWatchAnswers(t *testing.T) {
	status := `{"kind":"Status","code":%d,"message":"x"}`
	for _, c := range []struct {
		name string
		code int
		body string
		want error
	}{
		{"a bookmark", 200, `{"type":"BOOKMARK","object":{}}`, nil},
		{"an error", 200, `{"type":"ERROR","object":{"kind":"Status","code":410}}`, nil},
		{"an event", 200, `{"type":"MODIFIED","object":{}}`, nil},
		{"gone", 410, status, nil},
		{"no token", 401, status, store.ErrCredentials},
		{"unavailable", 503, status, store.ErrUnavailable},
		{"no JSON", 200, "<html>", store.ErrUnavailable},
		{"only closed", 200, "", store.ErrUnavailable},
		{"half an event", 200, `{"type":`, store.ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			st := open(t, server(t, "token: "+secret, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Get("watch") == "" {
					_, _ = w.Write([]byte(`{"metadata":{"resourceVersion":"7"}}`))
					return
				}
				w.WriteHeader(c.code)
				_, _ = w.Write([]byte(strings.ReplaceAll(c.body, "%d", fmt.Sprint(c.code))))
			}))
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if err := st.Watch(ctx, "key", ""); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// TestNoGoroutines: after requests that failed and watches that were ended, only idle connections are left.
func TestNoGoroutines(t *testing.T) {
	config := server(t, "token: "+secret, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") != "" {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		refuse(w, 404, "")
	})
	before := runtime.NumGoroutine()
	var all []*kubestore.Store
	for range 20 {
		st, err := kubestore.Open(t.Context(), "k8s://jobs/app?kubeconfig="+config, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, _ = st.Put(ctx, "key", "", []byte("1")) // it fails
		_ = st.Watch(ctx, "key", "")
		cancel()
		all = append(all, st)
	}
	for end := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before+5; time.Sleep(10 * time.Millisecond) {
		for _, st := range all { // a connection becomes idle shortly after the end of its last request
			if err := st.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

// TestDeadConnection: the network drops all packets of a connection without a notice. The next request uses
// another connection.
func TestDeadConnection(t *testing.T) {
	config := server(t, "token: "+secret, func(w http.ResponseWriter, _ *http.Request) { refuse(w, 404, "") })
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	var proxied string // the proxy is between the store and the address of the server
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(string(text))
	var frozen atomic.Bool
	proxy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { proxy.Close() })
	go func() {
		for {
			in, err := proxy.Accept()
			if err != nil {
				return
			}
			early := !frozen.Load()
			out, err := net.Dial("tcp", address)
			if err != nil {
				in.Close()
				continue
			}
			pass := func(to, from net.Conn) {
				defer to.Close()
				for b := make([]byte, 4096); ; {
					n, err := from.Read(b)
					if err != nil {
						return
					}
					if !early || !frozen.Load() {
						_, _ = to.Write(b[:n]) // the read then fails, too
					}
				}
			}
			go pass(in, out)
			go pass(out, in)
		}
	}()
	proxied = strings.ReplaceAll(string(text), address, proxy.Addr().String())
	st := openWithin(t, "300ms", write(t, proxied))
	for !errors.Is(err, store.ErrNotFound) { // the first connection may take longer on a busy machine
		_, _, err = st.Get(t.Context(), "key")
	}
	err = nil
	frozen.Store(true)
	began := time.Now()
	for !errors.Is(err, store.ErrNotFound) {
		_, _, err = st.Get(t.Context(), "key")
	}
	if took := time.Since(began); took > 4*time.Second { // without the rule, until the next ping: 10 s
		t.Errorf("it took %v", took)
	}
}
