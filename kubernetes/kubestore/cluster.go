package kubestore

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-go/holdfast/internal/drivers/tlsurl"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// serviceAccount is where Kubernetes puts the credentials of a pod.
	serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

	// fileAge is how long a token from a file is used before the file is read again. Kubernetes renews such a
	// file long before its token ends.
	fileAge = time.Minute

	// maxCredentials is how long a program of a kubeconfig may take to print a token.
	maxCredentials = 30 * time.Second

	// waitDelay is how long a program that was ended can keep its output open.
	waitDelay = time.Second
)

// Cluster contains the address of an API server and the credentials for it.
type Cluster struct {
	server string // https://HOST:PORT
	client atomic.Pointer[http.Client]
	query  string                                                               // the part of the URL of a store that chooses this cluster
	fetch  func(ctx context.Context) (token string, until time.Time, err error) // nil: the token stays the same

	mu     sync.Mutex
	cached string
	until  time.Time
	run    *run // of fetch; nil: there is none
}

// run is one run of Cluster.fetch. It can take longer than any call that waits for it.
type run struct {
	end   context.CancelFunc
	done  chan struct{}
	token string // after done
	err   error
}

// newCluster returns a cluster whose server has a certificate that one of the authorities signed. Nil means the
// authorities of the system.
func newCluster(server string, authorities []byte, config *tls.Config) (*Cluster, error) {
	u, err := url.Parse(strings.TrimRight(server, "/"))
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return nil, errors.New("the address of the server is not of the form https://HOST:PORT")
	}
	config.MinVersion = tls.VersionTLS12
	if authorities != nil {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(authorities) {
			return nil, errors.New("the certificate authority of the server contains no certificate")
		}
	}
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		TLSClientConfig:     config,
		TLSHandshakeTimeout: 5 * time.Second,
		IdleConnTimeout:     time.Minute,
		ForceAttemptHTTP2:   true,
		// A connection that is dead without a notice must not delay all later requests.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 5 * time.Second, PingTimeout: 5 * time.Second},
	}
	c := &Cluster{server: u.String()}
	c.client.Store(&http.Client{
		Transport: transport,
		// A redirect would send the token to another server.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	})
	return c, nil
}

// reconnect makes later requests use new connections instead of those of a client. A request on a connection of
// HTTP/2 that ends without an answer leaves the connection in use, and it takes some seconds to find out that it
// is dead.
func (c *Cluster) reconnect(from *http.Client) {
	next, old := *from, from.Transport.(*http.Transport)
	next.Transport = old.Clone()
	if c.client.CompareAndSwap(from, &next) {
		old.CloseIdleConnections()
	}
}

// InCluster returns the cluster of the pod in which the program runs, with the pod's service account.
func InCluster() (*Cluster, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, fmt.Errorf("%w: the program does not run in a pod of Kubernetes, and there is no kubeconfig: set KUBECONFIG", store.ErrMisconfigured)
	}
	authorities, err := os.ReadFile(filepath.Join(serviceAccount, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("%w: the certificate authority of the cluster: %w", store.ErrMisconfigured, err)
	}
	c, err := newCluster("https://"+net.JoinHostPort(host, port), authorities, &tls.Config{})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrMisconfigured, err)
	}
	c.fetch = fileToken(filepath.Join(serviceAccount, "token"))
	return c, nil
}

// token returns the token for a request, or "" if the cluster needs none. Its errors say that nothing was sent.
func (c *Cluster) token(ctx context.Context) (string, error) {
	token, err := c.current(ctx)
	switch {
	case err == nil && strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		err = errors.New("it contains a character that no token has")
	case err == nil:
		return token, nil
	case ctx.Err() != nil:
		return "", store.MarkNotApplied(fmt.Errorf("%w: %w", store.ErrUnavailable, store.Cause(ctx)))
	}
	return "", store.MarkNotApplied(fmt.Errorf("%w: the token for Kubernetes: %w", store.ErrCredentials, err))
}

func (c *Cluster) current(ctx context.Context) (string, error) {
	c.mu.Lock()
	if c.fetch == nil || c.cached != "" && time.Now().Before(c.until) {
		defer c.mu.Unlock()
		return c.cached, nil
	}
	r := c.run
	if r == nil { // many requests at once must not start a program each
		own, end := context.WithTimeout(context.WithoutCancel(ctx), maxCredentials)
		r = &run{end: end, done: make(chan struct{})}
		c.run = r
		go c.get(own, r)
	}
	c.mu.Unlock()
	select {
	case <-r.done:
		return r.token, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// get gets a token for all that wait for r, and for later requests.
func (c *Cluster) get(ctx context.Context, r *run) {
	defer r.end()
	token, until, err := c.fetch(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.token, r.err = token, err; err == nil {
		c.cached, c.until = token, until
	}
	c.run = nil
	close(r.done)
}

// close closes the idle connections, and ends a program that is to print a token.
func (c *Cluster) close() {
	c.client.Load().CloseIdleConnections()
	c.mu.Lock()
	r := c.run
	c.mu.Unlock()
	if r == nil {
		return
	}
	r.end()
	select {
	case <-r.done:
	case <-time.After(2 * waitDelay): // a file system does not answer
	}
}

// drop makes the next request get a new token, because the server has refused this one. It reports whether there
// may be another.
func (c *Cluster) drop(token string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cached == token {
		c.until = time.Time{}
	}
	return c.fetch != nil
}

// secrets returns what no message may contain.
func (c *Cluster) secrets() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return []string{c.cached}
}

func fileToken(file string) func(context.Context) (string, time.Time, error) {
	return func(context.Context) (string, time.Time, error) {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", time.Time{}, err
		}
		if text = bytes.TrimSpace(text); len(text) == 0 {
			return "", time.Time{}, errors.New("the file of the token is empty")
		}
		return string(text), time.Now().Add(fileAge), nil
	}
}

// kubeconfig is the part of a kubeconfig that the store reads.
type kubeconfig struct {
	CurrentContext string `yaml:"current-context"`
	Contexts       []entry
	Clusters       []entry
	Users          []entry
}

// entry is an entry of one of the three lists.
type entry struct {
	Name    string
	Context struct{ Cluster, User string }
	Cluster struct {
		Server        string
		Authority     string `yaml:"certificate-authority"`
		AuthorityData string `yaml:"certificate-authority-data"`
		ServerName    string `yaml:"tls-server-name"`
		Insecure      bool   `yaml:"insecure-skip-tls-verify"`
		ProxyURL      string `yaml:"proxy-url"`
	}
	User struct {
		Token       string
		TokenFile   string `yaml:"tokenFile"`
		Certificate string `yaml:"client-certificate"`
		CertData    string `yaml:"client-certificate-data"`
		Key         string `yaml:"client-key"`
		KeyData     string `yaml:"client-key-data"`
		Exec        *execPlugin
		As          string
		Username    string
		Provider    any `yaml:"auth-provider"`
	}
}

// execPlugin is a program that prints a token.
type execPlugin struct {
	APIVersion string `yaml:"apiVersion"`
	Command    string
	Args       []string
	Env        []struct{ Name, Value string }
}

// find returns the entry with a name, or the zero value.
func find(entries []entry, name string) entry {
	i := slices.IndexFunc(entries, func(e entry) bool { return e.Name == name })
	if i < 0 {
		return entry{}
	}
	return entries[i]
}

// readKubeconfig merges files as kubectl does: of two entries with one name, the first one counts.
func readKubeconfig(files []string) (all kubeconfig, err error) {
	found := false
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) && len(files) > 1 {
			continue
		}
		var one kubeconfig
		if err == nil && yaml.Unmarshal(text, &one) != nil {
			err = errors.New("it is not readable YAML") // the error of yaml could repeat a secret
		}
		if err != nil {
			return all, fmt.Errorf("the kubeconfig %s: %w", file, tlsurl.WithoutPath(err))
		}
		found = true
		// Paths are relative to the file.
		absolute := func(path *string) {
			if *path != "" && !filepath.IsAbs(*path) {
				*path = filepath.Join(filepath.Dir(file), *path)
			}
		}
		for i := range one.Clusters {
			absolute(&one.Clusters[i].Cluster.Authority)
		}
		for i := range one.Users {
			u := &one.Users[i].User
			absolute(&u.TokenFile)
			absolute(&u.Certificate)
			absolute(&u.Key)
			if u.Exec != nil && strings.ContainsRune(u.Exec.Command, filepath.Separator) {
				absolute(&u.Exec.Command)
			}
		}
		all.CurrentContext = cmp.Or(all.CurrentContext, one.CurrentContext)
		all.Contexts = append(all.Contexts, one.Contexts...)
		all.Clusters = append(all.Clusters, one.Clusters...)
		all.Users = append(all.Users, one.Users...)
	}
	if !found {
		return all, fmt.Errorf("none of the files of KUBECONFIG exists: %s", joined(files))
	}
	return all, nil
}

// FromKubeconfig returns the cluster of a context of kubeconfig files. An empty name means the current context.
// Of a user, it supports the token, the token file, the client certificate, and the exec program that prints a
// token.
func FromKubeconfig(files []string, contextName string) (c *Cluster, err error) {
	all, err := readKubeconfig(files)
	if err == nil {
		name := cmp.Or(contextName, all.CurrentContext)
		if c, err = all.cluster(name); err != nil {
			err = fmt.Errorf("the context %q of the kubeconfig %s: %w", name, joined(files), err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrMisconfigured, err)
	}
	return c, nil
}

func joined(files []string) string { return strings.Join(files, string(filepath.ListSeparator)) }

// cluster returns the cluster of a context.
func (all *kubeconfig) cluster(contextName string) (*Cluster, error) {
	chosen := find(all.Contexts, contextName)
	if chosen.Name == "" {
		return nil, errors.New("it does not exist; see kubectl config get-contexts")
	}
	cluster, user := find(all.Clusters, chosen.Context.Cluster).Cluster, find(all.Users, chosen.Context.User).User
	switch {
	case cluster.Server == "":
		return nil, errors.New("the cluster of the context has no server")
	case cluster.Insecure || cluster.ProxyURL != "":
		return nil, errors.New("insecure-skip-tls-verify and proxy-url are not supported: name the certificate authority, or set HTTPS_PROXY")
	case user.Provider != nil || user.Username != "" || user.As != "":
		return nil, errors.New("auth-provider, username and as are not supported: only token, tokenFile, client-certificate and exec are")
	}
	config := &tls.Config{ServerName: cluster.ServerName}
	if user.Certificate != "" || user.CertData != "" {
		cert, err := content(user.CertData, user.Certificate)
		if err != nil {
			return nil, fmt.Errorf("the client's certificate: %w", err)
		}
		key, err := content(user.KeyData, user.Key)
		if err != nil {
			return nil, fmt.Errorf("the key of the client's certificate: %w", err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("the client's certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	var authorities []byte
	if cluster.Authority != "" || cluster.AuthorityData != "" {
		var err error
		if authorities, err = content(cluster.AuthorityData, cluster.Authority); err != nil {
			return nil, fmt.Errorf("the certificate authority: %w", err)
		}
	}
	c, err := newCluster(cluster.Server, authorities, config)
	if err != nil {
		return nil, err
	}
	switch {
	case user.TokenFile != "": // kubectl prefers it to the token, too
		c.fetch = fileToken(user.TokenFile)
	case user.Token != "":
		c.cached = user.Token
	case user.Exec != nil:
		c.fetch = user.Exec.token
	}
	return c, nil
}

// content returns data in Base64, or what a file contains.
func content(data, file string) ([]byte, error) {
	if data == "" {
		text, err := os.ReadFile(file)
		return text, tlsurl.WithoutPath(err)
	}
	text, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return nil, errors.New("it is not Base64")
	}
	return text, nil
}

// token runs the program. The format is that of client.authentication.k8s.io.
func (p *execPlugin) token(ctx context.Context) (string, time.Time, error) {
	input, err := json.Marshal(map[string]any{"apiVersion": p.APIVersion, "kind": "ExecCredential", "spec": map[string]any{"interactive": false}})
	if err != nil {
		return "", time.Time{}, err
	}
	run := exec.CommandContext(ctx, p.Command, p.Args...)
	run.WaitDelay = waitDelay
	run.Env = append(os.Environ(), "KUBERNETES_EXEC_INFO="+string(input))
	for _, v := range p.Env {
		run.Env = append(run.Env, v.Name+"="+v.Value)
	}
	// What the program prints can contain a secret, so it never becomes a part of an error.
	out, err := run.Output()
	if err != nil {
		return "", time.Time{}, fmt.Errorf("the program %s of the kubeconfig: %w", filepath.Base(p.Command), err)
	}
	var printed struct {
		Status struct {
			Token      string    `json:"token"`
			Expiration time.Time `json:"expirationTimestamp"`
		} `json:"status"`
	}
	if err := json.Unmarshal(out, &printed); err != nil || printed.Status.Token == "" {
		return "", time.Time{}, fmt.Errorf("the program %s of the kubeconfig printed no token", filepath.Base(p.Command))
	}
	if printed.Status.Expiration.IsZero() {
		return printed.Status.Token, time.Now().Add(fileAge), nil
	}
	// A token is not used in the last seconds before its end.
	return printed.Status.Token, printed.Status.Expiration.Add(-10 * time.Second), nil
}
