package gcsbucket

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/auth/credentials"
	"cloud.google.com/go/auth/httptransport"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	"google.golang.org/api/storage/v1"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// DefaultTimeout is the default of [Options].Timeout.
	DefaultTimeout = 5 * time.Second

	// DefaultProbePrefix is the default of [Options].ProbePrefix.
	DefaultProbePrefix = ".holdfast/probe"

	googleEndpoint = "https://storage.googleapis.com"
)

// Options are the options of [New].
type Options struct {
	// Endpoint is http://HOST:PORT or https://HOST:PORT of a server. Empty means the environment
	// variable STORAGE_EMULATOR_HOST, or else https://storage.googleapis.com.
	Endpoint string

	// Anonymous says that requests carry no credentials. An endpoint with http:// needs it: the
	// bucket never sends credentials without TLS.
	Anonymous bool

	// UserProject is the project that pays for the requests; empty means the project of the bucket. A
	// bucket with "requester pays" needs it.
	UserProject string

	// Timeout bounds each request until the answer is complete. The bound of a request with a body of
	// up to 8 MiB is one second longer for each 256 KiB. For a larger body, and for the body of a Get,
	// Timeout bounds each time without progress.
	//
	// If the context of the call has a deadline, a request gets at most half of the remaining time,
	// but at least 500 ms. The other half is for a read that finds the outcome after a lost answer.
	// Timeout is at least 100 ms; 0 means [DefaultTimeout].
	Timeout time.Duration

	// ProbePrefix is the prefix of the objects on which the bucket tests conditions; empty means
	// [DefaultProbePrefix].
	ProbePrefix string

	// AssumeAbilities names abilities that the Bucket does not test. Either an earlier run has found
	// these abilities (see [Bucket.KnownAbilities]), or the user accepts the risk.
	AssumeAbilities []object.Ability

	// Transport sends the requests, after the credentials were added. Nil means HTTP with the usual
	// proxy settings. It must not repeat requests.
	Transport http.RoundTripper

	// Logger receives the results of the tests of conditions. Nil means no log.
	Logger *slog.Logger
}

// Bucket is a bucket in Google Cloud Storage. Any number of goroutines may use it, and it needs no
// Close. A Put starts a goroutine, and waits for its end.
type Bucket struct {
	service   *storage.Service       // sends requests of the JSON API
	options   []googleapi.CallOption // of each of them
	client    *http.Client
	endpoint  *url.URL
	name      string
	where     string // the bucket and its endpoint, for people
	id        string // the same, for programs
	trusted   bool
	o         Options
	abilities *object.AbilityCache

	trying bool // this view tests conditions: it sends what the caller asks for
	once   bool // this view repeats nothing
}

var (
	_ object.Bucket      = (*Bucket)(nil)
	_ object.Copier      = (*Bucket)(nil)
	_ object.Verifier    = (*Bucket)(nil)
	_ object.DirLister   = (*Bucket)(nil)
	_ object.Describer   = (*Bucket)(nil)
	_ object.WholeReader = (*Bucket)(nil)
)

// New returns the bucket with this name. It sends no request to the bucket. It looks for credentials,
// which can be a request to the metadata server of the machine.
func New(ctx context.Context, bucket string, opts *Options) (*Bucket, error) {
	o := *cmp.Or(opts, &Options{})
	if bucket == "" || strings.ContainsAny(bucket, "/?#") {
		return nil, wrong("the name of the bucket is empty or not valid")
	}
	u, err := o.check()
	if err != nil {
		return nil, err
	}
	client, err := o.client()
	if err != nil {
		return nil, err
	}
	// The endpoint is always named, so that the environment does not choose another one.
	service, err := storage.NewService(ctx, option.WithHTTPClient(client), option.WithEndpoint(u.Scheme+"://"+u.Host+"/storage/v1/"))
	if err != nil {
		return nil, wrong("%s", oneLine(err.Error()))
	}
	b := &Bucket{service: service, client: client, endpoint: u, name: bucket, where: "gs://" + bucket, o: o}
	if o.UserProject != "" {
		b.options = []googleapi.CallOption{googleapi.QueryParameter("userProject", o.UserProject)}
	}
	host := strings.ToLower(u.Host)
	b.trusted = u.Scheme == "https" && strings.HasSuffix(u.Hostname(), ".googleapis.com")
	b.id = "gs://google/" + bucket
	if !b.trusted {
		b.where += " at " + u.Host
		b.id = "gs://" + host + "/" + bucket
	}
	b.abilities = object.NewAbilityCache(b.where, o.Logger, b.trusted, append([]object.Ability{object.PlainCopy}, o.AssumeAbilities...)...)
	return b, nil
}

// check fills in the defaults, and refuses what is out of bounds. It returns the endpoint.
func (o *Options) check() (*url.URL, error) {
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.ProbePrefix = cmp.Or(o.ProbePrefix, DefaultProbePrefix)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	endpoint := o.Endpoint
	if emulator := os.Getenv("STORAGE_EMULATOR_HOST"); endpoint == "" && emulator != "" {
		// As the library does, so that a test does not write to the real service by mistake.
		if endpoint = emulator; !strings.Contains(endpoint, "://") {
			endpoint = "http://" + endpoint
		}
		o.Anonymous = true
	}
	u, err := url.Parse(cmp.Or(endpoint, googleEndpoint))
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "":
		return nil, wrong("the endpoint is not of the form http://HOST:PORT or https://HOST:PORT")
	case u.User != nil:
		return nil, wrong("the endpoint contains credentials; put them into the environment")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, wrong("the endpoint contains parameters; escape the endpoint in the URL of the store")
	case u.Scheme == "http" && !o.Anonymous:
		return nil, wrong("the endpoint has no TLS, so Holdfast sends no credentials there: write https://, or add anonymous=true for a server that needs no credentials")
	case o.Timeout < 100*time.Millisecond:
		return nil, wrong("the timeout is %v; it must be at least 100ms", o.Timeout)
	}
	for _, a := range o.AssumeAbilities {
		if !slices.Contains(object.Abilities(), a) {
			return nil, wrong("the ability %q in Options.AssumeAbilities is unknown", a)
		}
	}
	return u, nil
}

// client returns a client that sends its requests through a [watcher].
func (o *Options) client() (*http.Client, error) {
	inner := o.Transport
	if inner == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxResponseHeaderBytes, t.MaxIdleConnsPerHost, t.DisableCompression = maxHeader, 64, true
		inner = t
	}
	hc := &http.Client{
		Transport: watcher{inner},
		// The next address would get the credentials.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if !o.Anonymous {
		creds, err := credentials.DetectDefault(&credentials.DetectOptions{Scopes: []string{storage.DevstorageReadWriteScope}})
		if err == nil {
			err = httptransport.AddAuthorizationMiddleware(hc, creds)
		}
		if err != nil {
			return nil, wrong("no Google credentials: call \"gcloud auth application-default login\", or set GOOGLE_APPLICATION_CREDENTIALS, or give the machine a service account (%s)", oneLine(err.Error()))
		}
	}
	return hc, nil
}

// Name returns the name of the bucket.
func (b *Bucket) Name() string { return b.name }

// Traits implements [object.Describer].
func (b *Bucket) Traits() object.Traits {
	return object.Traits{Name: "gs://" + b.name, ID: b.id, Trusted: b.trusted, UniqueVersions: true}
}

// wrong returns an error with this text that matches store.ErrMisconfigured.
func wrong(format string, args ...any) error {
	return fmt.Errorf("%w: %s", store.ErrMisconfigured, fmt.Sprintf(format, args...))
}

func (b *Bucket) opError(op store.Kind, key string, err error) error {
	if err == nil {
		return nil
	}
	return &store.OpError{Op: op, Key: key, Store: b.Traits().Name, Err: err}
}

// Verify implements [object.Verifier]. It tests the abilities that are not yet known, on objects below
// [Options].ProbePrefix. The Bucket remembers the results.
func (b *Bucket) Verify(ctx context.Context, abilities ...object.Ability) error {
	for _, a := range abilities {
		switch a {
		// A large body is one request, too.
		case object.PartsIfAbsent:
			a = object.PutIfAbsent
		case object.PartsIfMatch:
			a = object.PutIfMatch
		}
		if err := b.require(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// require returns nil if the server has an ability, or if a is empty. It tests an unknown ability.
func (b *Bucket) require(ctx context.Context, a object.Ability) error {
	if a == "" || b.trying {
		return nil
	}
	return b.abilities.Require(ctx, a, func() (map[object.Ability]error, error) {
		view := *b
		view.trying = true
		return object.Probe(ctx, &view, b.o.ProbePrefix, a)
	})
}

// KnownAbilities returns the abilities that the server is known to have. Pass them to
// [Options].AssumeAbilities of a later run. KnownAbilities sends no request.
func (b *Bucket) KnownAbilities() []object.Ability { return b.abilities.Known() }

// WithAbilities returns a view of the same bucket that assumes these abilities, and that tests others
// below a prefix. Use it for abilities that an earlier run has found, or for which the user accepts the
// risk. An empty prefix means the prefix of this bucket.
func (b *Bucket) WithAbilities(probePrefix string, abilities ...object.Ability) *Bucket {
	view := *b
	view.o.ProbePrefix = cmp.Or(probePrefix, b.o.ProbePrefix)
	view.abilities = b.abilities.With(abilities...)
	return &view
}

// ProbePrefix returns the prefix of the objects on which the bucket tests abilities.
func (b *Bucket) ProbePrefix() string { return b.o.ProbePrefix }
