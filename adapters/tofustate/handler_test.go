package tofustate_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/adapters/tofustate"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
	"github.com/holdfast-go/holdfast/store/filestore"
	"github.com/holdfast-go/holdfast/store/memstore"
)

func handler(t testing.TB, s store.Store, o *tofustate.Options) http.Handler {
	t.Helper()
	h, err := tofustate.New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// ask sends one request, "METHOD PATH", as OpenTofu does, and returns the status and the body of the reply.
func ask(ctx context.Context, h http.Handler, line, body string, header ...string) (int, string) {
	method, path, _ := strings.Cut(line, " ")
	r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	if body != "" {
		sum := md5.Sum([]byte(body))
		r.Header.Set("Content-MD5", base64.StdEncoding.EncodeToString(sum[:]))
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// step is one request with the reply that it must get.
type step struct {
	request string
	body    string
	status  int
	says    string // part of the reply
}

// steps sends requests one after the other, each by the next handler.
func steps(t *testing.T, hs []http.Handler, all []step) {
	t.Helper()
	for i, s := range all {
		if status, reply := ask(t.Context(), hs[i%len(hs)], s.request, s.body); status != s.status || !strings.Contains(reply, s.says) {
			t.Errorf("request %d, %.60s %.80s: got status %d and %.200q, want %d and %q", i+1, s.request, s.body, status, reply, s.status, s.says)
		}
	}
}

// lockOf is the description of a lock as OpenTofu sends it.
func lockOf(id string) string {
	return fmt.Sprintf(`{"ID":%q,"Operation":"OperationTypeApply","Info":"","Who":"ada@%s","Version":"1.10.10","Created":"2026-01-02T03:04:05Z","Path":""}`, id, id)
}

func stateOf(serial int, content string) string {
	return fmt.Sprintf(`{"version":4,"serial":%d,"lineage":"line","outputs":{"v":{"value":%q,"type":"string"}}}`, serial, content)
}

// version is an entry of the history.
type version struct {
	Version, Serial int
	LockID          string `json:"lock_id"`
}

func history(t *testing.T, h http.Handler, name string) (all []version) {
	t.Helper()
	_, reply := ask(t.Context(), h, "GET /history/"+name, "")
	if err := json.Unmarshal([]byte(reply), &all); err != nil {
		t.Fatalf("%v: %s", err, reply)
	}
	return all
}

// TestProtocol: the requests of clients, with the replies that they need. Two handlers share one store, and get
// every other request.
func TestProtocol(t *testing.T) {
	for name, all := range map[string][]step{
		"a lock excludes": {
			{"GET /state/a/b", "", 404, "no state"},
			{"GET /lock/a/b", "", 404, "free"},
			{"LOCK /state/a/b", lockOf("A"), 200, ""},
			{"LOCK /state/a/b", lockOf("B"), 423, lockOf("A")},
			{"GET /lock/a/b", "", 200, lockOf("A")},
			{"LOCK /state/a/b", lockOf("A"), 200, ""},
			{"LOCK /state/a", lockOf("B"), 200, ""},
			{"POST /state/a/b?ID=A", stateOf(1, "x"), 200, ""},
			{"GET /state/a/b", "", 200, stateOf(1, "x")},
			{"HEAD /state/a/b", "", 200, ""},
			{"UNLOCK /state/a/b", lockOf("B"), 409, lockOf("A")},
			{"UNLOCK /state/a/b", lockOf("A"), 200, ""},
			{"UNLOCK /state/a/b", lockOf("A"), 200, ""},
			{"LOCK /state/a/b", lockOf("B"), 200, ""},
			{"UNLOCK /state/a/b", lockOf("A"), 200, ""}, // a repeated request: B keeps its lock
			{"LOCK /state/a/b", lockOf("C"), 423, lockOf("B")},
		},
		"only the holder writes": {
			{"POST /state/s?ID=A", stateOf(1, "x"), 409, "not held"},
			{"GET /state/s", "", 404, ""},
			{"LOCK /state/s", lockOf("A"), 200, ""},
			{"POST /state/s", stateOf(1, "x"), 423, lockOf("A")},
			{"POST /state/s?ID=B", stateOf(1, "x"), 423, lockOf("A")},
			{"POST /state/s?ID=", stateOf(1, "x"), 423, lockOf("A")},
			{"DELETE /state/s?ID=B", "", 423, lockOf("A")},
			{"GET /state/s", "", 404, ""},
			{"POST /state/s?ID=A", stateOf(1, "x"), 200, ""},
			{"UNLOCK /state/s", lockOf("A"), 200, ""},
			{"POST /state/s?ID=A", stateOf(2, "y"), 409, "not held"},
			{"DELETE /state/s?ID=A", "", 409, "not held"},
			{"GET /state/s", "", 200, stateOf(1, "x")},
		},
		"repeated and late requests": {
			{"LOCK /state/s", lockOf("A"), 200, ""},
			{"POST /state/s?ID=A", stateOf(1, "x"), 200, ""},
			{"POST /state/s?ID=A", stateOf(1, "x"), 200, ""},
			{"POST /state/s?ID=A", stateOf(2, "y"), 200, ""},
			{"POST /state/s?ID=A", stateOf(1, "x"), 409, "late"},
			{"GET /state/s", "", 200, stateOf(2, "y")},
			{"UNLOCK /state/s", lockOf("A"), 200, ""},
			{"POST /state/s?ID=A", stateOf(2, "y"), 200, ""}, // it is stored
			{"LOCK /state/s", lockOf("A"), 409, "needs a new ID"},
			{"GET /lock/s", "", 404, "free"},
			{"GET /history/s", "", 200, `"version":2,"serial":2`},
			{"GET /state/s?version=3", "", 410, "no such version"},
		},
		"a forced unlock": {
			{"UNLOCK /state/s", "", 200, ""},
			{"UNLOCK /state/s", `{"ID":"X","Created":"0001-01-01T00:00:00Z"}`, 409, "no lock is held"},
			{"LOCK /state/s", lockOf("A"), 200, ""},
			{"UNLOCK /state/s", `{"ID":"X"}`, 409, lockOf("A")},
			{"UNLOCK /state/s", `{"ID":"A"}`, 200, ""}, // OpenTofu since 1.10
			{"POST /state/s?ID=A", stateOf(1, "x"), 409, "not held"},
			{"UNLOCK /state/s", lockOf("A"), 200, ""},
			{"LOCK /state/s", lockOf("B"), 200, ""},
			{"UNLOCK /state/s", "", 200, ""}, // Terraform, and OpenTofu before 1.10
			{"LOCK /state/s", lockOf("C"), 200, ""},
			{"POST /state/s?ID=B", stateOf(1, "x"), 423, lockOf("C")},
		},
		"without a lock": {
			{"POST /state/s", stateOf(5, "x"), 200, ""},
			{"POST /state/s", stateOf(5, "x"), 200, ""},
			{"POST /state/s", stateOf(5, "y"), 409, "needs the lock"},
			{"POST /state/s", stateOf(4, "y"), 409, "needs the lock"},
			{"PUT /state/s", stateOf(6, "y"), 200, ""},
			{"POST /state/s", stateOf(5, "x"), 409, "needs the lock"}, // late
			{"GET /state/s", "", 200, stateOf(6, "y")},
			{"POST /state/s", strings.Replace(stateOf(1, "z"), "line", "other", 1), 200, ""},
			{"POST /state/s", `{}`, 200, ""}, // an encrypted state may have neither serial nor lineage
			{"POST /state/s", `{"encrypted_data":"x"}`, 200, ""},
		},
		"push -force with the lock": {
			{"POST /state/s", stateOf(9, "x"), 200, ""},
			{"LOCK /state/s", lockOf("A"), 200, ""},
			{"POST /state/s?ID=A", stateOf(3, "old"), 200, ""},
			{"POST /state/s?ID=A", stateOf(4, "older"), 200, ""},
			{"GET /state/s?version=1", "", 200, stateOf(9, "x")},
			{"GET /state/s", "", 200, stateOf(4, "older")},
		},
		"delete": {
			{"DELETE /state/s", "", 200, ""},
			{"GET /history/s", "", 200, "[]"},
			{"POST /state/s", stateOf(1, "x"), 200, ""},
			{"DELETE /state/s", "", 200, ""},
			{"DELETE /state/s", "", 200, ""},
			{"GET /state/s", "", 404, ""},
			{"GET /state/s?version=2", "", 404, ""},
			{"GET /state/s?version=1", "", 200, stateOf(1, "x")},
			{"LOCK /state/s", lockOf("A"), 200, ""},
			{"DELETE /state/s?ID=A", "", 200, ""},
			{"POST /state/s?ID=A", stateOf(1, "x"), 200, ""},
			{"GET /history/s", "", 200, `"version":3,"serial":1`},
		},
		"other methods": {
			{"POST /lock/s", lockOf("A"), 200, ""},
			{"PUT /lock/s", lockOf("B"), 423, lockOf("A")},
			{"DELETE /lock/s", lockOf("A"), 200, ""},
			{"LOCK /lock/s", lockOf("B"), 200, ""},
			{"UNLOCK /lock/s", lockOf("B"), 200, ""},
			{"PATCH /state/s", stateOf(1, "x"), 405, "method"},
			{"POST /history/s", "", 405, "method"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := memstore.New()
			steps(t, []http.Handler{handler(t, s, nil), handler(t, s, nil)}, all)
		})
	}
}

// TestHistory: the newest versions are readable, each with its own content, and no slot is used for two of them.
func TestHistory(t *testing.T) {
	s, err := filestore.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h := handler(t, s, &tofustate.Options{Keep: 3})
	for serial := 1; serial <= 20; serial++ {
		if status, reply := ask(t.Context(), h, "POST /state/s", stateOf(serial, fmt.Sprint("content ", serial))); status != 200 {
			t.Fatalf("serial %d: %d %s", serial, status, reply)
		}
		for version := 1; version <= serial; version++ {
			status, reply := ask(t.Context(), h, fmt.Sprint("GET /state/s?version=", version), "")
			if kept := version > serial-3; kept != (status == 200) || kept && reply != stateOf(version, fmt.Sprint("content ", version)) {
				t.Errorf("version %d of %d: %d %s", version, serial, status, reply)
			}
		}
	}
	if got := history(t, h, "s"); len(got) != 3 || got[0].Serial != 18 || got[2].Version != 20 {
		t.Errorf("the history has %v", got)
	}
	parts := 0
	for _, err := range store.List(t.Context(), s, "tofu/part") {
		if parts++; err != nil {
			t.Fatal(err)
		}
	}
	if parts != 4 {
		t.Errorf("%d slots are used, want 4: one more than versions", parts)
	}
	for _, keep := range []int{-1, tofustate.MaxKeep + 1} {
		if _, err := tofustate.New(s, &tofustate.Options{Keep: keep}); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("Keep %d: %v", keep, err)
		}
	}
}

// TestLongTexts: very long texts of a client cost versions of its history, and never the current state.
func TestLongTexts(t *testing.T) {
	h := handler(t, memstore.New(), &tofustate.Options{Keep: tofustate.MaxKeep})
	long := strings.Repeat("<", 128)
	info, _ := json.Marshal(map[string]string{"ID": long, "Who": long, "Info": strings.Repeat("&", 300), "Created": "2026-01-02T03:04:05Z"})
	steps(t, []http.Handler{h}, []step{{"LOCK /state/s", string(info), 200, ""}})
	for serial := 1; serial <= 40; serial++ {
		state := fmt.Sprintf(`{"serial":%d,"lineage":%q}`, serial, long)
		steps(t, []http.Handler{h}, []step{{"POST /state/s?ID=" + strings.ReplaceAll(long, "<", "%3C"), state, 200, ""}, {"GET /state/s", "", 200, state}})
	}
	if n := len(history(t, h, "s")); n < 10 || n > 39 {
		t.Errorf("%d versions are kept", n)
	}
}

// TestLargeState: a state that cannot be compressed.
func TestLargeState(t *testing.T) {
	data := make([]byte, 15<<20)
	rand.NewChaCha8([32]byte{1}).Read(data)
	state := fmt.Sprintf(`{"serial":1,"lineage":"line","encrypted_data":%q}`, base64.StdEncoding.EncodeToString(data)) // 20 MiB
	large := `{"x":"` + strings.Repeat("x", tofustate.MaxState) + `"}`
	s := memstore.New()
	steps(t, []http.Handler{handler(t, s, nil)}, []step{
		{"POST /state/s", state, 200, ""},
		{"GET /state/s", "", 200, state},
		{"POST /state/s", large, 413, "larger than"},
		{"POST /state/s", stateOf(2, "x"), 200, ""},
		{"GET /state/s?version=1", "", 200, state},
	})
}

// TestBadInput: each mistake is refused, and changes nothing. No reply and no line of the log repeats control characters.
func TestBadInput(t *testing.T) {
	var log bytes.Buffer
	puts := atomic.Int64{}
	s := store.Intercept(memstore.New(), func(ctx context.Context, op *store.Op, next store.Handler) error {
		if op.Kind == store.OpPut {
			puts.Add(1)
		}
		return next(ctx, op)
	})
	h := handler(t, s, &tofustate.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	hostile := func(field, value string) string {
		text, _ := json.Marshal(map[string]string{"ID": "A", field: value})
		return string(text)
	}
	for _, c := range []step{
		{"GET /", "", 400, "must begin"},
		{"GET /states/s", "", 400, "must begin"},
		{"GET /state", "", 400, "empty"},
		{"GET /state/", "", 400, "empty"},
		{"GET /state//s", "", 400, "segment"},
		{"GET /state/../s", "", 400, "segment"},
		{"POST /state/%2e%2e/%2e%2e/etc/passwd", stateOf(1, "x"), 400, "segment"},
		{"POST /state/a/../b", stateOf(1, "x"), 400, "segment"},
		{"POST /state/a/", stateOf(1, "x"), 400, "segment"},
		{"POST /state/%ff", stateOf(1, "x"), 400, "UTF-8"},
		{"POST /state/" + strings.Repeat("x", 257), stateOf(1, "x"), 400, "at most 256"},
		{"POST /state/s", "", 400, "no state"},
		{"POST /state/s", "not JSON", 400, "no state"},
		{"POST /state/s", "[]", 400, "no state"},
		{"POST /state/s", "null", 400, "no state"},
		{"POST /state/s", lockOf("A"), 400, "describes a lock"},
		{"DELETE /state/s", lockOf("A"), 400, "describes a lock"},
		{"POST /state/s", stateOf(1, "x") + "}", 400, "no state"},
		{"POST /state/s", `{"serial":-1}`, 400, "no state"},
		{"POST /state/s", `{"serial":1e99}`, 400, "no state"},
		{"POST /state/s", `{"lineage":7}`, 400, "no state"},
		{"POST /state/s", `{"lineage":"` + strings.Repeat("x", 129) + `"}`, 400, "lineage"},
		{"POST /state/s?ID=" + strings.Repeat("%1b", 3000), stateOf(1, "x"), 409, "not held"},
		{"LOCK /state/s", "", 400, "no description"},
		{"LOCK /state/s", "{}", 400, "ID"},
		{"LOCK /state/s", "[]", 400, "no description"},
		{"LOCK /state/s", `{"ID":"` + strings.Repeat("x", 129) + `"}`, 400, "ID"},
		{"LOCK /state/s", hostile("Created", "soon"), 400, "no description"},
		{"LOCK /state/s", hostile("Who", "\x1b[2J"), 400, "control"},
		{"LOCK /state/s", hostile("Info", "\u009b2J"), 400, "control"},
		{"LOCK /state/s", hostile("ID", "a\nb"), 400, "control"},
		{"LOCK /state/s", hostile("Who", "root\u202e"), 400, "control"},
		{"LOCK /state/s", hostile("Info", strings.Repeat("x", 5000)), 413, "larger than"},
		{"UNLOCK /state/s", "not JSON", 400, "no description"},
		{"BREW /state/s\x1b", "", 0, ""},
	} {
		if c.status == 0 {
			r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
			r.Method, r.URL.Path = "BR\x1bEW", "/state/s\x1b\n"
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, r); w.Code != 405 || w.Header().Get("Allow") != "DELETE, GET, HEAD, LOCK, POST, PUT, UNLOCK" {
				t.Errorf("an unknown method: %d %v", w.Code, w.Header())
			}
			continue
		}
		status, reply := ask(t.Context(), h, c.request, c.body)
		if status != c.status || !strings.Contains(reply, c.says) || strings.ContainsAny(strings.TrimSuffix(reply, "\n"), "\x1b\n") || len(reply) > 1000 {
			t.Errorf("%.60s %.60s: got status %d and %.300q, want %d and %q", c.request, c.body, status, reply, c.status, c.says)
		}
	}
	for _, hash := range []string{"AAAAAAAAAAAAAAAAAAAAAA==", "x"} {
		if status, reply := ask(t.Context(), h, "POST /state/s", stateOf(1, "x"), "Content-MD5", hash); status != 400 || !strings.Contains(reply, "Content-MD5") {
			t.Errorf("hash %s: %d %s", hash, status, reply)
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/state/s", io.MultiReader(strings.NewReader(`{"serial":1}`), broken{}))
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != 400 {
		t.Errorf("half a request: %d %s", w.Code, w.Body)
	}
	if n := puts.Load(); n > 0 {
		t.Errorf("%d writes", n)
	}
	if strings.Contains(log.String(), "\x1b") {
		t.Errorf("the log has control characters: %q", log.String())
	}
	// The control: names and texts that only look wrong.
	for _, name := range []string{"%00%1b%0a", "a%20b/%F0%9F%94%92", "..a/.b", "%2526", "part/0/0", strings.Repeat("x", 256)} {
		steps(t, []http.Handler{h}, []step{{"LOCK /state/" + name, lockOf("A"), 200, ""}, {"POST /state/" + name + "?ID=A", stateOf(1, name), 200, ""}, {"GET /state/" + name, "", 200, stateOf(1, name)}})
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestStoreAway: a store that does not answer costs a status that clients repeat, and nothing remains locked.
func TestStoreAway(t *testing.T) {
	s := faultstore.New(memstore.New(), faultstore.MustParse("* * fail"))
	h := handler(t, s, nil)
	requests := []step{
		{"GET /state/s", "", 503, "injected"}, {"LOCK /state/s", lockOf("A"), 503, ""}, {"POST /state/s", stateOf(1, "x"), 503, ""},
		{"UNLOCK /state/s", lockOf("A"), 503, ""}, {"DELETE /state/s", "", 503, ""}, {"GET /lock/s", "", 503, ""}, {"GET /history/s", "", 503, ""},
	}
	steps(t, []http.Handler{h}, requests)
	s.Set(faultstore.Schedule{})
	works := []step{
		{"GET /state/s", "", 404, ""}, {"LOCK /state/s", lockOf("A"), 200, ""}, {"POST /state/s?ID=A", stateOf(1, "x"), 200, ""},
		{"UNLOCK /state/s", lockOf("A"), 200, ""}, {"GET /state/s", "", 200, ""},
	}
	steps(t, []http.Handler{h}, works)
	s.Set(faultstore.MustParse("* * fail"))
	steps(t, []http.Handler{h}, requests)

	// A client that leaves: its request has one of the two outcomes, and can be repeated.
	for cut := range 8 {
		inner := memstore.New()
		ctx, leave := context.WithCancel(t.Context())
		calls := 0
		h := handler(t, store.Intercept(inner, func(ctx context.Context, op *store.Op, next store.Handler) error {
			if calls++; calls > cut {
				leave()
			}
			return next(ctx, op)
		}), nil)
		for _, s := range []step{{"LOCK /state/s", lockOf("A"), 0, ""}, {"POST /state/s?ID=A", stateOf(1, "x"), 0, ""}, {"UNLOCK /state/s", lockOf("A"), 0, ""}} {
			first, _ := ask(ctx, h, s.request, s.body)
			again, reply := ask(t.Context(), handler(t, inner, nil), s.request, s.body)
			if again != 200 || first != 200 && first != 503 {
				t.Errorf("%d calls, %s: got status %d, and then %d %s", cut, s.request, first, again, reply)
			}
		}
		leave()
	}
}

// TestDamage: a damaged record or part is an error, and not an empty state: a client would create everything again.
func TestDamage(t *testing.T) {
	ctx := t.Context()
	damage := func(t *testing.T, s store.Store, key string, change func([]byte) []byte) {
		t.Helper()
		if _, err := store.Update(ctx, s, key, func(old []byte) ([]byte, error) { return change(bytes.Clone(old)), nil }); err != nil {
			t.Fatal(err)
		}
	}
	for name, change := range map[string]func([]byte) []byte{
		"garbage":    func([]byte) []byte { return []byte("{") },
		"empty":      func([]byte) []byte { return []byte{} },
		"null":       func([]byte) []byte { return []byte("null") },
		"new format": func(old []byte) []byte { return bytes.Replace(old, []byte(`"format":1`), []byte(`"format":2`), 1) },
		"huge": func(old []byte) []byte {
			return bytes.Replace(old, []byte(`"parts":1`), []byte(`"parts":1000000000`), 1)
		},
	} {
		s := memstore.New()
		h := handler(t, s, nil)
		steps(t, []http.Handler{h}, []step{{"POST /state/s", stateOf(1, "x"), 200, ""}})
		damage(t, s, "tofu/state/s", change)
		before, _, _ := s.Get(ctx, "tofu/state/s")
		for _, request := range []string{"GET /state/s", "POST /state/s", "LOCK /state/s", "UNLOCK /state/s"} {
			body := map[byte]string{'P': stateOf(2, "y"), 'L': lockOf("A"), 'U': lockOf("A")}[request[0]]
			if status, reply := ask(ctx, h, request, body); status != 500 {
				t.Errorf("%s: %s: %d %s", name, request, status, reply)
			}
		}
		if after, _, _ := s.Get(ctx, "tofu/state/s"); !bytes.Equal(before, after) {
			t.Errorf("%s: the record became %s", name, after)
		}
	}
	s := memstore.New()
	h := handler(t, s, nil)
	steps(t, []http.Handler{h}, []step{{"POST /state/s", stateOf(1, "x"), 200, ""}})
	var part string
	for key := range store.List(ctx, s, "tofu/part") {
		part = key
	}
	for _, change := range []func([]byte) []byte{
		func(b []byte) []byte { b[len(b)-12] ^= 1; return b },
		func(b []byte) []byte { return b[:len(b)-1] },
		func([]byte) []byte { return nil },
	} {
		damage(t, s, part, change)
		steps(t, []http.Handler{h}, []step{{"GET /state/s", "", 500, "version"}})
	}
	// The next version has its own slot.
	steps(t, []http.Handler{h}, []step{{"POST /state/s", stateOf(2, "y"), 200, ""}, {"GET /state/s", "", 200, stateOf(2, "y")}})
}

// TestUnreadablePart: the store cannot read a part that no version uses any more. The next version gets another slot.
func TestUnreadablePart(t *testing.T) {
	var unreadable string
	s := store.Intercept(memstore.New(), func(ctx context.Context, op *store.Op, next store.Handler) error {
		if op.Key == unreadable && (op.Kind == store.OpGet || op.Kind == store.OpPut) {
			return store.ErrCorrupt
		}
		return next(ctx, op)
	})
	hs := []http.Handler{handler(t, s, &tofustate.Options{Keep: 1})}
	steps(t, hs, []step{{"POST /state/s", stateOf(1, "x"), 200, ""}})
	var part string
	for key := range store.List(t.Context(), s, "tofu/part") {
		part = key
	}
	steps(t, hs, []step{{"POST /state/s", stateOf(2, "y"), 200, ""}})
	unreadable = part
	steps(t, hs, []step{{"POST /state/s", stateOf(3, "z"), 200, ""}, {"GET /state/s", "", 200, stateOf(3, "z")}})
}

// TestOldRecord: records of this format remain readable, and fields that are not known remain.
func TestOldRecord(t *testing.T) {
	s := memstore.New()
	record, err := os.ReadFile("testdata/record.json")
	if err != nil {
		t.Fatal(err)
	}
	part, err := base64.StdEncoding.DecodeString("dG9mdTEgMDAwMDAwMDAwMDAwMDAwMQofiwgAAAAAAAT/BMBBCgMhDEDRu/y1m0JXuY3QMASCiolCEe8+77B1hvWGfAuh06ojn4Jb0/oogltTCn3lWBnIYSOHXX0pQvcfhfwPRYic1h7uvW8AAAD//6T4NWdZAAAA")
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string][]byte{
		"tofu/state/prod": record,
		"tofu/part/6754af9632a2745e85c293e5aac0863370d9bd3330b9938c00cadfd215227d77/0/0": part,
	} {
		if _, err := s.Put(t.Context(), key, "", value); err != nil {
			t.Fatal(err)
		}
	}
	h := handler(t, s, nil)
	steps(t, []http.Handler{h}, []step{
		{"GET /state/prod", "", 200, stateOf(1, "old")},
		{"LOCK /state/prod", lockOf("B"), 423, `"Later":"field"`},
		{"POST /state/prod?ID=A", stateOf(2, "new"), 200, ""},
		{"UNLOCK /state/prod", `{"ID":"A"}`, 200, ""},
		{"GET /state/prod?version=1", "", 200, stateOf(1, "old")},
	})
	record, _, err = s.Get(t.Context(), "tofu/state/prod")
	if err != nil || !bytes.Contains(record, []byte(`"later":{"a":1}`)) || !bytes.Contains(record, []byte(`"later_too":2`)) {
		t.Errorf("fields that are not known are lost: %s, %v", record, err)
	}
}
