package gcsbucket_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/gcp/gcsbucket"
	"github.com/holdfast-go/holdfast/internal/tlstest"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// server answers requests within this process.
type server func(r *http.Request) (*http.Response, error)

func (s server) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	resp, err := s(r)
	if resp != nil {
		resp.Request, resp.ProtoMajor = r, 2
		if resp.Header.Get("Date") == "" {
			resp.Header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
		}
	}
	return resp, err
}

func answer(status int, body string, headers ...string) *http.Response {
	h := http.Header{"Content-Type": {"application/json"}}
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}
}

func refusal(status int, reason, message string) *http.Response {
	return answer(status, fmt.Sprintf(`{"error":{"code":%d,"message":%q,"errors":[{"reason":%q}]}}`, status, message, reason))
}

// resource is the description of an object with this body.
func resource(key, body string, generation int) string {
	sum := crc32.Checksum([]byte(body), crc32.MakeTable(crc32.Castagnoli))
	return fmt.Sprintf(`{"name":%q,"bucket":"b","generation":"%d","size":"%d","crc32c":%q,"updated":"2026-11-24T12:00:00.5Z"}`,
		key, generation, len(body), base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum)))
}

func open(t testing.TB, s server, change ...func(*gcsbucket.Options)) *gcsbucket.Bucket {
	t.Helper()
	o := &gcsbucket.Options{Anonymous: true, Transport: s}
	for _, f := range change {
		f(o)
	}
	b, err := gcsbucket.New(t.Context(), "b", o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// calls are a conditional call of each kind.
var calls = map[string]func(ctx context.Context, b *gcsbucket.Bucket) error{
	"put": func(ctx context.Context, b *gcsbucket.Bucket) error {
		_, err := b.Put(ctx, "k", strings.NewReader("body"), &object.PutOptions{IfMatch: "7"})
		return err
	},
	"delete": func(ctx context.Context, b *gcsbucket.Bucket) error {
		return b.Delete(ctx, "k", &object.DeleteOptions{IfMatch: "7"})
	},
	"copy": func(ctx context.Context, b *gcsbucket.Bucket) error {
		_, err := b.Copy(ctx, "k", "l", &object.CopyOptions{SourceIfMatch: "7", IfAbsent: true})
		return err
	},
	"get": func(ctx context.Context, b *gcsbucket.Bucket) error {
		_, err := b.Get(ctx, "k", &object.GetOptions{IfMatch: "7"})
		return err
	},
	"stat": func(ctx context.Context, b *gcsbucket.Bucket) error {
		_, err := b.Stat(ctx, "k")
		return err
	},
	"list": func(ctx context.Context, b *gcsbucket.Bucket) (err error) {
		for _, err = range b.List(ctx, "", nil) {
		}
		return err
	},
}

func writes(call string) bool { return call == "put" || call == "delete" || call == "copy" }

// TestErrors: what each answer means for each call. A conditional write is sent once, whatever the answer.
func TestErrors(t *testing.T) {
	applied := func(err error) (*http.Response, error) { return nil, err }
	for _, tt := range []struct {
		name    string
		answer  func() (*http.Response, error)
		want    error
		outcome store.Outcome // of a write
		says    string
	}{
		{"412", func() (*http.Response, error) {
			return refusal(412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold."), nil
		}, store.ErrConflict, store.NotApplied, ""},
		{"429", func() (*http.Response, error) {
			return refusal(429, "rateLimitExceeded", "The object b/k exceeded the rate limit for object mutation operations"), nil
		}, object.ErrBusy, store.NotApplied, "one write a second"},
		{"403 for a rate", func() (*http.Response, error) { return refusal(403, "userRateLimitExceeded", "slow down"), nil }, object.ErrBusy, store.NotApplied, ""},
		{"401", func() (*http.Response, error) { return refusal(401, "authError", "Invalid Credentials"), nil }, store.ErrCredentials, store.NotApplied, "refused"},
		{"403", func() (*http.Response, error) {
			return refusal(403, "forbidden", "x@y does not have storage.objects.create access"), nil
		}, store.ErrDenied, store.NotApplied, "storage.objects.create"},
		{"404 for the bucket", func() (*http.Response, error) {
			return refusal(404, "notFound", "The specified bucket does not exist."), nil
		}, store.ErrMisconfigured, store.NotApplied, "bucket does not exist"},
		{"404 for the bucket, in XML", func() (*http.Response, error) {
			return answer(404, "<?xml version='1.0' encoding='UTF-8'?><Error><Code>NoSuchBucket</Code><Message>The specified bucket does not exist.</Message></Error>", "Content-Type", "application/xml"), nil
		}, store.ErrMisconfigured, store.NotApplied, "bucket does not exist"},
		{"400", func() (*http.Response, error) { return refusal(400, "invalid", "Invalid argument"), nil }, nil, store.NotApplied, "Invalid argument"},
		{"400 without a payer", func() (*http.Response, error) {
			return refusal(400, "required", "Bucket is a requester pays bucket but no user project provided."), nil
		}, store.ErrMisconfigured, store.NotApplied, "user_project"},
		{"500", func() (*http.Response, error) { return refusal(500, "internalError", "oops"), nil }, store.ErrUnavailable, store.Unknown, "oops"},
		{"503", func() (*http.Response, error) { return refusal(503, "backendError", "oops"), nil }, store.ErrUnavailable, store.Unknown, "503"},
		{"408", func() (*http.Response, error) { return refusal(408, "timeout", "oops"), nil }, store.ErrUnavailable, store.Unknown, ""},
		{"a redirect", func() (*http.Response, error) { return answer(302, "", "Location", "https://elsewhere.example/"), nil }, store.ErrMisconfigured, store.NotApplied, "redirects"},
		{"a page of another server", func() (*http.Response, error) {
			return answer(404, "<html>not here</html>", "Content-Type", "text/html"), nil
		}, store.ErrMisconfigured, store.NotApplied, "another service"},
		{"a conflict of another server", func() (*http.Response, error) {
			return answer(412, "<html>no</html>", "Content-Type", "text/html"), nil
		}, store.ErrMisconfigured, store.NotApplied, "another service"},
		{"400 of Azure", func() (*http.Response, error) {
			return answer(400, "<?xml version='1.0'?><Error><Code>OutOfRangeInput</Code><Message>The specified resource name length is not within the permissible limits.</Message></Error>", "X-Ms-Request-Id", "1"), nil
		}, store.ErrMisconfigured, store.NotApplied, "another service"},
		{"no HTTP", func() (*http.Response, error) {
			return nil, errors.New(`net/http: HTTP/1.x transport connection broken: malformed HTTP response "J\x00\x00\x00"`)
		}, store.ErrMisconfigured, store.Unknown, "does not speak HTTP"},
		{"429 of another server", func() (*http.Response, error) {
			return answer(429, "<html>too many</html>", "Content-Type", "text/html"), nil
		}, store.ErrUnavailable, store.Unknown, "429"},
		{"a cut connection", func() (*http.Response, error) { return applied(io.ErrUnexpectedEOF) }, store.ErrUnavailable, store.Unknown, "no answer"},
		{"a cut answer", func() (*http.Response, error) {
			resp := answer(200, "")
			resp.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"name":`), failing{io.ErrUnexpectedEOF}))
			return resp, nil
		}, store.ErrUnavailable, store.Unknown, ""},
		{"an endless answer", func() (*http.Response, error) {
			resp := answer(500, "")
			resp.Body = io.NopCloser(endless{})
			return resp, nil
		}, store.ErrUnavailable, store.Unknown, "MiB"},
	} {
		for name, do := range calls {
			t.Run(tt.name+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var sent atomic.Int32
					b := open(t, func(r *http.Request) (*http.Response, error) {
						sent.Add(1)
						if r.Body != nil {
							_, _ = io.Copy(io.Discard, r.Body)
						}
						return tt.answer()
					})
					err := do(t.Context(), b)
					if tt.name == "a cut answer" && name == "get" {
						return // TestDamagedBody is about bodies
					}
					want := tt.want
					if err == nil || want != nil && !errors.Is(err, want) || !strings.Contains(err.Error(), tt.says) {
						t.Fatalf("got %v, want %v with %q", err, want, tt.says)
					}
					if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "googleapis.com") {
						t.Errorf("the text is %q", err)
					}
					if writes(name) && (store.OutcomeOf(err) != tt.outcome || sent.Load() != 1) {
						t.Errorf("outcome %v after %d requests, want %v after one: %v", store.OutcomeOf(err), sent.Load(), tt.outcome, err)
					}
				})
			})
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// TestStrangeAnswers: a good status alone proves nothing.
func TestStrangeAnswers(t *testing.T) {
	for name, resp := range map[string]func() *http.Response{
		"a page":         func() *http.Response { return answer(200, "<html>hello</html>", "Content-Type", "text/html") },
		"nothing":        func() *http.Response { return answer(200, "") },
		"{}":             func() *http.Response { return answer(200, "{}") },
		"another object": func() *http.Response { return answer(200, resource("other", "body", 8)) },
		"another body":   func() *http.Response { return answer(200, resource("k", "Body", 8)) },
	} {
		b := open(t, func(r *http.Request) (*http.Response, error) {
			if r.Body != nil {
				_, _ = io.Copy(io.Discard, r.Body)
			}
			return resp(), nil
		})
		if err := calls["put"](t.Context(), b); err == nil || store.OutcomeOf(err) != store.Unknown {
			t.Errorf("%s: put: %v (%v)", name, err, store.OutcomeOf(err))
		}
		if err := calls["get"](t.Context(), b); err == nil {
			t.Errorf("%s: get succeeded", name)
		}
	}
}

// TestNoAnswer: a server that does not answer, or no longer, costs a bounded time, and half of the time of
// the caller at most.
func TestNoAnswer(t *testing.T) {
	hang := server(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	for name, do := range calls {
		if name == "copy" {
			continue // the server may take minutes
		}
		synctest.Test(t, func(t *testing.T) {
			b, start := open(t, hang), time.Now()
			err := do(t.Context(), b)
			if !errors.Is(err, store.ErrUnavailable) || writes(name) && store.OutcomeOf(err) != store.Unknown || !strings.Contains(err.Error(), "no answer in time") {
				t.Errorf("%s: %v", name, err)
			}
			if most := 4*gcsbucket.DefaultTimeout + 10*time.Second; time.Since(start) > most || writes(name) && time.Since(start) > gcsbucket.DefaultTimeout+time.Second {
				t.Errorf("%s: after %v", name, time.Since(start))
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			start = time.Now()
			if err := do(ctx, b); err == nil || writes(name) && time.Since(start) != time.Second {
				t.Errorf("%s, 2s left: %v after %v", name, err, time.Since(start))
			}
			ctx, cancel = context.WithCancel(t.Context())
			cancel()
			if err := do(ctx, b); !errors.Is(err, context.Canceled) || store.OutcomeOf(err) != store.NotApplied {
				t.Errorf("%s, canceled: %v (%v)", name, err, store.OutcomeOf(err))
			}
		})
	}
}

// TestStalledBody: a body that stops, or comes too slowly, ends the read.
func TestStalledBody(t *testing.T) {
	for name, pause := range map[string]time.Duration{"stops": time.Hour, "trickles": time.Second} {
		synctest.Test(t, func(t *testing.T) {
			b := open(t, func(r *http.Request) (*http.Response, error) {
				if r.Method != http.MethodGet {
					return refusal(500, "", "no"), nil
				}
				resp := answer(200, "", "X-Goog-Generation", "7")
				resp.ContentLength = 1 << 20
				pr, pw := io.Pipe()
				go func() {
					for {
						select {
						case <-time.After(pause):
						case <-r.Context().Done():
							pw.CloseWithError(r.Context().Err())
							return
						}
						if _, err := pw.Write([]byte("x")); err != nil {
							return
						}
					}
				}()
				resp.Body = pr
				return resp, nil
			})
			start := time.Now()
			r, err := b.Get(t.Context(), "k", nil)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if _, err := io.ReadAll(r); !errors.Is(err, store.ErrUnavailable) || time.Since(start) > 3*gcsbucket.DefaultTimeout {
				t.Errorf("%s: %v after %v", name, err, time.Since(start))
			}
		})
	}
}

// TestDamagedBody: a whole body is compared with its checksum, and a body with errors is read again.
func TestDamagedBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		right := "crc32c=" + base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.Checksum([]byte("right"), crc32.MakeTable(crc32.Castagnoli))))
		bodies := []string{"wrong", "wrong", "right"}
		b := open(t, func(r *http.Request) (*http.Response, error) {
			body := bodies[0]
			if len(bodies) > 1 {
				bodies = bodies[1:]
			}
			return answer(200, body, "X-Goog-Generation", "7", "X-Goog-Hash", right), nil
		})
		body, _, err := object.ReadAll(t.Context(), b, "k", 100, nil)
		if string(body) != "right" || err != nil {
			t.Errorf("%q, %v", body, err)
		}
		bodies = []string{"wrong"}
		if body, _, err := object.ReadAll(t.Context(), b, "k", 100, nil); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%q, %v", body, err)
		}
	})
}

// TestIgnoredRange: a get of a part fails if the server sends more than this part.
func TestIgnoredRange(t *testing.T) {
	b := open(t, func(r *http.Request) (*http.Response, error) {
		return answer(200, "0123456789", "X-Goog-Generation", "7"), nil
	})
	for o, want := range map[object.GetOptions]error{{Offset: 4}: errors.ErrUnsupported, {Length: 4}: errors.ErrUnsupported, {Length: 10}: nil} {
		r, err := b.Get(t.Context(), "k", &o)
		if !errors.Is(err, want) {
			t.Errorf("%+v: %v, want %v", o, err, want)
		}
		if err == nil {
			r.Close()
		}
	}
}

// TestBrokenUpload: if the body of a put cannot be read to its end, the request breaks off. The server
// never gets the end of the multipart body.
func TestBrokenUpload(t *testing.T) {
	for _, size := range []int{0, 100, 9 << 20} {
		var got atomic.Pointer[[]byte]
		b := open(t, func(r *http.Request) (*http.Response, error) {
			all, err := io.ReadAll(r.Body)
			got.Store(&all)
			if err != nil {
				return nil, err
			}
			return answer(200, resource("k", strings.Repeat("x", size), 8)), nil
		})
		broken := errors.New("the disk is broken")
		body := io.MultiReader(strings.NewReader(strings.Repeat("x", size)), failing{broken})
		_, err := b.Put(t.Context(), "k", body, &object.PutOptions{IfAbsent: true})
		if !errors.Is(err, broken) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("%d bytes: %v (%v)", size, err, store.OutcomeOf(err))
		}
		if sent := got.Load(); sent != nil && bytes.HasSuffix(bytes.TrimSpace(*sent), []byte("--")) {
			t.Errorf("%d bytes: the request was complete", size)
		}
		if sent := got.Load(); (sent != nil) != (size > 8<<20) {
			t.Errorf("%d bytes: a request was sent: %v", size, sent != nil)
		}
	}
}

// TestCanceledUpload: a put whose context ends waits for the Read in progress, and its request never looks
// complete.
func TestCanceledUpload(t *testing.T) {
	for range 20 {
		complete := make(chan bool, 1)
		b := open(t, func(r *http.Request) (*http.Response, error) {
			all, err := io.ReadAll(r.Body)
			complete <- bytes.HasSuffix(bytes.TrimSpace(all), []byte("--"))
			return nil, err
		})
		ctx, cancel := context.WithCancel(t.Context())
		read := 0
		body := readerFunc(func(p []byte) (int, error) {
			if read += len(p); read > 9<<20 {
				cancel()
			}
			clear(p)
			return len(p), nil
		})
		_, err := b.Put(ctx, "k", body, &object.PutOptions{IfAbsent: true})
		if !errors.Is(err, context.Canceled) || store.OutcomeOf(err) != store.Unknown {
			t.Fatalf("%v (%v)", err, store.OutcomeOf(err))
		}
		if <-complete {
			t.Fatal("the request was complete")
		}
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// serviceAccount writes the file of a service account whose tokens come from a server, and makes it the
// credentials of this process.
func serviceAccount(t *testing.T, tokens http.HandlerFunc) {
	t.Helper()
	server := httptest.NewServer(tokens)
	t.Cleanup(server.Close)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": "p", "private_key_id": "1", "client_email": "x@p.iam.gserviceaccount.com", "client_id": "1",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), "token_uri": server.URL,
	})
	file := filepath.Join(t.TempDir(), "account.json")
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
}

// TestCredentials: each request carries the token of the service account, and no error repeats it, even if
// the server does. Without a token nothing is sent.
func TestCredentials(t *testing.T) {
	const token = "ya29.Zq7hunter2Zq7-abcdefghijklmnop"
	var sent atomic.Int32
	echo := server(func(r *http.Request) (*http.Response, error) {
		sent.Add(1)
		return refusal(403, "forbidden", "you sent "+r.Header.Get("Authorization")), nil
	})
	withAccount := func(o *gcsbucket.Options) { o.Anonymous = false }
	serviceAccount(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"`+token+`","token_type":"Bearer","expires_in":3600}`)
	})
	b := open(t, echo, withAccount)
	for name, do := range calls {
		err := do(t.Context(), b)
		if !errors.Is(err, store.ErrDenied) || strings.Contains(err.Error(), token) || !strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", name, err)
		}
	}
	sent.Store(0)
	for name, want := range map[string]error{"invalid_grant": store.ErrCredentials, "internal": store.ErrUnavailable} {
		serviceAccount(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":"`+name+`","error_description":"no"}`)
		})
		err := calls["put"](t.Context(), open(t, echo, withAccount))
		if !errors.Is(err, want) || store.OutcomeOf(err) != store.NotApplied || sent.Load() != 0 {
			t.Errorf("%s: %v (%v), %d requests", name, err, store.OutcomeOf(err), sent.Load())
		}
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", filepath.Join(t.TempDir(), "none"))
	if _, err := gcsbucket.New(t.Context(), "b", nil); !errors.Is(err, store.ErrMisconfigured) || !strings.Contains(err.Error(), "gcloud auth") {
		t.Errorf("no credentials: %v", err)
	}
}

// TestURLs: what each parameter must look like, and where credentials are not sent.
func TestURLs(t *testing.T) {
	for raw, says := range map[string]string{
		"gs://b/p": "",
		"gs://b/p?anonymous&endpoint=http://h:1&timeout=3s&user_project=x&unsafe=put-if-match": "",
		"gs://b?endpoint=https://h":               "",
		"gs://b?endpoint=http://h":                "no TLS",
		"gs://b?endpoint=http://h&anonymous=no":   "true or false",
		"gs://b?endpoint=ftp://h":                 "http://HOST:PORT",
		"gs://b?endpoint=http://h/path&anonymous": "http://HOST:PORT",
		"gs://b?timeout=1":                        "duration",
		"gs://b?timeout=-1s":                      "duration",
		"gs://b?timeout=1ms":                      "100ms",
		"gs://b?unsafe=everything":                "put-if-match",
		"gs://b?region=x":                         "region",
		"gs://b?timeout=1s&timeout=2s":            "twice",
		"gs:///p":                                 "gs://BUCKET",
		"s3://b":                                  "gs://BUCKET",
		"gs://u:Zq7hunter2Zq7@b":                  "credentials",
		"gs://b?user_project=u:Zq7hunter2Zq7@h":   "credentials",
		"gs://b?Zq7hunter2Zq7":                    "no parameter",
	} {
		_, err := gcsbucket.ParseURL(raw)
		if (err == nil) != (says == "") || err != nil && (!errors.Is(err, store.ErrMisconfigured) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%s: %v, want %q", raw, err, says)
		}
	}
	t.Setenv("STORAGE_EMULATOR_HOST", "localhost:1")
	c, err := gcsbucket.ParseURL("gs://b")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := c.Open(t.Context(), nil); err != nil || object.TraitsOf(b).Trusted {
		t.Errorf("a bucket of an emulator is trusted, or %v", err)
	}
}

// TestTrusted: only Google's service is trusted, over TLS.
func TestTrusted(t *testing.T) {
	for endpoint, want := range map[string]bool{
		"": true, "https://storage.googleapis.com": true, "https://storage.europe-west3.rep.googleapis.com": true, "https://storage-x.p.googleapis.com": true,
		"http://storage.googleapis.com": false, "https://storage.googleapis.com.example.org": false, "https://evilgoogleapis.com": false, "https://localhost:1": false,
	} {
		b := open(t, nil, func(o *gcsbucket.Options) { o.Endpoint = endpoint })
		if got := object.TraitsOf(b).Trusted; got != want {
			t.Errorf("%q: trusted %v", endpoint, got)
		}
	}
}

// TestCauseOfContext: if the context of a write ends before the answer, the outcome is unknown. This is so for
// each cause, also for one that says something of another object.
func TestCauseOfContext(t *testing.T) {
	for _, cause := range []error{&object.ConflictError{}, store.ErrNotFound, store.ErrDenied, object.ErrBusy, nil} {
		for name, call := range map[string]func(ctx context.Context, b *gcsbucket.Bucket) error{
			"put": func(ctx context.Context, b *gcsbucket.Bucket) error {
				_, err := b.Put(ctx, "k", strings.NewReader("v"), &object.PutOptions{IfMatch: "7"})
				return err
			},
			"delete": func(ctx context.Context, b *gcsbucket.Bucket) error { return b.Delete(ctx, "k", nil) },
			"delete a state": func(ctx context.Context, b *gcsbucket.Bucket) error {
				return b.Delete(ctx, "k", &object.DeleteOptions{IfMatch: "7", OrAbsent: true})
			},
		} {
			ctx, cancel := context.WithCancelCause(t.Context())
			b := open(t, func(r *http.Request) (*http.Response, error) {
				cancel(cause)
				return nil, r.Context().Err()
			}, func(o *gcsbucket.Options) { o.AssumeAbilities = object.Abilities() })
			if err := call(ctx, b); err == nil || !store.InDoubt(err) {
				t.Errorf("%s, the cause %v: %v (%v)", name, cause, err, store.OutcomeOf(err))
			}
		}
	}
}

// TestDamagedTLS: a device on the way breaks an encrypted connection after the server got the request. It may be applied.
func TestDamagedTLS(t *testing.T) {
	srv := tlstest.Damaged(t)
	b, err := gcsbucket.New(t.Context(), "b", &gcsbucket.Options{Anonymous: true, Endpoint: srv.URL, Transport: srv.Client().Transport, AssumeAbilities: object.Abilities()})
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Put(t.Context(), "k", strings.NewReader("x"), &object.PutOptions{IfAbsent: true})
	if !errors.Is(err, store.ErrUnavailable) || store.OutcomeOf(err) != store.Unknown {
		t.Errorf("%v, %v", err, store.OutcomeOf(err))
	}
}
