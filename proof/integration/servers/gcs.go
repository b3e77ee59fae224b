package servers

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// GCS is fake-gcs-server, a server for tests that speaks the protocol of Google Cloud Storage. It ignores
// most conditions: TestGCSBehaviour in proof/integration/gcs lists them. A corrected GCS has a proxy
// in front, which checks these conditions before it forwards a request. All other requests to change an object wait
// meanwhile, so a check and its change are one step.
type GCS struct {
	*Restartable
	front   *httptest.Server // nil: not corrected
	changes sync.Mutex       // held while the server changes an object
}

// NewGCS starts a server that keeps its objects in a directory of the test. A file cannot have the same
// name as a directory: so there cannot be both the object a and the object a/b.
func NewGCS(t testing.TB, corrected bool) *GCS {
	t.Helper()
	return newGCS(t, corrected, "-backend", "filesystem", "-filesystem-root", filepath.Join(t.TempDir(), "data"))
}

// NewGCSInMemory starts a server that keeps its objects in memory. It loses them when it is killed.
func NewGCSInMemory(t testing.TB, corrected bool) *GCS {
	t.Helper()
	return newGCS(t, corrected, "-backend", "memory")
}

func newGCS(t testing.TB, corrected bool, args ...string) *GCS {
	bin := get(t, fakeGCS.name, fakeGCS.path)
	g := &GCS{}
	g.Restartable = newRestartable(fakeGCS.name, func(address string) (*exec.Cmd, error) {
		cmd := exec.Command(bin, append([]string{"-scheme", "http", "-host", "127.0.0.1", "-port", portOf(address),
			"-public-host", "127.0.0.1", "-log-level", "error"}, args...)...)
		return cmd, nil
	}, func(ctx context.Context, address string) error {
		return answers(ctx, http.DefaultClient, "http://"+address+"/_internal/healthcheck")
	})
	g.startFor(t)
	if corrected {
		g.front = httptest.NewServer(g)
		t.Cleanup(g.front.Close)
	}
	return g
}

// Address returns the address of the server, or of the proxy that corrects it.
func (g *GCS) Address() string {
	if g.front == nil {
		return g.Restartable.Address()
	}
	return g.front.Listener.Addr().String()
}

// Kill ends the server as kill -9 does. It waits for a change in progress: the server writes the body and
// the metadata of an object in two steps, and after a kill in between the server cannot read the object.
func (g *GCS) Kill() {
	g.changes.Lock()
	defer g.changes.Unlock()
	g.Restartable.Kill()
}

// URL returns the URL of a store in a bucket. If the parameter address is empty, it is that of the server.
func (g *GCS) URL(bucket, address string) string {
	return "gs://" + bucket + "?anonymous=true&endpoint=" + url.QueryEscape("http://"+cmp.Or(address, g.Address()))
}

// NewBucket creates a bucket, and returns its name.
func (g *GCS) NewBucket(t testing.TB) string {
	t.Helper()
	name := "b" + strconv.FormatUint(rand.Uint64(), 36)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	resp, err := httpDo(ctx, http.DefaultClient, http.MethodPost, "http://"+g.Restartable.Address()+"/storage/v1/b", strings.NewReader(`{"name":"`+name+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("create a bucket: status %d", resp.StatusCode)
	}
	return name
}

// ServeHTTP forwards a request to the server, unless a condition does not hold.
func (g *GCS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		g.changes.Lock()
		defer g.changes.Unlock()
	}
	if status := g.refusal(r); status != 0 {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		if status >= 400 {
			fmt.Fprintf(w, `{"error":{"code":%d,"message":"At least one of the pre-conditions you specified did not hold.","errors":[{"reason":"conditionNotMet"}]}}`, status)
		}
		return
	}
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, out.RequestURI = "http", g.Restartable.Address(), ""
	out.Body, out.ContentLength, out.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	resp, err := noCompression.RoundTrip(out)
	if err != nil {
		panic(http.ErrAbortHandler) // the server does not run: no answer
	}
	defer resp.Body.Close()
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}

var noCompression = &http.Transport{DisableCompression: true}

// refusal returns the status with which the service answers if a condition that the server ignores does
// not hold: of a delete, of a copy, and of a read. It returns 0 if the server may carry out the request.
func (g *GCS) refusal(r *http.Request) int {
	query := r.URL.Query()
	path := r.URL.EscapedPath()
	_, object, _ := strings.Cut(path, "/storage/v1")
	source, destination, copied := strings.Cut(object, "/rewriteTo")
	switch {
	case copied:
		if holds, _ := g.holds(source, query.Get("ifSourceGenerationMatch")); !holds {
			return http.StatusPreconditionFailed
		}
		if holds, _ := g.holds(destination, query.Get("ifGenerationMatch")); !holds {
			return http.StatusPreconditionFailed
		}
	case r.Method == http.MethodGet && strings.HasPrefix(path, "/storage/v1/b/"):
		if not := query.Get("ifGenerationNotMatch"); not != "" {
			if same, there := g.holds(object, not); same && there {
				return http.StatusNotModified
			}
		}
	case r.Method == http.MethodGet:
		bucket, key, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		if holds, there := g.holds("/b/"+bucket+"/o/"+key, r.Header.Get("X-Goog-If-Generation-Match")); !holds && there {
			return http.StatusPreconditionFailed
		}
	case r.Method == http.MethodDelete:
		if holds, there := g.holds(object, query.Get("ifGenerationMatch")); !holds && there {
			return http.StatusPreconditionFailed
		}
	}
	return 0
}

// holds reports whether an object has a generation, and whether it exists. An empty generation is no
// condition.
func (g *GCS) holds(object, generation string) (holds, there bool) {
	if generation == "" {
		return true, true
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	resp, err := httpDo(ctx, http.DefaultClient, http.MethodGet, "http://"+g.Restartable.Address()+"/storage/v1"+object, nil)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer resp.Body.Close()
	var found struct{ Generation string }
	if resp.StatusCode == http.StatusNotFound {
		found.Generation = "0"
	} else if err := json.NewDecoder(resp.Body).Decode(&found); err != nil {
		panic(http.ErrAbortHandler)
	}
	return found.Generation == generation, found.Generation != "0"
}
