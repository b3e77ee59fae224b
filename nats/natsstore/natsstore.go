package natsstore

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-go/holdfast/internal/drivers/request"
	"github.com/holdfast-go/holdfast/internal/drivers/tlsurl"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

const (
	// DefaultTimeout is the default of [Options].Timeout.
	DefaultTimeout = 3 * time.Second

	// MinTTL is the shortest useful TTL of a lease. The replicas of a stream that lost its leader need
	// about ten seconds to elect another: longer leases survive this.
	MinTTL = 2 * time.Second

	// MaxPrefix is the longest prefix, in bytes.
	MaxPrefix = request.MaxPrefix

	// pageSize is the number of messages that one request of a listing returns.
	pageSize = 1000

	// maxListing is the most bytes of keys that one listing returns.
	maxListing = 32 << 20
)

// Options are the options of [New] and [Open].
type Options struct {
	// Prefix is empty, or a valid key of at most [MaxPrefix] bytes. The key of each register begins with
	// Prefix and a slash.
	Prefix string

	// Timeout is the longest time of one request. If the context of the call has a deadline, a
	// request gets at most half of the remaining time, but at least 500 ms. Timeout is at least 100 ms; 0
	// means [DefaultTimeout].
	Timeout time.Duration

	// Replicas is the number of replicas of a bucket that [CreateBucket] creates: 1 to 5; 0 means 1.
	Replicas int

	// Hide removes secrets from the text of an error that a server sent. Nil: New changes no text, and
	// Open hides the password.
	Hide func(text string) string

	// Logger receives the outcomes of writes whose reply was lost. Nil means no log.
	Logger *slog.Logger

	open *calls // the requests of a connection that Open has made
}

// Store contains the registers below one prefix of a bucket. Any number of goroutines may use it.
// [engine.Store] describes its methods and the outcomes of writes. Close ends a connection that [Open] has
// made.
type Store struct {
	*engine.Store
	io.Closer
	d *driver
}

// driver carries out single requests for the engine.
type driver struct {
	conn   *nats.Conn
	js     jetstream.JetStream
	bucket string
	prefix string // ends with a slash unless it is empty
	o      Options
	calls  *calls
	wakes  atomic.Bool // the bucket wakes waiters
}

var bucketName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9_-]{1,200}$`) })

// New returns a Store that sends its requests through a connection. New sends no request. The caller closes
// the connection; Close of the Store does nothing. The connection should have the option
// nats.ReconnectBufSize(-1).
func New(conn *nats.Conn, bucket string, opts *Options) (*Store, error) {
	d, err := newDriver(conn, bucket, opts)
	if err != nil {
		return nil, err
	}
	// Not those that the client has discovered: they differ from time to time.
	named := tlsurl.Hosts(append(slices.Clip(conn.Opts.Servers), conn.Opts.Url))
	registers, err := engine.New(d, &engine.Options{
		Traits: store.Traits{
			Name:    strings.TrimSuffix("nats://"+strings.Join(named, ",")+"/"+bucket+"/"+d.prefix, "/"),
			ID:      "nats:" + strings.Join(slices.Sorted(slices.Values(named)), ",") + "/" + bucket,
			Prefix:  d.prefix,
			Trusted: true,
			MinTTL:  MinTTL,
		},
		Tags:            true,
		ReadTries:       engine.DefaultTries,
		Check:           d.check,
		TrustConditions: true,
		Logger:          d.o.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("natsstore: %w", err)
	}
	return &Store{registers, io.NopCloser(nil), d}, nil
}

func newDriver(conn *nats.Conn, bucket string, opts *Options) (*driver, error) {
	o := *cmp.Or(opts, &Options{})
	below, err := o.check()
	if err != nil {
		return nil, err
	}
	if conn == nil {
		return nil, errors.New("natsstore: the connection is nil")
	}
	if !bucketName().MatchString(bucket) {
		return nil, fmt.Errorf("natsstore: %w: the name of a bucket has letters, digits, - and _ only", store.ErrInvalid)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, fmt.Errorf("natsstore: %w", err)
	}
	return &driver{conn: conn, js: js, bucket: bucket, prefix: below, o: o, calls: cmp.Or(o.open, newCalls())}, nil
}

func (o *Options) check() (below string, err error) {
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.Prefix = strings.TrimSuffix(o.Prefix, "/")
	if o.Hide == nil {
		o.Hide = func(text string) string { return text }
	}
	if o.Replicas < 0 || o.Replicas > 5 {
		return "", fmt.Errorf("natsstore: %w: Options.Replicas is %d; it must be between 1 and 5", store.ErrInvalid, o.Replicas)
	}
	return request.CheckOptions("natsstore", o.Timeout, o.Prefix)
}
