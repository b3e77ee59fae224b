package etcdstore

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/internal/drivers/request"
	"github.com/holdfast-go/holdfast/internal/drivers/tlsurl"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

const (
	// DefaultTimeout is the default of [Options].Timeout.
	DefaultTimeout = 3 * time.Second

	// MinTTL is the shortest useful TTL of a lease. A cluster that lost its leader needs one or two
	// seconds to elect another.
	MinTTL = 2 * time.Second

	// MaxPrefix is the longest prefix, in bytes.
	MaxPrefix = request.MaxPrefix

	// pageSize is the number of keys that one request of a listing returns.
	pageSize = 1000

	// maxListing is the most bytes of keys that one listing returns.
	maxListing = 32 << 20
)

// Options are the options of [New] and [Open].
type Options struct {
	// Prefix is empty, or a valid key of at most [MaxPrefix] bytes. Every key in etcd begins with Prefix
	// and a slash. If Prefix is empty, the keys have no prefix.
	Prefix string

	// Timeout is the longest time of one request. If the context of the call has a deadline, a
	// request gets at most half of the remaining time, but at least 500 ms. The other half is for a
	// request that finds the outcome after a lost answer. Timeout is at least 100 ms; 0 means
	// [DefaultTimeout].
	Timeout time.Duration

	// Hide removes secrets from the text of an error that a server sent. Nil: New changes no text, and
	// Open hides the password.
	Hide func(text string) string

	// Logger receives the outcomes of writes whose reply was lost. Nil means no log.
	Logger *slog.Logger
}

// Store contains the registers below one prefix of etcd. Any number of goroutines may use it.
// [engine.Store] describes its methods and the outcomes of writes. The Store starts no goroutine, but the
// client does. Close ends a client that [Open] has made.
type Store struct {
	*engine.Store
	io.Closer
	d *driver
}

// driver carries out single requests for the engine.
type driver struct {
	client *clientv3.Client
	prefix string // ends with a slash unless it is empty
	o      Options
}

// New returns a Store that sends its requests through a client. New sends no request. The caller closes the
// client; Close of the Store does nothing.
func New(client *clientv3.Client, opts *Options) (*Store, error) {
	o := *cmp.Or(opts, &Options{})
	below, err := o.check()
	if err != nil {
		return nil, err
	}
	if client == nil {
		return nil, errors.New("etcdstore: the client is nil")
	}
	d := &driver{client: client, prefix: below, o: o}
	named := tlsurl.Hosts(client.Endpoints())
	registers, err := engine.New(d, &engine.Options{
		Traits: store.Traits{
			Name:                 strings.TrimSuffix("etcd://"+strings.Join(named, ",")+"/"+d.prefix, "/"),
			ID:                   "etcd:" + strings.Join(slices.Sorted(slices.Values(named)), ","),
			Prefix:               d.prefix,
			ConflictCarriesState: true,
			Trusted:              true,
			MinTTL:               MinTTL,
		},
		Trusted:   true,
		Tags:      true,
		ReadTries: engine.DefaultTries,
		Logger:    o.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("etcdstore: %w", err)
	}
	return &Store{registers, io.NopCloser(nil), d}, nil
}

func (o *Options) check() (below string, err error) {
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.Prefix = strings.TrimSuffix(o.Prefix, "/")
	if o.Hide == nil {
		o.Hide = func(text string) string { return text }
	}
	return request.CheckOptions("etcdstore", o.Timeout, o.Prefix)
}
