package redisstore

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/drivers/storeurl"
	"github.com/holdfast-go/holdfast/internal/drivers/tlsurl"
	"github.com/holdfast-go/holdfast/store"
)

const (
	defaultPort = "6379"

	// maxPassword is more than the bytes of a file with a password.
	maxPassword = 4096
)

// Parameters are the parameters that a URL may have.
var Parameters = []string{"user", "password_file", "cluster", "sentinel", "cacert", "cert", "key", "timeout", "unsafe"}

// FromURL returns what a URL names: how to connect, and a copy of the options with the values of the URL.
// For the form of the URL see [Open]. FromURL reads the files that the URL names, and sends no request.
func FromURL(rawURL string, opts *Options) (*redis.UniversalOptions, *Options, error) {
	o := *cmp.Or(opts, &Options{})
	o.Unsafe = slices.Clip(o.Unsafe)
	connect, err := o.parse(rawURL)
	if err != nil {
		return nil, nil, storeurl.Wrong(fmt.Errorf("%w: the URL of the store: %w", store.ErrMisconfigured, err))
	}
	return connect, &o, nil
}

// Open returns a [Store] for the registers that a URL redis://HOST[:PORT][/DATABASE[/PREFIX]]?PARAMETERS
// names. The scheme rediss demands TLS. The default port is 6379. DATABASE is a number; the default is 0. If
// there are several hosts, separated by commas, they are servers of one cluster, or sentinels. If the URL
// has a value for an option, it replaces the value in opts. The caller closes the Store. Open sends no
// request. Errors in the URL match store.ErrMisconfigured. The parameters:
//
//	user            name of the user
//	password_file   file with the password; without it, the password is in the variable REDIS_PASSWORD
//	cluster         true: the server is part of a cluster
//	sentinel        name of the primary server; the hosts are sentinels
//	cacert          file with the certificates that may sign the server's
//	cert, key       files with the client's certificate and its key
//	timeout         time limit of a request, such as 3s
//	unsafe          risks that the user accepts, separated by commas; see [Risk]
//
// The password is never in the URL.
func Open(rawURL string, opts *Options) (*Store, error) {
	connect, o, err := FromURL(rawURL, opts)
	if err != nil {
		return nil, err
	}
	return New(connect, o)
}

// parse reads a URL into o, and returns how to connect. Its errors contain no part of the URL that could
// be a secret.
func (o *Options) parse(raw string) (*redis.UniversalOptions, error) {
	u, query, err := storeurl.Parse(raw)
	switch {
	case err != nil:
		return nil, err
	case query.Has("password"), strings.Contains(query.Get("user"), ":"), strings.Contains(u.EscapedPath(), "@"):
		return nil, storeurl.ErrCredentials
	case u.Scheme != "redis" && u.Scheme != "rediss" || u.Opaque != "" || u.Host == "":
		return nil, fmt.Errorf("it is not of the form redis://HOST:PORT/DATABASE/PREFIX")
	}
	if err := storeurl.CheckParameters(query, Parameters, &o.Timeout); err != nil {
		return nil, err
	}
	connect := &redis.UniversalOptions{Addrs: tlsurl.Addresses(u.Host, defaultPort), Username: query.Get("user"), MasterName: query.Get("sentinel")}
	switch cluster := query.Get("cluster"); {
	case cluster != "" && cluster != "true" && cluster != "false":
		return nil, fmt.Errorf("the parameter cluster must be true or false")
	case connect.MasterName != "" && cluster == "true":
		return nil, fmt.Errorf("it has both parameters cluster and sentinel: remove one of the two")
	case connect.MasterName == "" && cluster == "false" && len(connect.Addrs) > 1:
		return nil, fmt.Errorf("it names several hosts, which must be servers of a cluster or sentinels")
	default:
		connect.IsClusterMode = connect.MasterName == "" && (cluster == "true" || len(connect.Addrs) > 1)
	}
	if connect.DB, o.Prefix, err = place(u.Path); err != nil {
		return nil, err
	}
	if connect.IsClusterMode && connect.DB != 0 {
		return nil, fmt.Errorf("a cluster has the database 0 only")
	}
	if query.Has("unsafe") {
		for name := range strings.SplitSeq(query.Get("unsafe"), ",") {
			if !slices.Contains(Risks, Risk(name)) {
				return nil, fmt.Errorf("the parameter unsafe has an unknown value; allowed: %s", strings.Join(texts(Risks), ", "))
			}
			o.Unsafe = append(o.Unsafe, Risk(name))
		}
	}
	if connect.TLSConfig, err = tlsConfig(u, query); err != nil {
		return nil, err
	}
	o.Name = strings.TrimSuffix(fmt.Sprintf("%s://%s/%d/%s", u.Scheme, u.Host, connect.DB, o.Prefix), "/")
	if connect.Password, err = password(query.Get("password_file")); err != nil {
		return nil, err
	}
	if connect.Username != "" && connect.Password == "" {
		return nil, fmt.Errorf("it names a user, but there is no password: set REDIS_PASSWORD")
	}
	return connect, nil
}

func texts(risks []Risk) (all []string) {
	for _, r := range risks {
		all = append(all, string(r))
	}
	return all
}

// place returns the number of the database and the prefix in the path of a URL.
func place(path string) (db int, prefix string, err error) {
	prefix = strings.Trim(path, "/")
	if prefix == "" {
		return 0, "", nil
	}
	first, prefix, _ := strings.Cut(prefix, "/")
	if strings.Trim(first, "0123456789") != "" {
		return 0, "", fmt.Errorf("its path does not begin with the number of a database: write redis://HOST/0/PREFIX")
	}
	if db, err = strconv.Atoi(first); err != nil {
		return 0, "", fmt.Errorf("the number of its database is too large")
	}
	if _, err := store.Below(prefix); err != nil {
		return 0, "", fmt.Errorf("its prefix: %w", err)
	}
	return db, prefix, nil
}

// password returns the content of a file, or else of the variable.
func password(file string) (string, error) {
	if file == "" {
		return os.Getenv("REDIS_PASSWORD"), nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("the parameter password_file: %w", err)
	}
	if text = []byte(strings.TrimRight(string(text), "\r\n")); len(text) == 0 || len(text) > maxPassword {
		return "", fmt.Errorf("the file that the parameter password_file names must contain the password alone")
	}
	return string(text), nil
}

// tlsConfig returns nil for the scheme redis.
func tlsConfig(u *url.URL, query url.Values) (*tls.Config, error) {
	if u.Scheme == "rediss" {
		return tlsurl.Certificates(query, "cacert", "cert", "key")
	}
	for _, name := range []string{"cacert", "cert", "key"} {
		if query.Has(name) {
			return nil, fmt.Errorf("the parameter %s needs TLS: write rediss://", name)
		}
	}
	return nil, nil
}
