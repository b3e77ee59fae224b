package azblobstore_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/holdfast-go/holdfast/azure/azblobbucket"
	"github.com/holdfast-go/holdfast/azure/azblobstore"
	"github.com/holdfast-go/holdfast/store"
)

// blobs is a server of Blob Storage with single blobs: it knows Put Blob and Get Blob.
type blobs struct {
	mu     sync.Mutex
	bodies map[string]string
	etags  map[string]string
	writes int
	calls  []string

	age, skew time.Duration // of each blob, and of the server's clock
}

func (s *blobs) Do(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := r.URL.Path
	s.calls = append(s.calls, r.Method+" "+key)
	now := time.Now().Add(s.skew).UTC()
	h := http.Header{"X-Ms-Request-Id": {"1"}, "Date": {now.Format(http.TimeFormat)}, "Last-Modified": {now.Add(-s.age).Format(http.TimeFormat)}}
	reply := func(status int, code, body string) (*http.Response, error) {
		if code != "" {
			h.Set("X-Ms-Error-Code", code)
		}
		return &http.Response{Status: code, StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: r}, nil
	}
	etag, there := s.etags[key]
	if r.Method == http.MethodGet {
		if !there {
			return reply(404, "BlobNotFound", "")
		}
		h.Set("Etag", etag)
		h.Set("Content-Length", fmt.Sprint(len(s.bodies[key])))
		if r.Header.Get("If-None-Match") == etag {
			return reply(304, "ConditionNotMet", "")
		}
		return reply(200, "", s.bodies[key])
	}
	body, _ := io.ReadAll(r.Body)
	switch match := r.Header.Get("If-Match"); {
	case r.Header.Get("If-None-Match") == "*" && there:
		return reply(409, "BlobAlreadyExists", "")
	case match != "" && match != etag:
		return reply(412, "ConditionNotMet", "")
	}
	s.writes++
	s.bodies[key], s.etags[key] = string(body), fmt.Sprintf(`"0x8D%d"`, s.writes)
	h.Set("Etag", s.etags[key])
	return reply(201, "", "")
}

func newStore(t *testing.T, s *blobs) *azblobstore.Store {
	t.Helper()
	s.bodies, s.etags = map[string]string{}, map[string]string{}
	c, err := container.NewClientWithNoCredential("https://account.blob.core.windows.net/box", &container.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: s}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := azblobbucket.New(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	st, err := azblobstore.New(b, "app", nil)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// TestRequests: on Azure there is no probe. A write is one request, a refused write is two, and a read is one.
func TestRequests(t *testing.T) {
	s := &blobs{}
	st := newStore(t, s)
	var v store.Version
	for _, c := range []struct {
		name string
		do   func() error
		want error
		ops  string
	}{
		{"get of nothing", func() error { _, _, err := st.Get(t.Context(), "k"); return err }, store.ErrNotFound, "GET"},
		{"create", func() (err error) { v, err = st.Put(t.Context(), "k", "", []byte("1")); return err }, nil, "PUT"},
		{"create again", func() error { _, err := st.Put(t.Context(), "k", "", []byte("1")); return err }, store.ErrConflict, "PUT GET"},
		{"swap", func() error { _, err := st.Put(t.Context(), "k", v, []byte("2")); return err }, nil, "PUT"},
		{"stale swap", func() error { _, err := st.Put(t.Context(), "k", v, []byte("3")); return err }, store.ErrConflict, "PUT GET"},
		{"get", func() error { _, _, err := st.Get(t.Context(), "k"); return err }, nil, "GET"},
	} {
		s.calls = nil
		if err := c.do(); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
		var ops []string
		for _, call := range s.calls {
			method, key, _ := strings.Cut(call, " ")
			if ops = append(ops, method); key != "/box/app/k.json" {
				t.Errorf("%s: the blob %s", c.name, key)
			}
		}
		if got := strings.Join(ops, " "); got != c.ops {
			t.Errorf("%s: requests %q, want %q", c.name, got, c.ops)
		}
	}
	if tr := st.Traits(); !tr.Trusted || tr.Name != "azblob://account/box/app" {
		t.Errorf("%+v", tr)
	}
}

// TestAge: the age of a register is by the service's clock, less a second and the largest skew. If the clocks differ by
// more, there is no age.
func TestAge(t *testing.T) {
	for _, c := range []struct {
		age, skew time.Duration
		want      time.Duration
	}{
		{10 * time.Minute, 0, 10*time.Minute - 61*time.Second}, {10 * time.Minute, 50 * time.Second, 10*time.Minute - 61*time.Second},
		{10 * time.Minute, 2 * time.Minute, -1}, {10 * time.Minute, -2 * time.Minute, -1}, {30 * time.Second, 0, -1},
	} {
		s := &blobs{age: c.age, skew: c.skew}
		st := newStore(t, s)
		if _, err := st.Put(t.Context(), "k", "", []byte("1")); err != nil {
			t.Fatal(err)
		}
		_, _, got, err := st.GetAge(t.Context(), "k")
		if err != nil || got != c.want {
			t.Errorf("%v old, %v ahead: got %v, %v; want %v", c.age, c.skew, got, err, c.want)
		}
	}
}

// TestNames: two keys that Azure would take for one have different blobs, and no segment ends with a dot.
func TestNames(t *testing.T) {
	st := newStore(t, &blobs{})
	if a, b := st.ObjectKey("a./b"), st.ObjectKey("a/b"); a != "app/a!2E/b.json" || b != "app/a/b.json" {
		t.Errorf("got %q and %q", a, b)
	}
}
