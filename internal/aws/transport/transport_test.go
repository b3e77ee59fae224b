package transport_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"

	"github.com/holdfast-go/holdfast/internal/aws/transport"
)

// answers is a server in the process of the test.
type answers func(r *http.Request) (*http.Response, error)

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

// answer is an answer with this body, and with a length that the header does not tell.
func answer(status int, header http.Header, body io.Reader) *http.Response {
	if header == nil {
		header = http.Header{}
	}
	return &http.Response{StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header, Body: io.NopCloser(body), ContentLength: -1}
}

// TestRedirects: a redirect to another origin is not followed, whichever client is
// below; the answer is the redirect itself, and the other server is not asked.
func TestRedirects(t *testing.T) {
	asked := 0
	elsewhere := func(w http.ResponseWriter, r *http.Request) {
		asked++
		_, _ = io.WriteString(w, "stolen")
	}
	other := httptest.NewServer(http.HandlerFunc(elsewhere))
	defer other.Close()
	plain := httptest.NewServer(http.HandlerFunc(elsewhere))
	defer plain.Close()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusTemporaryRedirect
		to := ""
		switch r.URL.Path {
		case "/here":
			_, _ = io.WriteString(w, "here")
			return
		case "/same":
			to = "/here"
		case "/get":
			status, to = http.StatusFound, "/here"
		case "/port":
			status, to = http.StatusPermanentRedirect, other.URL+"/here"
		case "/host":
			to = strings.Replace(other.URL, "127.0.0.1", "localhost", 1) + "/here"
		case "/down":
			to = plain.URL + "/here"
		case "/circle":
			to = "/circle"
		}
		w.Header().Set("Location", to)
		w.WriteHeader(status)
	})
	clear := httptest.NewServer(handler)
	defer clear.Close()
	encrypted := httptest.NewTLSServer(handler)
	defer encrypted.Close()
	for _, c := range []struct {
		path, base string
		want       int
	}{
		{"/same", clear.URL, 200},
		{"/get", clear.URL, 302},
		{"/port", clear.URL, 308},
		{"/host", clear.URL, 307},
		{"/circle", clear.URL, 307},
		{"/same", encrypted.URL, 200},
		{"/down", encrypted.URL, 307},
	} {
		trusting := encrypted.Client().Transport.(*http.Transport)
		for name, inner := range map[string]transport.Doer{
			"http.Client": &http.Client{Transport: trusting},
			"the SDK's":   awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.TLSClientConfig = trusting.TLSClientConfig }),
		} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, c.base+c.path, strings.NewReader("body"))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "secret")
			r.Header.Set("X-Amz-Security-Token", "secret")
			resp, err := transport.Guard(inner, nil).Do(r)
			if err != nil {
				t.Errorf("%s, %s: %v", c.path, name, err)
				continue
			}
			resp.Body.Close()
			if resp.StatusCode != c.want {
				t.Errorf("%s, %s: got status %d, want %d", c.path, name, resp.StatusCode, c.want)
			}
		}
	}
	if asked > 0 {
		t.Errorf("the servers that were redirected to got %d requests", asked)
	}
	// The control: a client that is not guarded does follow.
	resp, err := http.Post(clear.URL+"/port", "", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if asked != 1 {
		t.Errorf("a client that is not guarded did not follow")
	}
}

// TestCredentialsInTheClear: credentials that go over http:// to another machine are
// reported, once per endpoint, and not where nothing is wrong.
func TestCredentialsInTheClear(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))
	ok := &http.Client{Transport: answers(func(*http.Request) (*http.Response, error) {
		return answer(http.StatusOK, nil, strings.NewReader("")), nil
	})}
	for _, c := range []struct {
		url    string
		signed bool
		log    *slog.Logger
		want   int
	}{
		{"http://unsigned.test", false, log, 0},
		{"https://encrypted.test", true, log, 0},
		{"http://localhost:9000", true, log, 0},
		{"http://bucket.localhost:9000", true, log, 0},
		{"http://127.3.4.5:9000", true, log, 0},
		{"http://[::1]:9000", true, log, 0},
		{"http://quiet.test", true, nil, 0},
		{"http://quiet.test", true, slog.New(slog.DiscardHandler), 0},
		{"http://quiet.test", true, log, 1}, // not reported before
		{"http://quiet.test", true, log, 0},
		{"http://quiet.test:81", true, log, 1},
		{"http://10.0.0.1", true, log, 1},
		{"http://localhost.example.com", true, log, 1},
	} {
		out.Reset()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.signed {
			r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIA, Signature=abc")
		}
		resp, err := transport.Guard(ok, c.log).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		text := out.String()
		if got := strings.Count(text, "\n"); got != c.want || c.want > 0 && !strings.Contains(text, c.url) {
			t.Errorf("%s: got %q, want %d lines that name the endpoint", c.url, text, c.want)
		}
		if strings.Contains(text, "AKIA") || strings.Contains(text, "abc") {
			t.Errorf("%s: the warning tells a secret: %q", c.url, text)
		}
	}
}

// TestCompressed: no answer is asked for in a compressed form, and one that comes so
// is refused before it is unpacked.
func TestCompressed(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := io.CopyN(z, zeros{}, 64<<20); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	var asked string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Header.Get("Accept-Encoding")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(packed.Bytes())
	}))
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = transport.New().Do(r)
	var bound *transport.BoundError
	if !errors.As(err, &bound) || !strings.Contains(err.Error(), "gzip") {
		t.Errorf("got %v, want a refusal that names gzip", err)
	}
	if asked != "identity" {
		t.Errorf("the server was asked for %q, want identity", asked)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
