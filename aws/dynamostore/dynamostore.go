package dynamostore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/holdfast/aws/internal/awscall"
	"github.com/holdfast-go/holdfast/aws/internal/endpoint"
	"github.com/holdfast-go/holdfast/aws/internal/transport"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// DefaultTimeout is how long a request may take; see [Options].
	DefaultTimeout = 3 * time.Second

	// DefaultTries is how often a request is sent at most; see [Options].
	DefaultTries = 5

	// MinTTL is the shortest lease that makes sense: a request takes milliseconds,
	// and now and then a second.
	MinTTL = 2 * time.Second

	// MaxPrefix is the longest prefix, in bytes.
	MaxPrefix = 256

	firstPause = 25 * time.Millisecond
)

// Options are the options of [New].
type Options struct {
	// Prefix is put before every key, with a slash: empty, or a valid key of at
	// most [MaxPrefix] bytes.
	Prefix string

	// Timeout bounds each request, until its answer is complete. Where the context
	// of the call has a deadline, a request gets half of what is left if that is
	// less (but 500 ms at least), so that it can still be settled. At least 100 ms; 0
	// means [DefaultTimeout].
	Timeout time.Duration

	// Tries is how often a request is sent at most that was throttled or got no
	// answer. 1 to 20; 0 means [DefaultTries]. Between two tries lies a random pause
	// that grows to 5 s.
	Tries int

	// Trusted says that the table was looked at, in an earlier run or by the
	// doctor, and is good.
	Trusted bool

	// Unsafe names what the user insists on doing without: see [Lack].
	Unsafe []Lack

	// OnVerified is called when the table was looked at, and is good, so that the user can remember it
	// and set Trusted the next time. Nil calls nothing.
	OnVerified func()

	// Log is told of what was settled and found. Nil discards.
	Log *slog.Logger
}

// Store is a space of registers in a table. It may be used by any number of
// goroutines, starts none, and needs no closing.
type Store struct {
	client *dynamodb.Client
	http   *transport.Client
	table  string
	where  string // the table and its endpoint, for people
	prefix string // ends with a slash unless it is empty
	o      Options
	id     string // for programs
	onAWS  bool
	probe  probe
}

var (
	_ store.Store     = (*Store)(nil)
	_ store.Lister    = (*Store)(nil)
	_ store.Describer = (*Store)(nil)
)

// New returns the registers in the table of this name, reached through client. It
// sends nothing.
func New(client *dynamodb.Client, table string, opts *Options) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if client == nil || table == "" {
		return nil, errors.New("dynamostore: a client and the name of a table are needed")
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &Store{client: client, http: transport.Guard(client.Options().HTTPClient, o.Log), table: table, where: "dynamodb://" + table, o: o, onAWS: endpoint.IsDynamoDB(client.Options())}
	at := client.Options()
	s.id = endpoint.DynamoDBID(at, table)
	if host := endpoint.Host(at.BaseEndpoint); host != "" {
		s.where += " at " + host
	}
	if o.Prefix != "" {
		s.prefix = o.Prefix + "/"
	}
	s.probe.slot = make(chan struct{}, 1)
	return s, nil
}

func (o *Options) check() error {
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.Tries = cmp.Or(o.Tries, DefaultTries)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	o.Prefix = strings.TrimSuffix(o.Prefix, "/")
	switch {
	case o.Timeout < 100*time.Millisecond:
		return fmt.Errorf("dynamostore: Options.Timeout is %v, at least 100ms is needed", o.Timeout)
	case o.Tries < 1 || o.Tries > 20:
		return fmt.Errorf("dynamostore: Options.Tries is %d, not within 1 and 20", o.Tries)
	case len(o.Prefix) > MaxPrefix:
		return fmt.Errorf("dynamostore: Options.Prefix: %w: %d bytes, at most %d are allowed", store.ErrKey, len(o.Prefix), MaxPrefix)
	}
	for _, l := range o.Unsafe {
		if l != ConditionsIgnored && l != GlobalTable {
			return fmt.Errorf("dynamostore: Options.Unsafe: there is no %q", l)
		}
	}
	if o.Prefix != "" {
		if err := store.CheckKey(o.Prefix); err != nil {
			return fmt.Errorf("dynamostore: Options.Prefix: %w", err)
		}
	}
	return nil
}

// Traits implements [store.Describer]. Their ID has endpoint, region and table. It does
// not have the account: name the tables of several accounts by their ARNs.
func (s *Store) Traits() store.Traits {
	return store.Traits{
		Name:          strings.TrimSuffix("dynamodb://"+s.table+"/"+s.prefix, "/"),
		ID:            s.id,
		Prefix:        s.prefix,
		ConflictTells: true,
		Trusted:       s.onAWS || s.o.Trusted,
		MinTTL:        MinTTL,
	}
}

// Get implements [store.Store].
func (s *Store) Get(ctx context.Context, key string) ([]byte, store.Version, error) {
	it, err := s.get(ctx, key)
	if err == nil && it.deleted {
		err = store.ErrNotFound
	}
	if err != nil {
		return nil, "", opError("get", key, err)
	}
	return it.value, it.version(), nil
}

// get reads a register, tombstones too.
func (s *Store) get(ctx context.Context, key string) (item, error) {
	if err := store.CheckKey(key); err != nil {
		return item{}, err
	}
	var out *dynamodb.GetItemOutput
	err := s.repeat(ctx, func() error {
		return s.call(ctx, func(ctx context.Context, opt func(*dynamodb.Options)) (err error) {
			out, err = s.client.GetItem(ctx, &dynamodb.GetItemInput{
				TableName:      &s.table,
				Key:            s.itemKey(key),
				ConsistentRead: aws.Bool(true),
			}, opt)
			return err
		})
	})
	if err != nil {
		return item{}, err
	}
	if len(out.Item) == 0 {
		return item{}, store.ErrNotFound
	}
	return decodeItem(out.Item)
}

// repeat sends a read until it is answered, fails for good, or has been sent as
// often as allowed.
func (s *Store) repeat(ctx context.Context, f func() error) error {
	for try := 1; ; try++ {
		err := f()
		if !errors.Is(err, store.ErrUnavailable) || try >= s.o.Tries || !awscall.Pause(ctx, firstPause, try) {
			return err
		}
	}
}

// call sends one request through f, with the SDK's retries off, and classifies what
// became of it.
func (s *Store) call(ctx context.Context, f func(context.Context, func(*dynamodb.Options)) error) error {
	c := awscall.New(ctx, s.where)
	if ctx.Err() != nil {
		return c.Classify(ctx.Err())
	}
	ctx, cancel := c.WithTimeout(c.Share(s.o.Timeout))
	defer cancel()
	err := f(ctx, func(o *dynamodb.Options) {
		o.Retryer = aws.NopRetryer{}
		o.HTTPClient = c.Watch(s.http)
		o.EnableAcceptEncodingGzip = false // the SDK would unpack it without a bound
	})
	switch {
	case c.Damaged() != nil:
		return c.Damaged()
	case err != nil:
		return s.classify(c, err)
	case c.Empty():
		// For the SDK that is an answer: no item, for example.
		return c.Fail(errEmpty, store.ErrUnavailable, store.Unknown, "%v", errEmpty)
	}
	return nil
}

var errEmpty = errors.New("the answer was cut off before it began")

// Put implements [store.Store]. Its conflicts are [*store.ConflictError] that carry
// the current state.
func (s *Store) Put(ctx context.Context, key string, prev store.Version, value []byte) (store.Version, error) {
	err := store.CheckPut(key, value)
	var v store.Version
	if err == nil {
		v, err = s.write(ctx, key, prev, item{value: value})
	}
	if err != nil {
		return "", opError("put", key, err)
	}
	return v, nil
}

// Delete implements [store.Store], with the conflicts of Put. It writes a tombstone.
func (s *Store) Delete(ctx context.Context, key string, prev store.Version) error {
	err := store.CheckDelete(key, prev)
	if err == nil {
		_, err = s.write(ctx, key, prev, item{deleted: true})
	}
	if err != nil {
		return opError("delete", key, err)
	}
	return nil
}

// List implements [store.Lister]. It costs at least one query for each of the
// sixteen parts, and holds a page at a time. More names than 32 MiB hold (each takes
// its length and 16 bytes) end it with an error.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return awscall.BoundNames(func(yield func(string, error) bool) {
		below := s.prefix
		if prefix != "" {
			if err := store.CheckKey(prefix); err != nil {
				yield("", opError("list", prefix, err))
				return
			}
			below += prefix + "/"
		}
		for _, part := range parts {
			var start map[string]types.AttributeValue
			var pages awscall.Pages
			for {
				keys, next, err := s.page(ctx, string(part), below, start)
				if err == nil && len(next) > 0 {
					last, _ := next[attrKey].(*types.AttributeValueMemberS)
					if last == nil {
						last = new(types.AttributeValueMemberS)
					}
					err = pages.Next(last.Value, len(keys))
				}
				if err != nil {
					yield("", opError("list", prefix, err))
					return
				}
				for _, key := range keys {
					if !yield(strings.TrimPrefix(key, s.prefix), nil) {
						return
					}
				}
				if len(next) == 0 {
					break
				}
				start = next
			}
		}
	})
}

// page returns one page of the keys of a part that begin with below.
func (s *Store) page(ctx context.Context, part, below string, start map[string]types.AttributeValue) (keys []string, next map[string]types.AttributeValue, err error) {
	in := &dynamodb.QueryInput{
		TableName:                 &s.table,
		ConsistentRead:            aws.Bool(true),
		KeyConditionExpression:    aws.String("#part = :part"),
		FilterExpression:          aws.String("attribute_not_exists(#deleted)"),
		ProjectionExpression:      aws.String("#key"),
		ExpressionAttributeNames:  map[string]string{"#part": attrPart, "#key": attrKey, "#deleted": attrDeleted},
		ExpressionAttributeValues: map[string]types.AttributeValue{":part": str(part)},
		ExclusiveStartKey:         start,
	}
	if below != "" {
		in.KeyConditionExpression = aws.String("#part = :part AND begins_with(#key, :below)")
		in.ExpressionAttributeValues[":below"] = str(below)
	}
	var out *dynamodb.QueryOutput
	err = s.repeat(ctx, func() error {
		return s.call(ctx, func(ctx context.Context, opt func(*dynamodb.Options)) (err error) {
			out, err = s.client.Query(ctx, in, opt)
			return err
		})
	})
	if err != nil {
		return nil, nil, err
	}
	for _, it := range out.Items {
		if key, ok := it[attrKey].(*types.AttributeValueMemberS); ok {
			keys = append(keys, key.Value)
		}
	}
	return keys, out.LastEvaluatedKey, nil
}

func opError(op, key string, err error) error {
	return &store.OpError{Op: op, Key: key, Err: err}
}
