package azblobbucket

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/holdfast-go/holdfast/internal/drivers/cloudurl"
	"github.com/holdfast-go/holdfast/internal/drivers/storeurl"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// Config is a parsed URL azblob://ACCOUNT/CONTAINER/PREFIX?PARAMETERS. The parameters:
//
//	endpoint    http://HOST:PORT or https://HOST:PORT of another server, such as Azurite, or of another
//	            cloud of Azure; default: https://ACCOUNT.blob.core.windows.net. If the host does not begin
//	            with the account, the account is the first part of the path.
//	anonymous   the client sends no credentials
//	timeout     time limit of a request, such as 5s
//	unsafe      abilities, separated by commas, that Holdfast uses although the server failed their
//	            test: put-if-absent, put-if-match, ...
//
// Credentials come from the environment, never from the URL. The first of these counts:
//
//   - AZURE_STORAGE_CONNECTION_STRING. Its account must be that of the URL. Without the parameter
//     endpoint, its endpoint counts.
//   - AZURE_STORAGE_KEY. If AZURE_STORAGE_ACCOUNT is set, it must be the account of the URL.
//   - AZURE_STORAGE_SAS_TOKEN.
//   - A token of the identity of the machine or the user: see DefaultAzureCredential of package azidentity.
type Config struct {
	Account   string
	Container string
	Prefix    string // without slashes at its ends; can be empty

	endpoint  *url.URL // nil: not given
	anonymous bool
	timeout   time.Duration
	unsafe    []object.Ability
}

var (
	validAccount   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]{3,24}$`) })
	validContainer = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(\$root|\$web|[a-z0-9](-?[a-z0-9]){2,62})$`) })
)

// ParseURL parses a URL. Its errors match store.ErrMisconfigured, and do not repeat what could be a secret.
func ParseURL(raw string) (_ *Config, err error) {
	defer func() { err = storeurl.Wrong(err) }()
	u, err := cloudurl.Parse(raw)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "azblob" {
		return nil, wrong("the URL of the store does not begin with azblob://")
	}
	if u.Has("sig") {
		return nil, wrong("the URL of the store contains a SAS token; put the token into AZURE_STORAGE_SAS_TOKEN")
	}
	c := &Config{Account: u.Host, anonymous: u.Is("anonymous"), timeout: u.Duration("timeout")}
	if endpoint := u.String("endpoint"); endpoint != "" {
		c.endpoint, err = url.Parse(endpoint)
		if err != nil || c.endpoint.Scheme != "http" && c.endpoint.Scheme != "https" || c.endpoint.Host == "" || strings.Trim(c.endpoint.Path, "/") != "" || c.endpoint.RawQuery != "" || c.endpoint.User != nil {
			return nil, wrong("the endpoint is not of the form http://HOST:PORT or https://HOST:PORT")
		}
	}
	if c.unsafe, err = object.ParseAbilities(u.String("unsafe")); err != nil {
		return nil, wrong("the parameter unsafe of the store's URL: %v", err)
	}
	if err := u.Rest(); err != nil {
		return nil, err
	}
	var path string
	c.Container, path, _ = strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	if !validAccount().MatchString(c.Account) || !validContainer().MatchString(c.Container) {
		return nil, wrong("the URL of the store is not of the form azblob://ACCOUNT/CONTAINER/PREFIX. An account has 3 to 24 lower-case letters and digits; a container has 3 to 63 lower-case letters, digits and single hyphens")
	}
	if c.Prefix, err = cloudurl.Prefix(path); err != nil {
		return nil, err
	}
	if err := checkKey(c.Prefix); err != nil {
		return nil, wrong("the prefix in the URL of the store: %v", err)
	}
	o := Options{Timeout: c.timeout}
	return c, o.check()
}

func wrong(format string, args ...any) error {
	return fmt.Errorf("%w: %s", store.ErrMisconfigured, fmt.Sprintf(format, args...))
}

// Unsafe returns the abilities that the URL names in its parameter "unsafe".
func (c *Config) Unsafe() []object.Ability { return c.unsafe }

// secrets are what the environment holds.
type secrets struct {
	endpoint   *url.URL
	key, token string // at most one of them is set
}

// environment reads the credentials.
func (c *Config) environment() (s secrets, err error) {
	if text := os.Getenv("AZURE_STORAGE_CONNECTION_STRING"); text != "" {
		return c.connection(text)
	}
	s.key, s.token = os.Getenv("AZURE_STORAGE_KEY"), os.Getenv("AZURE_STORAGE_SAS_TOKEN")
	if account := os.Getenv("AZURE_STORAGE_ACCOUNT"); s.key != "" && account != "" && account != c.Account {
		return s, wrong("AZURE_STORAGE_KEY is for the account %.50q of AZURE_STORAGE_ACCOUNT, but the URL names the account %q", account, c.Account)
	}
	if s.key != "" {
		s.token = ""
	}
	return s, nil
}

// connection parses a connection string.
func (c *Config) connection(text string) (s secrets, err error) {
	const name = "AZURE_STORAGE_CONNECTION_STRING"
	fields := make(map[string]string)
	for field := range strings.SplitSeq(text, ";") {
		key, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		fields[strings.ToLower(key)] = value
	}
	account := fields["accountname"]
	endpoint := fields["blobendpoint"]
	if endpoint == "" && fields["endpointsuffix"] != "" {
		endpoint = cmp.Or(fields["defaultendpointsprotocol"], "https") + "://" + cmp.Or(account, c.Account) + ".blob." + fields["endpointsuffix"]
	}
	if endpoint != "" {
		if s.endpoint, err = url.Parse(endpoint); err != nil || s.endpoint.Host == "" {
			return s, wrong("%s has a BlobEndpoint that is not a URL", name)
		}
		if account == "" {
			account, _, _ = strings.Cut(s.endpoint.Host, ".")
		}
	}
	s.key, s.token = fields["accountkey"], fields["sharedaccesssignature"]
	switch {
	case s.key == "" && s.token == "":
		return s, wrong("%s has neither an AccountKey nor a SharedAccessSignature", name)
	case account != c.Account:
		return s, wrong("%s is for another account than the account %q of the URL", name, c.Account)
	case s.key != "":
		s.token = ""
	}
	return s, nil
}

// containerURL returns the URL of the container at an endpoint.
func (c *Config) containerURL(endpoint *url.URL) *url.URL {
	endpoint = cmp.Or(endpoint, &url.URL{Scheme: "https", Host: c.Account + ".blob.core.windows.net"})
	u := &url.URL{Scheme: endpoint.Scheme, Host: endpoint.Host}
	if strings.HasPrefix(endpoint.Host, c.Account+".") {
		return u.JoinPath(c.Container)
	}
	return u.JoinPath(c.Account, c.Container)
}

// Client returns a client of the SDK for the container, and the options of its [Bucket]: those in the URL
// take precedence over the given options. Client sends no request.
func (c *Config) Client(opts *Options) (*container.Client, *Options, error) {
	o := *cmp.Or(opts, &Options{})
	o.Timeout = cmp.Or(c.timeout, o.Timeout)
	if o.ProbePrefix == "" && c.Prefix != "" {
		o.ProbePrefix = c.Prefix + "/" + DefaultProbePrefix
	}
	s, err := secrets{}, error(nil)
	if !c.anonymous {
		if s, err = c.environment(); err != nil {
			return nil, nil, err
		}
	}
	at := c.containerURL(cmp.Or(c.endpoint, s.endpoint))
	loopback := at.Hostname() == "localhost" || net.ParseIP(at.Hostname()).IsLoopback()
	with := &container.ClientOptions{ClientOptions: azcore.ClientOptions{
		Transport: newTransport(), Retry: policy.RetryOptions{MaxRetries: -1},
	}}
	var client *container.Client
	switch {
	case s.key != "":
		if o.key, err = container.NewSharedKeyCredential(c.Account, s.key); err != nil {
			return nil, nil, wrong("the key of the account is not Base64")
		}
		raw, _ := base64.StdEncoding.DecodeString(s.key)
		o.secrets = []string{s.key, string(raw)}
		client, err = container.NewClientWithSharedKeyCredential(at.String(), o.key, with)
	case s.token != "" && at.Scheme == "http" && !loopback:
		return nil, nil, wrong("a SAS token would go unencrypted over http://; use https://")
	case s.token != "" || c.anonymous:
		at.RawQuery = strings.TrimPrefix(s.token, "?")
		if s.token != "" && len(sasSecrets(s.token)) == 0 {
			return nil, nil, wrong("AZURE_STORAGE_SAS_TOKEN, or the connection string, has no SAS token: it has no parameter sig")
		}
		o.secrets = sasSecrets(s.token)
		client, err = container.NewClientWithNoCredential(at.String(), with)
	case at.Scheme == "http":
		return nil, nil, wrong("no Azure credentials for an endpoint with http://: set AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_CONNECTION_STRING; a token of an identity needs https://")
	default:
		if o.Credential, err = azidentity.NewDefaultAzureCredential(nil); err != nil {
			return nil, nil, wrong("no Azure credentials: set AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_CONNECTION_STRING, or log in with az login")
		}
		client, err = container.NewClient(at.String(), o.Credential, with)
	}
	if err != nil {
		return nil, nil, wrong("the URL of the container is not valid")
	}
	return client, &o, nil
}

// Open returns the bucket of the URL. It ignores the abilities of [Config.Unsafe]: the caller decides whether
// to use them. Open sends no request.
func (c *Config) Open(opts *Options) (*Bucket, error) {
	client, o, err := c.Client(opts)
	if err != nil {
		return nil, err
	}
	return New(client, o)
}

// Open returns the bucket that a URL names, and the prefix in the URL. The caller adds the prefix to
// its keys. See [Config] for the parameters. Open sends no request.
func Open(_ context.Context, rawURL string, opts *Options) (b *Bucket, prefix string, err error) {
	c, err := ParseURL(rawURL)
	if err != nil {
		return nil, "", err
	}
	o := *cmp.Or(opts, &Options{})
	o.AssumeAbilities = slices.Concat(o.AssumeAbilities, c.unsafe)
	b, err = c.Open(&o)
	return b, c.Prefix, err
}
