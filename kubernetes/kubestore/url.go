package kubestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/holdfast/internal/drivers/storeurl"
	"github.com/holdfast-go/holdfast/store"
)

// Parameters are the parameters that a URL may have.
var Parameters = []string{"context", "kubeconfig", "timeout"}

// FromURL returns what a URL names: a cluster, and a copy of the options with the values of the URL. For the
// form of the URL see [Open]. FromURL reads files, and sends no request.
func FromURL(rawURL string, opts *Options) (*Cluster, *Options, error) {
	o := *cmp.Or(opts, &Options{})
	query, err := o.parse(rawURL)
	if err != nil {
		return nil, nil, storeurl.Wrong(fmt.Errorf("%w: the URL of the store: %w", store.ErrMisconfigured, err))
	}
	cluster, err := chooseCluster(query.Get("kubeconfig"), query.Get("context"))
	if err != nil {
		return nil, nil, err
	}
	query.Del("timeout")
	if len(query) > 0 {
		cluster.query = "?" + query.Encode()
	}
	return cluster, &o, nil
}

// chooseCluster looks where kubectl looks, and for the service account of a pod.
func chooseCluster(file, contextName string) (*Cluster, error) {
	files := filepath.SplitList(os.Getenv("KUBECONFIG"))
	if file != "" {
		files = []string{file}
	}
	if len(files) == 0 && contextName == "" && os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		return InCluster()
	}
	if len(files) == 0 {
		home, err := os.UserHomeDir()
		if err == nil {
			file = filepath.Join(home, ".kube", "config")
			_, err = os.Stat(file)
		}
		if err != nil {
			return InCluster() // its error says what is missing
		}
		files = []string{file}
	}
	return FromKubeconfig(files, contextName)
}

// parse reads a URL into o, and returns its parameters. Its errors contain no part of the URL that could be a
// secret.
func (o *Options) parse(raw string) (url.Values, error) {
	u, query, err := storeurl.Parse(raw)
	switch {
	case err != nil:
		return nil, err
	case strings.Contains(u.EscapedPath(), "@"):
		return nil, storeurl.ErrCredentials
	case u.Scheme != "k8s" || u.Opaque != "" || !validNamespace().MatchString(u.Host) || strings.Trim(u.Path, "/") == "":
		return nil, errors.New("it is not of the form k8s://NAMESPACE/PREFIX")
	}
	o.Namespace, o.Prefix = u.Host, strings.Trim(u.Path, "/")
	if err := store.CheckKey(o.Prefix); err != nil {
		return nil, fmt.Errorf("its prefix: %w", err)
	}
	return query, storeurl.CheckParameters(query, Parameters, &o.Timeout)
}

// Open returns a [Store] for the registers that a URL k8s://NAMESPACE/PREFIX?PARAMETERS names. It sends no
// request. Errors in the URL and in the kubeconfig match store.ErrMisconfigured. The parameters:
//
//	context     name of a context in the kubeconfig; without it, the current context
//	kubeconfig  file to use instead of those that KUBECONFIG names, or ~/.kube/config
//	timeout     time limit of a request, such as 3s
//
// Without kubeconfig, context and KUBECONFIG, a program in a pod uses its service account.
func Open(ctx context.Context, rawURL string, opts *Options) (*Store, error) {
	cluster, o, err := FromURL(rawURL, opts)
	if err != nil {
		return nil, err
	}
	if err := store.CheckContext(ctx); err != nil {
		return nil, err
	}
	return New(cluster, o)
}
