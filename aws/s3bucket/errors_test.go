package s3bucket_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/internal/tlstest"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

const secret = "wJalrXUtnFEMIsecret"

// environment gives the SDK credentials and keeps it from those of this machine.
func environment(t *testing.T) {
	t.Helper()
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "AKIATESTKEY", "AWS_SECRET_ACCESS_KEY": secret, "AWS_SESSION_TOKEN": "session" + secret,
		"AWS_CONFIG_FILE": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_REGION": "", "AWS_PROFILE": "", "AWS_ENDPOINT_URL": "", "AWS_ENDPOINT_URL_S3": "",
	} {
		t.Setenv(name, value)
	}
}

// check checks the error of a write that cannot succeed.
func check(t *testing.T, what string, err, want error, words ...string) {
	t.Helper()
	if !errors.Is(err, want) || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("%s: got %v (%v), want %v", what, err, store.OutcomeOf(err), want)
		return
	}
	if errors.Is(err, store.ErrNotFound) {
		t.Errorf("%s: it looks absent: %v", what, err)
	}
	for _, word := range append(words, "bucket") {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%s: the error does not tell %q: %v", what, word, err)
		}
	}
	for _, hidden := range []string{secret, "AKIATESTKEY", "Signature="} {
		if strings.Contains(fmt.Sprintf("%v %+v %q", err, err, err), hidden) {
			t.Errorf("%s: the error tells %q: %v", what, hidden, err)
		}
	}
}

// write opens a URL and writes.
func write(ctx context.Context, url string) error {
	b, _, err := s3bucket.Open(ctx, url, &s3bucket.Options{AssumeAbilities: object.Abilities()})
	if err != nil {
		return err
	}
	_, err = b.Put(ctx, "k", strings.NewReader("x"), &object.PutOptions{IfAbsent: true})
	return err
}

// TestEndpoints: what is wrong with an endpoint is reported, with what to do.
func TestEndpoints(t *testing.T) {
	environment(t)
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "<html>hello</html>", http.StatusTeapot)
	}))
	defer plain.Close()
	encrypted := httptest.NewUnstartedServer(plain.Config.Handler)
	encrypted.Config.ErrorLog = log.New(io.Discard, "", 0)
	encrypted.StartTLS()
	defer encrypted.Close()
	down, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	down.Close()
	ctx := t.Context()
	check(t, "down", write(ctx, "s3://bucket?endpoint=http://"+down.Addr().String()), store.ErrUnavailable, "cannot connect")
	check(t, "no such host", write(ctx, "s3://bucket?endpoint=http://nowhere.invalid"), store.ErrUnavailable, "cannot connect")
	check(t, "TLS to a plain port", write(ctx, "s3://bucket?endpoint="+strings.Replace(plain.URL, "http:", "https:", 1)), store.ErrMisconfigured, "http://")
	// A read, since such a server may break the connection while a body is sent.
	b, _, err := s3bucket.Open(ctx, "s3://bucket?endpoint="+strings.Replace(encrypted.URL, "https:", "http:", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Get(ctx, "k", nil)
	check(t, "plain to a TLS port", err, store.ErrMisconfigured, "https://")
	check(t, "unknown certificate", write(ctx, "s3://bucket?endpoint="+encrypted.URL), store.ErrMisconfigured, "certificate")
	check(t, "no S3", write(ctx, "s3://bucket?endpoint="+plain.URL), store.ErrMisconfigured, "endpoint")
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	check(t, "no credentials", write(ctx, "s3://bucket?endpoint="+plain.URL), store.ErrMisconfigured, "no AWS credentials")
	if err := write(ctx, "s3://bucket?anonymous&endpoint=http://"+down.Addr().String()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("anonymous: %v", err)
	}
}

// TestDamagedTLS: a device on the way breaks an encrypted connection after the server got the request. It may be applied.
func TestDamagedTLS(t *testing.T) {
	srv := tlstest.Damaged(t)
	client := awstest.NewS3("bucket").Client(func(o *s3.Options) { o.BaseEndpoint, o.HTTPClient = &srv.URL, srv.Client() })
	b, err := s3bucket.New(client, "bucket", &s3bucket.Options{AssumeAbilities: object.Abilities()})
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Put(t.Context(), "k", strings.NewReader("x"), &object.PutOptions{IfAbsent: true})
	if !errors.Is(err, store.ErrUnavailable) || store.OutcomeOf(err) != store.Unknown {
		t.Errorf("%v, %v", err, store.OutcomeOf(err))
	}
}

// TestRetryingClient: the HTTP client of a program sends a request again after a lost reply, and cannot connect. The
// first request may be applied.
func TestRetryingClient(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }))
	defer srv.Close()
	again := roundTripper(func(r *http.Request) (*http.Response, error) {
		if _, err := http.DefaultTransport.RoundTrip(r); err == nil {
			t.Error("the first request got an answer")
		}
		second := r.Clone(r.Context())
		second.URL.Host, second.Body = "127.0.0.1:1", http.NoBody
		return http.DefaultTransport.RoundTrip(second)
	})
	client := awstest.NewS3("bucket").Client(func(o *s3.Options) { o.BaseEndpoint, o.HTTPClient = &srv.URL, &http.Client{Transport: again} })
	b, err := s3bucket.New(client, "bucket", &s3bucket.Options{AssumeAbilities: object.Abilities()})
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Put(t.Context(), "k", strings.NewReader("x"), &object.PutOptions{IfAbsent: true})
	if !errors.Is(err, store.ErrUnavailable) || store.OutcomeOf(err) != store.Unknown {
		t.Errorf("%v, %v", err, store.OutcomeOf(err))
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestAnswers: what S3 says is reported as what it means.
func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		want   error
		word   string
	}{
		{403, "AccessDenied", store.ErrDenied, "AccessDenied"},
		{403, "SignatureDoesNotMatch", store.ErrCredentials, "credentials"},
		{403, "InvalidAccessKeyId", store.ErrCredentials, "credentials"},
		{400, "ExpiredToken", store.ErrDenied, "credentials"},
		{404, "XAdminUserNotFound", store.ErrDenied, "credentials"},
		{403, "RequestTimeTooSkewed", store.ErrMisconfigured, "clock"},
		{404, "NoSuchBucket", store.ErrMisconfigured, "the bucket does not exist here"},
		{301, "PermanentRedirect", store.ErrMisconfigured, "region"},
		{400, "AuthorizationHeaderMalformed", store.ErrMisconfigured, "region"},
		{409, "OperationAborted", object.ErrBusy, ""},
		{409, "ExistingObjectIsDirectory", object.ErrBusy, ""},
		{501, "NotImplemented", errors.ErrUnsupported, ""},
	} {
		t.Run(c.code, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := awstest.NewS3("bucket")
				b := trusted(t, f)
				f.Add("", 0, -1, awstest.Fault{Status: c.status, Code: c.code})
				_, err := b.Put(t.Context(), "bucket-key", strings.NewReader("x"), &object.PutOptions{IfAbsent: true})
				check(t, "put", err, c.want, c.word)
				if c.code == "NotImplemented" {
					return
				}
				if _, err := b.Get(t.Context(), "bucket-key", nil); !errors.Is(err, c.want) {
					t.Errorf("get: %v", err)
				}
				for _, err := range b.List(t.Context(), "", nil) {
					if !errors.Is(err, c.want) {
						t.Errorf("list: %v", err)
					}
				}
			})
		})
	}
	f := awstest.NewS3()
	err := newBucket(t, f, nil).Exists(t.Context())
	check(t, "missing bucket", err, store.ErrMisconfigured, "the bucket does not exist here")
	for _, err := range newBucket(t, f, nil).List(t.Context(), "", nil) {
		check(t, "listing a missing bucket", err, store.ErrMisconfigured, "the bucket does not exist here")
	}
}

// TestNotAbsent: a status of 404 alone does not say that an object is absent.
func TestNotAbsent(t *testing.T) {
	f := awstest.NewS3("bucket")
	b := trusted(t, f)
	f.Add("", 0, -1, awstest.Fault{Status: 404, Code: "NoSuchRoute"})
	_, err := b.Get(t.Context(), "k", nil)
	if err == nil || errors.Is(err, store.ErrNotFound) {
		t.Errorf("get: %v", err)
	}
	_, err = b.Put(t.Context(), "k", strings.NewReader("x"), &object.PutOptions{IfMatch: `"0"`})
	if err == nil || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict) {
		t.Errorf("put: %v", err)
	}
}

// TestURLs: what is in a URL is used, and what is wrong in it is reported without
// repeating what could be a secret.
func TestURLs(t *testing.T) {
	environment(t)
	ctx := t.Context()
	client := func(url string) s3.Options {
		t.Helper()
		c, err := s3bucket.ParseURL(url)
		if err != nil {
			t.Fatal(err)
		}
		client, err := c.Client(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return client.Options()
	}
	o := client("s3://bucket/a/b?endpoint=http://127.0.0.1:9000&sse=aws:kms&sse_key=x&acl=private&expected_bucket_owner=1&timeout=2s&unsafe=put-if-match,delete-if-match")
	if *o.BaseEndpoint != "http://127.0.0.1:9000" || !o.UsePathStyle || o.Region != "us-east-1" || o.RequestChecksumCalculation != aws.RequestChecksumCalculationWhenRequired {
		t.Errorf("endpoint: %v %v %v", *o.BaseEndpoint, o.UsePathStyle, o.Region)
	}
	o = client("s3://bucket?region=eu-west-1&fips&dualstack=true")
	if o.BaseEndpoint != nil || o.UsePathStyle || o.Region != "eu-west-1" || o.RequestChecksumCalculation == aws.RequestChecksumCalculationWhenRequired ||
		o.EndpointOptions.UseFIPSEndpoint != aws.FIPSEndpointStateEnabled || o.EndpointOptions.UseDualStackEndpoint != aws.DualStackEndpointStateEnabled {
		t.Errorf("AWS: %+v", o.EndpointOptions)
	}
	o = client("s3://bucket?endpoint=https://s3.example.com&path_style=false&region=x&checksums=when_supported")
	if o.UsePathStyle || o.RequestChecksumCalculation == aws.RequestChecksumCalculationWhenRequired {
		t.Error("path_style or checksums are ignored")
	}
	if o := client("s3://bucket?endpoint=https://s3.example.com&use_path_style=false"); o.UsePathStyle {
		t.Error("use_path_style is ignored")
	}
	// The URL wins over the environment, and the environment is used without it.
	t.Setenv("AWS_ENDPOINT_URL_S3", "http://from.env")
	if o := client("s3://bucket?endpoint=http://from.url"); *o.BaseEndpoint != "http://from.url" {
		t.Errorf("got %s", *o.BaseEndpoint)
	}
	b, prefix, err := s3bucket.Open(ctx, "s3://bucket/a/b/", nil)
	if err != nil || prefix != "a/b" || b.OnAWS() || b.Name() != "bucket" {
		t.Errorf("got %q, %v", prefix, err)
	}
	for _, url := range []string{
		"s3:bucket", "gs://bucket", "s3://", "s3://user:" + secret + "@bucket", "s3://AKIA" + secret + "@bucket", "s3://bucket?" + secret + "%zz",
		"s3://bucket?secret_key=" + secret, "s3://bucket?endpoint=127.0.0.1:9000", "s3://bucket?endpoint=http://u:" + secret + "@h",
		"s3://bucket?endpoint=http://h?x=" + secret + "%26y=1", "s3://bucket?path_style=perhaps", "s3://bucket?timeout=5", "s3://bucket?timeout=1ms", "s3://bucket?unsafe=" + "everything",
		"s3://bucket?sse=rot13", "s3://bucket?acl=everyone", "s3://bucket?sse_key=x", "s3://bucket?checksums=never", "s3://bucket/a//b", "s3://bucket?region=a&region=b", "s3://bucket/%zz" + secret,
		"s3://bucket#" + secret,
	} {
		_, err := s3bucket.ParseURL(url)
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", url, err)
		}
	}
	t.Setenv("AWS_ENDPOINT_URL_S3", "")
	if _, _, err := s3bucket.Open(ctx, "s3://bucket", nil); !errors.Is(err, store.ErrMisconfigured) || !strings.Contains(err.Error(), "region") {
		t.Errorf("no region: %v", err)
	}
	if _, _, err := s3bucket.Open(ctx, "s3://bucket?profile=nobody&region=x", nil); !errors.Is(err, store.ErrMisconfigured) || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("no profile: %v", err)
	}
}

// TestOnAWS: what counts as Amazon's own.
func TestOnAWS(t *testing.T) {
	f := awstest.NewS3("bucket")
	for endpoint, want := range map[string]bool{
		"": true, "https://s3.eu-west-1.amazonaws.com": true, "https://s3.dualstack.eu-west-1.amazonaws.com": true, "https://s3.cn-north-1.amazonaws.com.cn": true,
		"http://s3.eu-west-1.amazonaws.com": false, "https://amazonaws.com.evil.example": false, "http://127.0.0.1:9000": false, "https://s3.example.com": false,
	} {
		client := f.Client(func(o *s3.Options) {
			o.BaseEndpoint = nil
			if endpoint != "" {
				o.BaseEndpoint = &endpoint
			}
		})
		b, err := s3bucket.New(client, "bucket", nil)
		if err != nil || b.OnAWS() != want || object.TraitsOf(b).Trusted != want {
			t.Errorf("%q: %v, %v", endpoint, b.OnAWS(), err)
		}
	}
}

// TestAccessPointCopy: the header that names the source has another form for an access point.
func TestAccessPointCopy(t *testing.T) {
	const point = "arn:aws:s3:us-east-1:123456789012:accesspoint/point"
	var source string
	client := awstest.NewS3("bucket").Client(func(o *s3.Options) {
		o.BaseEndpoint, o.UsePathStyle = nil, false
		o.HTTPClient = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			source = r.Header.Get("X-Amz-Copy-Source")
			return answer(http.StatusForbidden, "AccessDenied")(r)
		})}
	})
	b, err := s3bucket.New(client, point, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Copy(t.Context(), "a b/c", "to", nil); !errors.Is(err, store.ErrDenied) || source != point+"/object/a%20b%2Fc" {
		t.Errorf("%q, %v", source, err)
	}
}

// TestMultiRegion: two regions of a Multi-Region Access Point could create the same object.
func TestMultiRegion(t *testing.T) {
	_, err := s3bucket.New(awstest.NewS3("bucket").Client(), "arn:aws:s3::123456789012:accesspoint/mfzwi23gnjvgw.mrap", nil)
	if !errors.Is(err, store.ErrUnsafe) {
		t.Error(err)
	}
}

// TestErrorsNameTheBucket: the error of an object, and that of a register among objects,
// name the bucket once.
func TestErrorsNameTheBucket(t *testing.T) {
	f := awstest.NewS3("bucket")
	b := newBucket(t, f, nil)
	_, err := b.Stat(t.Context(), "k")
	if got, want := err.Error(), "stat k in s3://bucket: not found"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	f.Add("", 0, -1, awstest.Fault{Status: 403, Code: "AccessDenied"})
	_, err = b.Stat(t.Context(), "k")
	if n := strings.Count(err.Error(), "s3://bucket"); n != 1 {
		t.Errorf("a request that is denied names it %d times: %v", n, err)
	}
}
