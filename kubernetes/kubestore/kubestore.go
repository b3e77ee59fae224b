package kubestore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/drivers/request"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

const (
	// DefaultTimeout is the default of [Options].Timeout.
	DefaultTimeout = 5 * time.Second

	// MinTTL is the shortest useful TTL of a lease. While another API server or another member of etcd
	// takes over, requests can fail for some seconds.
	MinTTL = 2 * time.Second

	// MaxPrefix is the longest prefix, in bytes.
	MaxPrefix = request.MaxPrefix

	keyAnnotation    = "holdfast-go.dev/key"
	recordAnnotation = "holdfast-go.dev/record"
	prefixLabel      = "holdfast-go.dev/prefix"
	deletedLabel     = "holdfast-go.dev/deleted"

	// pageSize is the number of objects that one request of a listing returns.
	pageSize = 100

	// maxAnswer and maxPage are larger than any object, and than any page of a listing, in bytes.
	maxAnswer = 1 << 20
	maxPage   = pageSize * maxAnswer / 2

	// maxPages bounds a listing, which a wrong server could make endless.
	maxPages = 10_000
)

// Options are the options of [New] and [Open].
type Options struct {
	// Namespace is the namespace of the objects. It must exist.
	Namespace string

	// Prefix is a valid key of at most [MaxPrefix] bytes. It separates the registers of this store from others
	// in the namespace.
	Prefix string

	// Timeout is the longest time of one request, at least 100 ms; 0 means [DefaultTimeout]. If the
	// context of the call has a deadline, a request gets at most half of the remaining time, but at least
	// 500 ms.
	Timeout time.Duration

	// Logger receives the outcomes of writes whose reply was lost. Nil means no log.
	Logger *slog.Logger
}

// Store contains the registers below one prefix of a namespace. Any number of goroutines may use it.
// [engine.Store] describes its methods and the outcomes of writes. The Store starts a goroutine only while it
// gets a token. Its HTTP client also starts goroutines. Close ends all of them.
type Store struct {
	*engine.Store
	d *driver
}

// driver carries out single requests for the engine.
type driver struct {
	cluster *Cluster
	leases  string // the path of the objects
	o       Options
}

var validNamespace = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`) })

// New returns a Store in a cluster. It sends no request.
func New(cluster *Cluster, opts *Options) (*Store, error) {
	o := *cmp.Or(opts, &Options{})
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	switch {
	case cluster == nil:
		return nil, errors.New("kubestore: the cluster is nil")
	case !validNamespace().MatchString(o.Namespace):
		return nil, fmt.Errorf("kubestore: %w: Options.Namespace is not a name of a namespace", store.ErrInvalid)
	case o.Prefix == "":
		return nil, fmt.Errorf("kubestore: Options.Prefix: %w", store.CheckKey(""))
	}
	below, err := request.CheckOptions("kubestore", o.Timeout, o.Prefix)
	if err != nil {
		return nil, err
	}
	d := &driver{cluster: cluster, leases: "/apis/coordination.k8s.io/v1/namespaces/" + o.Namespace + "/leases", o: o}
	registers, err := engine.New(d, &engine.Options{
		Traits: store.Traits{
			Name:    "k8s://" + o.Namespace + "/" + o.Prefix + cluster.query,
			ID:      "kubernetes:" + cluster.host() + "/" + o.Namespace,
			Prefix:  below,
			Trusted: true,
			MinTTL:  MinTTL,
		},
		Trusted: true,
		Tags:    true,
		// A program that adds an annotation or a label of its own changes the resourceVersion, and not the uid.
		TagChanges: func(from, to engine.Tag) bool {
			_, uid, _ := strings.Cut(string(from), ".")
			_, current, _ := strings.Cut(string(to), ".")
			return uid == current && uid != ""
		},
		ReadTries: engine.DefaultTries,
		Logger:    o.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("kubestore: %w", err)
	}
	return &Store{registers, d}, nil
}

// Verify checks that the namespace exists, and that the user may create Lease objects there. It sends one
// request, which creates nothing.
func (s *Store) Verify(ctx context.Context) error {
	object := lease{"coordination.k8s.io/v1", "Lease", metadata{Name: s.d.name(".verify")}}
	return s.d.send(ctx, http.MethodPost, s.d.leases, url.Values{"dryRun": {"All"}}, object, nil, maxAnswer)
}

// Close closes the idle connections to the API server, and ends a program of the kubeconfig that has not yet
// printed a token. Both also concern other stores of this cluster: their next request connects again, and their
// requests that wait for the token fail.
func (s *Store) Close() error {
	s.d.cluster.close()
	return nil
}

func (c *Cluster) host() string {
	u, err := url.Parse(c.server)
	if err != nil {
		return ""
	}
	return u.Host + u.Path // one address can have many clusters
}

// hash returns the SHA-256 of a text as hexadecimal digits.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// name returns the name of the object of a register.
func (d *driver) name(key string) string { return "holdfast-" + hash(d.o.Prefix+"/"+key) }

// path returns the path of the object of a register.
func (d *driver) path(key string) string { return d.leases + "/" + d.name(key) }

// selector selects the registers of this store, with or without tombstones.
func (d *driver) selector(tombstones bool) string {
	s := prefixLabel + "=" + hash(d.o.Prefix)[:40]
	if !tombstones {
		s += ",!" + deletedLabel
	}
	return s
}

// lease is a Lease object, as far as the store reads and writes it.
type lease struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
}

type metadata struct {
	Name            string            `json:"name,omitempty"`
	UID             string            `json:"uid,omitempty"`
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	Labels          map[string]string `json:"labels,omitempty"`
	Annotations     map[string]string `json:"annotations,omitempty"`
	Continue        string            `json:"continue,omitempty"`
}

// tag names the state of an object: its resourceVersion and its uid.
func (m *metadata) tag() engine.Tag { return engine.Tag(m.ResourceVersion + "." + m.UID) }

// key returns the key of the register in an object. It is empty if the object is not a register of the store.
func (d *driver) key(m *metadata) string {
	key, ok := strings.CutPrefix(m.Annotations[keyAnnotation], d.o.Prefix+"/")
	if !ok || d.name(key) != m.Name || store.CheckKey(key) != nil {
		return ""
	}
	return key
}
