package azblobbucket_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/holdfast-go/holdfast/azure/azblobbucket"
	"github.com/holdfast-go/holdfast/internal/tlstest"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// server is a server of Blob Storage that answers as a test says.
type server struct {
	answer func(r *http.Request) (*http.Response, error)

	mu    sync.Mutex
	calls []string
}

func (s *server) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
	}
	s.mu.Lock()
	s.calls = append(s.calls, r.Method)
	s.mu.Unlock()
	return s.answer(r)
}

// reply returns an answer of the service. An empty code means no error.
func reply(r *http.Request, status int, code string) (*http.Response, error) {
	h := http.Header{"X-Ms-Request-Id": {"1"}, "Etag": {`"0x8D1"`}, "Date": {"Tue, 01 Dec 2026 10:00:00 GMT"}}
	if code != "" {
		h.Set("X-Ms-Error-Code", code)
	}
	body := `<?xml version="1.0"?><Error><Code>` + code + "</Code><Message>What is wrong.\nRequestId:1</Message><AuthenticationErrorDetail>sig=SECRETSECRET</AuthenticationErrorDetail></Error>"
	if status < 300 {
		body = ""
	}
	return &http.Response{Status: fmt.Sprint(status, " text"), StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: r, ContentLength: int64(len(body))}, nil
}

const sas = "sv=2024-08-04&sr=c&sp=rw&sig=SECRETSECRET%2BSECRET"

func newBucket(t *testing.T, s *server, opts *azblobbucket.Options) *azblobbucket.Bucket {
	t.Helper()
	c, err := container.NewClientWithNoCredential("https://account.blob.core.windows.net/box?"+sas, &container.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: s}})
	if err != nil {
		t.Fatal(err)
	}
	return newBucketOf(t, c, opts)
}

func newBucketOf(t *testing.T, c *container.Client, opts *azblobbucket.Options) *azblobbucket.Bucket {
	t.Helper()
	b, err := azblobbucket.New(c, opts)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestErrors: what the error of a conditional put is, for each answer. The code decides, not the status. Each put is
// sent once, and no error shows the SAS token.
func TestErrors(t *testing.T) {
	none := errors.New("no error matches this one")
	for _, c := range []struct {
		status  int
		code    string
		want    error
		outcome store.Outcome
	}{
		{412, "ConditionNotMet", store.ErrConflict, store.NotApplied},
		{412, "TargetConditionNotMet", store.ErrConflict, store.NotApplied},
		{409, "BlobAlreadyExists", store.ErrConflict, store.NotApplied},
		{404, "BlobNotFound", store.ErrConflict, store.NotApplied}, // the put names a version
		{412, "LeaseIdMissing", store.ErrDenied, store.NotApplied},
		{409, "SnapshotsPresent", store.ErrMisconfigured, store.NotApplied},
		{409, "BlobImmutableDueToPolicy", store.ErrMisconfigured, store.NotApplied},
		{409, "BlobBeingDeleted", object.ErrBusy, store.NotApplied},
		{409, "ContainerBeingDeleted", store.ErrMisconfigured, store.NotApplied},
		{404, "ContainerNotFound", store.ErrMisconfigured, store.NotApplied},
		{400, "Md5Mismatch", store.ErrUnavailable, store.NotApplied},
		{403, "AuthenticationFailed", store.ErrCredentials, store.NotApplied},
		{401, "InvalidAuthenticationInfo", store.ErrCredentials, store.NotApplied},
		{403, "AuthorizationPermissionMismatch", store.ErrDenied, store.NotApplied},
		{503, "ServerBusy", store.ErrUnavailable, store.Unknown},
		{429, "TooManyRequests", store.ErrUnavailable, store.Unknown},
		{500, "InternalError", store.ErrUnavailable, store.Unknown},
		{500, "OperationTimedOut", store.ErrUnavailable, store.Unknown},
		{200, "", store.ErrUnavailable, store.Unknown}, // a put is answered with 201
		{307, "", store.ErrMisconfigured, store.NotApplied},
	} {
		s := &server{answer: func(r *http.Request) (*http.Response, error) { return reply(r, c.status, c.code) }}
		_, err := newBucket(t, s, nil).Put(t.Context(), "k", strings.NewReader("x"), &object.PutOptions{IfMatch: `"0x8D0"`})
		if !errors.Is(err, c.want) || store.OutcomeOf(err) != c.outcome {
			t.Errorf("%d %s: got %v (%v), want %v (%v)", c.status, c.code, err, store.OutcomeOf(err), c.want, c.outcome)
		}
		if c.want != store.ErrConflict && errors.Is(err, store.ErrConflict) {
			t.Errorf("%d %s is a conflict: %v", c.status, c.code, err)
		}
		if len(s.calls) != 1 {
			t.Errorf("%d %s: %d requests", c.status, c.code, len(s.calls))
		}
		if strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%d %s: the error shows the token: %v", c.status, c.code, err)
		}
	}
	// Another kind of server, a lost reply with an address that has the token, and a context that ended.
	for name, answer := range map[string]func(r *http.Request) (*http.Response, error){
		"another server": func(r *http.Request) (*http.Response, error) {
			re, err := reply(r, 404, "")
			re.Header.Del("X-Ms-Request-Id")
			return re, err
		},
		"lost reply": func(r *http.Request) (*http.Response, error) { return nil, fmt.Errorf("Put %q: EOF", r.URL) },
	} {
		s := &server{answer: answer}
		_, err := newBucket(t, s, nil).Put(t.Context(), "k", strings.NewReader("x"), &object.PutOptions{IfAbsent: true})
		want, outcome := none, store.NotApplied
		switch name {
		case "another server":
			want = store.ErrMisconfigured
		case "lost reply":
			want, outcome = store.ErrUnavailable, store.Unknown
		}
		if !errors.Is(err, want) || store.OutcomeOf(err) != outcome || strings.Contains(err.Error(), "SECRET") || len(s.calls) != 1 {
			t.Errorf("%s: got %v (%v) after %d requests", name, err, store.OutcomeOf(err), len(s.calls))
		}
	}
}

// TestHangingServer: a call returns soon after its context has ended, and after the time limit of the bucket. The
// outcome of a put is then unknown.
func TestHangingServer(t *testing.T) {
	s := &server{answer: func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}}
	b := newBucket(t, s, &azblobbucket.Options{Timeout: 100 * time.Millisecond})
	_, err := b.Put(t.Context(), "k", strings.NewReader("x"), &object.PutOptions{IfAbsent: true})
	if !errors.Is(err, store.ErrUnavailable) || store.OutcomeOf(err) != store.Unknown {
		t.Errorf("after the time limit: %v (%v)", err, store.OutcomeOf(err))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err = newBucket(t, s, nil).Put(ctx, "k", strings.NewReader("x"), &object.PutOptions{IfAbsent: true})
	if !errors.Is(err, context.DeadlineExceeded) || store.OutcomeOf(err) != store.Unknown || time.Since(began) > time.Second {
		t.Errorf("after the deadline of the caller: %v (%v) after %v", err, store.OutcomeOf(err), time.Since(began))
	}
}

// TestSlowBody: a body that stops, or comes too slowly, ends the read.
func TestSlowBody(t *testing.T) {
	for name, pause := range map[string]time.Duration{"stops": time.Hour, "trickles": time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := &server{answer: func(r *http.Request) (*http.Response, error) {
				answer, err := reply(r, 200, "")
				answer.Header.Set("Content-Length", "1048576")
				answer.Body = slow{pause, r.Context()}
				return answer, err
			}}
			began := time.Now()
			r, err := newBucket(t, s, nil).Get(t.Context(), "k", nil)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if _, err := io.ReadAll(r); !errors.Is(err, store.ErrUnavailable) || time.Since(began) > 3*azblobbucket.DefaultTimeout {
				t.Errorf("%s: %v after %v", name, err, time.Since(began))
			}
		})
	}
}

// slow is a body of which one byte arrives after each pause.
type slow struct {
	pause time.Duration
	ctx   context.Context
}

func (s slow) Close() error { return nil }

func (s slow) Read(p []byte) (int, error) {
	select {
	case <-time.After(s.pause):
		return copy(p, "x"), nil
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	}
}

// TestLostCommit: the commit of an upload in blocks whose reply was lost. With a condition it is not sent again.
// Without a condition it is. If the service no longer has the blocks, the outcome remains unknown.
func TestLostCommit(t *testing.T) {
	for _, conditional := range []bool{true, false} {
		commits := 0
		s := &server{answer: func(r *http.Request) (*http.Response, error) {
			switch {
			case r.URL.Query().Get("comp") != "blocklist":
				return reply(r, 201, "")
			case commits == 0:
				commits++
				return nil, io.ErrUnexpectedEOF
			}
			commits++
			return reply(r, 400, "InvalidBlockList")
		}}
		_, err := newBucket(t, s, nil).Put(t.Context(), "k", strings.NewReader("x"), &object.PutOptions{IfAbsent: conditional, Parts: true})
		want := 2
		if conditional {
			want = 1
		}
		if store.OutcomeOf(err) != store.Unknown || commits != want || errors.Is(err, store.ErrConflict) {
			t.Errorf("conditional=%v: %v (%v) after %d commits", conditional, err, store.OutcomeOf(err), commits)
		}
	}
	// A first commit that is refused: another client has written the blob, and nothing was applied.
	for _, c := range []struct {
		conditional bool
		want        error
	}{{true, store.ErrConflict}, {false, object.ErrBusy}} {
		s := &server{answer: func(r *http.Request) (*http.Response, error) {
			if r.URL.Query().Get("comp") == "blocklist" {
				return reply(r, 400, "InvalidBlockList")
			}
			return reply(r, 201, "")
		}}
		_, err := newBucket(t, s, nil).Put(t.Context(), "k", strings.NewReader("x"), &object.PutOptions{IfAbsent: c.conditional, Parts: true})
		if !errors.Is(err, c.want) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("conditional=%v: %v (%v), want %v", c.conditional, err, store.OutcomeOf(err), c.want)
		}
	}
}

// TestMetadataNames: names of metadata are written as C# identifiers, and come back.
func TestMetadataNames(t *testing.T) {
	all := map[string]string{}
	for _, name := range []string{"a", "holdfast-id", "7", "7-up", "_", "__", "-", "_-", "-_", "_0", "_1", "_2", "_00", "a_0", "a_1", "a_2", "a-0", "a-1", "x_20", "1_1", "_1_1"} {
		all[name] = "v" + name
	}
	var sent http.Header
	s := &server{answer: func(r *http.Request) (*http.Response, error) {
		re, err := reply(r, 201, "")
		if r.Method == http.MethodPut {
			sent = r.Header.Clone()
			return re, err
		}
		re.StatusCode = 200
		for name, values := range sent {
			if strings.HasPrefix(strings.ToLower(name), "x-ms-meta-") {
				re.Header[http.CanonicalHeaderKey(name)] = values // as a client of HTTP reads it
			}
		}
		return re, err
	}}
	b := newBucket(t, s, nil)
	if _, err := b.Put(t.Context(), "k", strings.NewReader("x"), &object.PutOptions{Metadata: all}); err != nil {
		t.Fatal(err)
	}
	for name := range sent {
		rest, ok := strings.CutPrefix(strings.ToLower(name), "x-ms-meta-")
		if ok && (strings.Trim(rest, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" || rest[0] >= '0' && rest[0] <= '9') {
			t.Errorf("%q is no C# identifier", rest)
		}
	}
	info, err := b.Stat(t.Context(), "k")
	if err != nil || !maps.Equal(info.Metadata, all) {
		t.Errorf("got %q, %v; want %q", info.Metadata, err, all)
	}
}

// TestKeys: keys that Azure would change to another key are refused, and nothing is sent.
func TestKeys(t *testing.T) {
	s := &server{answer: func(r *http.Request) (*http.Response, error) { return reply(r, 201, "") }}
	b := newBucket(t, s, nil)
	for _, key := range []string{".", "..", "a.", "a./b", "./b", "a/../b", `a\b`, "a/."} {
		_, putErr := b.Put(t.Context(), key, strings.NewReader("x"), nil)
		_, getErr := b.Get(t.Context(), key, nil)
		_, copyErr := b.Copy(t.Context(), "a", key, nil)
		for _, err := range []error{putErr, getErr, copyErr, b.Delete(t.Context(), key, nil)} {
			if !errors.Is(err, store.ErrKey) || store.OutcomeOf(err) != store.NotApplied {
				t.Errorf("%q: %v", key, err)
			}
		}
	}
	if len(s.calls) != 0 {
		t.Errorf("requests: %q", s.calls)
	}
}

// TestVersions: a version that no ETag can be is a conflict, and nothing is sent: a * would match every version.
func TestVersions(t *testing.T) {
	s := &server{answer: func(r *http.Request) (*http.Response, error) { return reply(r, 201, "") }}
	b := newBucket(t, s, nil)
	for _, v := range []object.Version{"*", "0x8D1", `"a" "b"`, "\"a\r\n\"", `""`, `W/"a"`} {
		_, err := b.Put(t.Context(), "k", strings.NewReader("x"), &object.PutOptions{IfMatch: v})
		for _, err := range []error{err, b.Delete(t.Context(), "k", &object.DeleteOptions{IfMatch: v})} {
			if !errors.Is(err, store.ErrConflict) {
				t.Errorf("%q: %v", v, err)
			}
		}
	}
	if len(s.calls) != 0 {
		t.Errorf("requests: %q", s.calls)
	}
}

// TestTrust: only hosts of Azure are trusted, and a secondary endpoint is refused.
func TestTrust(t *testing.T) {
	for url, want := range map[string]bool{
		"https://account.blob.core.windows.net/box":         true,
		"https://account.blob.core.chinacloudapi.cn/box":    true,
		"https://account.blob.core.usgovcloudapi.net/box":   true,
		"https://account.z12.blob.storage.azure.net/box":    true,
		"http://account.blob.core.windows.net/box":          false,
		"https://account.blob.core.windows.net.example/box": false,
		"https://account.blob.core.windows.net:8443/box":    false,
		"https://account.blob.core.windows.net:443/box":     true,
		"http://127.0.0.1:10000/account/box":                false,
		"http://azurite:10000/account/box":                  false,
		"https://blobs.example/box":                         false,
	} {
		c, err := container.NewClientWithNoCredential(url, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := azblobbucket.New(c, nil)
		if err != nil {
			t.Fatal(err)
		}
		if tr := b.Traits(); tr.Trusted != want || tr.UniqueVersions != want || tr.Name != "azblob://account/box" && url != "https://blobs.example/box" {
			t.Errorf("%s: %+v, want trusted %v", url, tr, want)
		}
	}
	c, err := container.NewClientWithNoCredential("https://account-secondary.blob.core.windows.net/box", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := azblobbucket.New(c, nil); !errors.Is(err, store.ErrUnsafe) {
		t.Errorf("a secondary endpoint: %v", err)
	}
}

// TestURLs: URLs and credentials that are refused, in one line that does not repeat a secret.
func TestURLs(t *testing.T) {
	const key = "U0VDUkVUU0VDUkVUU0VDUkVU" // SECRETSECRETSECRET in Base64
	for _, c := range []struct {
		url  string
		env  string // NAME=VALUE, separated by spaces
		want string // a part of the error; empty: there is none
	}{
		{"azblob://account/box/p", "AZURE_STORAGE_KEY=" + key, ""},
		{"azblob://account/box?endpoint=http://127.0.0.1:1", "AZURE_STORAGE_KEY=" + key, ""},
		{"azblob://account/box", "AZURE_STORAGE_SAS_TOKEN=?" + sas, ""},
		{"azblob://account/box?anonymous", "", ""},
		{"azblob://account/box", "AZURE_STORAGE_CONNECTION_STRING=DefaultEndpointsProtocol=https;AccountName=account;AccountKey=" + key + ";EndpointSuffix=core.windows.net", ""},
		{"azblob://account/box", "AZURE_STORAGE_CONNECTION_STRING=BlobEndpoint=https://account.blob.core.windows.net/;SharedAccessSignature=" + sas, ""},
		{"azblob://account/box", "AZURE_STORAGE_CONNECTION_STRING=AccountName=another;AccountKey=" + key, "another account"},
		{"azblob://account/box", "AZURE_STORAGE_CONNECTION_STRING=AccountName=account", "neither"},
		{"azblob://account/box", "AZURE_STORAGE_KEY=" + key + " AZURE_STORAGE_ACCOUNT=another", "another"},
		{"azblob://account/box", "AZURE_STORAGE_KEY=SECRET!SECRET", "not Base64"},
		{"azblob://account/box", "AZURE_STORAGE_SAS_TOKEN=SECRETSECRET", "no parameter sig"},
		{"azblob://account/box?endpoint=http://example.com", "AZURE_STORAGE_SAS_TOKEN=" + sas, "unencrypted"},
		{"azblob://account/box?endpoint=http://127.0.0.1:1", "", "no Azure credentials"},
		{"azblob://account/box?" + sas, "", "AZURE_STORAGE_SAS_TOKEN"},
		{"azblob://account:SECRETSECRET@host/box", "", "credentials"},
		{"azblob://Account/box", "", "of the form"},
		{"azblob://account", "", "of the form"},
		{"azblob://account/b", "", "of the form"},
		{"azblob://account/box/a./b", "", "prefix"},
		{"azblob://account/box?nosuch=1", "", `"nosuch"`},
		{"azblob://account/box?timeout=never", "", "timeout"},
		{"azblob://account/box?timeout=1ms", "", "100ms"},
		{"azblob://account/box?unsafe=x", "", "unsafe"},
		{"azblob://account/box?endpoint=ftp://x", "", "endpoint"},
		{"azblob://account/box?endpoint=http://h/SECRETSECRET", "", "endpoint"},
	} {
		for _, name := range []string{"AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_ACCOUNT"} {
			t.Setenv(name, "")
		}
		for field := range strings.FieldsSeq(c.env) {
			name, value, _ := strings.Cut(field, "=")
			t.Setenv(name, value)
		}
		b, _, err := azblobbucket.Open(t.Context(), c.url, nil)
		switch {
		case c.want == "":
			if err != nil || b.Traits().Name != "azblob://account/box" {
				t.Errorf("%s with %s: %v", c.url, c.env, err)
			}
		case err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "SECRET") || strings.Contains(err.Error(), key) || strings.Contains(err.Error(), "\n"):
			t.Errorf("%s with %s: %v, want %q", c.url, c.env, err, c.want)
		}
	}
}

// TestCauseOfContext: if the context of a write ends before the answer, the outcome is unknown. This is so for
// each cause, also for one that says something of another object.
func TestCauseOfContext(t *testing.T) {
	for _, cause := range []error{&object.ConflictError{}, store.ErrNotFound, store.ErrDenied, object.ErrBusy, nil} {
		for name, call := range map[string]func(ctx context.Context, b *azblobbucket.Bucket) error{
			"put": func(ctx context.Context, b *azblobbucket.Bucket) error {
				_, err := b.Put(ctx, "k", strings.NewReader("v"), &object.PutOptions{IfMatch: `"0x8D1"`})
				return err
			},
			"delete": func(ctx context.Context, b *azblobbucket.Bucket) error { return b.Delete(ctx, "k", nil) },
			"delete a state": func(ctx context.Context, b *azblobbucket.Bucket) error {
				return b.Delete(ctx, "k", &object.DeleteOptions{IfMatch: `"0x8D1"`, OrAbsent: true})
			},
		} {
			ctx, cancel := context.WithCancelCause(t.Context())
			b := newBucket(t, &server{answer: func(r *http.Request) (*http.Response, error) {
				cancel(cause)
				return nil, r.Context().Err()
			}}, &azblobbucket.Options{AssumeAbilities: object.Abilities()})
			if err := call(ctx, b); err == nil || !store.InDoubt(err) {
				t.Errorf("%s, the cause %v: %v (%v)", name, cause, err, store.OutcomeOf(err))
			}
		}
	}
}

// TestSecretsOfCopies: a server that repeats the URL or the token with which it reads the source of a copy. No error
// shows them.
func TestSecretsOfCopies(t *testing.T) {
	key, err := container.NewSharedKeyCredential("account", "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0")
	if err != nil {
		t.Fatal(err)
	}
	var source, token string
	s := &server{answer: func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodHead {
			answer, err := reply(r, 200, "")
			answer.Header.Set("Content-Length", "4")
			return answer, err
		}
		header := func(name string) string { return strings.Join(r.Header[name], "") } // the SDK writes names in lower case
		source, token = header("x-ms-copy-source"), header("x-ms-copy-source-authorization")
		answer, err := reply(r, 403, "CannotVerifyCopySource")
		answer.Body = io.NopCloser(strings.NewReader("<Error><Message>cannot read " + strings.ReplaceAll(source, "&", "&amp;") + " with " + token + "</Message></Error>"))
		return answer, err
	}}
	for name, b := range map[string]*azblobbucket.Bucket{
		"key": func() *azblobbucket.Bucket {
			c, err := container.NewClientWithSharedKeyCredential("https://account.blob.core.windows.net/box", key, &container.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: s}})
			if err != nil {
				t.Fatal(err)
			}
			return newBucketOf(t, c, nil)
		}(),
		"token": newBucket(t, s, &azblobbucket.Options{Credential: fixedToken("a-token-of-azure-that-is-long")}),
	} {
		_, err := b.Copy(t.Context(), "a", "b", nil)
		if err == nil || source == "" {
			t.Fatalf("%s: %v, source %q", name, err, source)
		}
		u, _ := url.Parse(source)
		secrets := []string{u.Query().Get("sig"), url.QueryEscape(u.Query().Get("sig")), strings.TrimPrefix(token, "Bearer ")}
		if name == "key" && len(secrets[0]) < 20 || name == "token" && len(secrets[2]) < 20 {
			t.Fatalf("%s: the source %q and the token %q have no secret", name, source, token)
		}
		for _, secret := range secrets {
			if secret != "" && strings.Contains(err.Error(), secret) {
				t.Errorf("%s: the error shows %q: %v", name, secret, err)
			}
		}
	}
}

// fixedToken is an identity that has this token.
type fixedToken string

func (f fixedToken) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: string(f), ExpiresOn: time.Now().Add(time.Hour)}, nil
}

// TestDamagedTLS: a device on the way breaks an encrypted connection after the server got the request. It may be applied.
func TestDamagedTLS(t *testing.T) {
	srv := tlstest.Damaged(t)
	c, err := container.NewClientWithNoCredential(srv.URL+"/account/box?"+sas, &container.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: srv.Client()}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = newBucketOf(t, c, &azblobbucket.Options{AssumeAbilities: object.Abilities()}).Put(t.Context(), "k", strings.NewReader("x"), &object.PutOptions{IfAbsent: true})
	if !errors.Is(err, store.ErrUnavailable) || store.OutcomeOf(err) != store.Unknown {
		t.Errorf("%v, %v", err, store.OutcomeOf(err))
	}
}
