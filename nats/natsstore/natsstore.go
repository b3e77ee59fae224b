package natsstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-go/holdfast/internal/tlsurl"
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
	MaxPrefix = 256

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

var bucketName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,200}$`)

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
	if err := o.check(); err != nil {
		return nil, err
	}
	if conn == nil {
		return nil, errors.New("natsstore: the connection is nil")
	}
	if !bucketName.MatchString(bucket) {
		return nil, fmt.Errorf("natsstore: %w: the name of a bucket has letters, digits, - and _ only", store.ErrInvalid)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, fmt.Errorf("natsstore: %w", err)
	}
	d := &driver{conn: conn, js: js, bucket: bucket, o: o, calls: cmp.Or(o.open, newCalls())}
	if o.Prefix != "" {
		d.prefix = o.Prefix + "/"
	}
	return d, nil
}

func (o *Options) check() error {
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.Prefix = strings.TrimSuffix(o.Prefix, "/")
	if o.Hide == nil {
		o.Hide = func(text string) string { return text }
	}
	switch {
	case o.Timeout < 100*time.Millisecond:
		return fmt.Errorf("natsstore: %w: Options.Timeout is %v; it must be at least 100ms", store.ErrInvalid, o.Timeout)
	case o.Replicas < 0 || o.Replicas > 5:
		return fmt.Errorf("natsstore: %w: Options.Replicas is %d; it must be between 1 and 5", store.ErrInvalid, o.Replicas)
	case len(o.Prefix) > MaxPrefix:
		return fmt.Errorf("natsstore: %w: Options.Prefix has %d bytes; at most %d are allowed", store.ErrKey, len(o.Prefix), MaxPrefix)
	}
	if o.Prefix != "" {
		if err := store.CheckKey(o.Prefix); err != nil {
			return fmt.Errorf("natsstore: Options.Prefix: %w", err)
		}
	}
	return nil
}

func (d *driver) stream() string { return "KV_" + d.bucket }

// subject returns the subject of a register, below the subject of the bucket.
func (d *driver) subject(key string) string { return "$KV." + d.bucket + "." + escape(d.prefix+key) }

// escape returns a key as tokens of a subject.
func escape(key string) string {
	var out strings.Builder
	for i := range len(key) {
		switch c := key[i]; {
		case c == '/':
			out.WriteByte('.')
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
			out.WriteByte(c)
		default:
			fmt.Fprintf(&out, "=%02X", c)
		}
	}
	return out.String()
}

// unescape is the inverse of escape. For other subjects, ok is false.
func unescape(tokens string) (key string, ok bool) {
	var out strings.Builder
	for i := 0; i < len(tokens); i++ {
		switch c := tokens[i]; c {
		case '.':
			out.WriteByte('/')
		case '=':
			b, err := strconv.ParseUint(tokens[min(i+1, len(tokens)):min(i+3, len(tokens))], 16, 8)
			if err != nil {
				return "", false
			}
			out.WriteByte(byte(b))
			i += 2
		default:
			out.WriteByte(c)
		}
	}
	return out.String(), escape(out.String()) == tokens
}

func tagOf(sequence uint64) engine.Tag { return engine.Tag(strconv.FormatUint(sequence, 10)) }

// last is the answer to a read of the last message of a subject.
type last struct {
	Error   *jetstream.APIError `json:"error"`
	Message struct {
		Subject  string `json:"subject"`
		Sequence uint64 `json:"seq"`
		Data     []byte `json:"data"`
	} `json:"message"`
}

// get reads the last message of a register.
func (d *driver) get(ctx context.Context, key string) (*last, error) {
	ask, _ := json.Marshal(map[string]string{"last_by_subj": d.subject(key)})
	answer := &last{}
	err := d.send(ctx, &nats.Msg{Subject: "$JS.API.STREAM.MSG.GET." + d.stream(), Data: ask}, answer)
	switch {
	case err != nil:
		return nil, err
	case answer.Error != nil:
		return nil, d.explain(answer.Error)
	case answer.Message.Subject != d.subject(key) || answer.Message.Sequence == 0:
		return nil, fmt.Errorf("%w: the server answered a read with another message", store.ErrUnavailable)
	}
	return answer, nil
}

// Read implements [engine.Driver].
func (d *driver) Read(ctx context.Context, key string, _ engine.Tag) (engine.Stored, error) {
	found, err := d.get(ctx, key)
	if err != nil {
		return engine.Stored{}, err
	}
	if len(found.Message.Data) > engine.MaxText {
		return engine.Stored{}, fmt.Errorf("%w: the value has %d bytes, more than a register can have", store.ErrCorrupt, len(found.Message.Data))
	}
	e, err := engine.Decode(found.Message.Data)
	return engine.Stored{Envelope: e, Tag: tagOf(found.Message.Sequence)}, err
}

// ReadRaw implements [engine.RawReader].
func (d *driver) ReadRaw(ctx context.Context, key string) (body []byte, on engine.Stored, err error) {
	found, err := d.get(ctx, key)
	if err != nil {
		return nil, on, err
	}
	on.Nonce, on.Tag = "sequence", tagOf(found.Message.Sequence) // the condition is the tag alone
	return found.Message.Data, on, nil
}

// Write implements [engine.Driver] by one message.
func (d *driver) Write(ctx context.Context, key string, on engine.Stored, e engine.Envelope) (engine.Tag, error) {
	sequence, err := strconv.ParseUint(string(cmp.Or(on.Tag, "0")), 10, 64)
	if err != nil || (sequence == 0) != on.Absent() {
		return "", fmt.Errorf("%w: the version has the sequence %.40q", store.ErrVersion, on.Tag)
	}
	m := nats.NewMsg(d.subject(key))
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(sequence, 10))
	m.Header.Set(jetstream.ExpectedStreamHeader, d.stream())
	m.Data = e.Encode()
	var ack struct {
		Error    *jetstream.APIError `json:"error"`
		Sequence uint64              `json:"seq"`
	}
	if err := d.send(ctx, m, &ack); err != nil {
		return "", err
	}
	switch {
	case ack.Error != nil:
		return "", d.explain(ack.Error)
	case ack.Sequence == 0:
		return "", fmt.Errorf("%w: the server acknowledged a write without its sequence", store.ErrUnavailable)
	}
	return tagOf(ack.Sequence), nil
}

// Remove implements [engine.Remover].
func (d *driver) Remove(ctx context.Context, key string) error {
	ask, _ := json.Marshal(map[string]string{"filter": d.subject(key)})
	var answer struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := d.send(ctx, &nats.Msg{Subject: "$JS.API.STREAM.PURGE." + d.stream(), Data: ask}, &answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return d.explain(answer.Error)
	}
	return nil
}

// List implements [engine.Driver].
func (d *driver) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return list(ctx, d, prefix, false, func(t store.Tagged) string { return t.Key })
}

// ListAll does the same as List, but also yields the keys of tombstones. A program that has created
// registers to test a store finds them with ListAll and removes them with Erase.
func (s *Store) ListAll(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return list(ctx, s.d, prefix, true, func(t store.Tagged) string { return t.Key })
}

// ListTags implements [store.TagLister]. The tag is the sequence of the message.
func (s *Store) ListTags(ctx context.Context, prefix string) iter.Seq2[store.Tagged, error] {
	return engine.Listing(ctx, s.Store, store.OpListTags, prefix, func(ctx context.Context, prefix string) iter.Seq2[store.Tagged, error] {
		return list(ctx, s.d, prefix, false, func(t store.Tagged) store.Tagged { return t })
	})
}

// ListCost implements [store.TagLister].
func (s *Store) ListCost() store.ListCost { return store.ListCost{Gets: 10, Keys: pageSize} }
