// Package dynamocall sends single requests to one DynamoDB table, and reports their outcomes. It switches
// off the retries of the SDK.
package dynamocall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/holdfast/internal/aws/awscall"
	"github.com/holdfast-go/holdfast/internal/aws/endpoint"
	"github.com/holdfast-go/holdfast/internal/aws/transport"
	"github.com/holdfast-go/holdfast/internal/drivers/request"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

const (
	// FirstPause is the pause before [Table.Repeat] sends a request for the second time.
	FirstPause = 25 * time.Millisecond

	// Tries is the largest number of times that [Table.Repeat] sends a request.
	Tries = engine.DefaultTries
)

// Keys are the attributes of the key of a table: the partition key and, if there is one, the sort
// key.
type Keys []Key

// Key is an attribute of the key of a table.
type Key struct {
	Name string
	Type types.ScalarAttributeType
}

// Strings returns key attributes of type string with these names.
func Strings(names ...string) Keys {
	var keys Keys
	for _, name := range names {
		keys = append(keys, Key{name, types.ScalarAttributeTypeS})
	}
	return keys
}

// String describes the key attributes for people.
func (k Keys) String() string {
	var all []string
	for i, key := range k {
		all = append(all, fmt.Sprintf("%s (%s, %s)", key.Name, kinds[min(i, 1)], key.Type))
	}
	return strings.Join(all, " and ")
}

// kinds are the kinds of the first and of the second attribute of a key.
var kinds = [2]types.KeyType{types.KeyTypeHash, types.KeyTypeRange}

// Table is a DynamoDB table and the client for its requests.
type Table struct {
	Client  *dynamodb.Client
	Name    string
	Where   string        // name of the table and its endpoint, for people
	Keys    Keys          // key attributes that the table must have; nil means any
	Init    string        // command that creates such a table
	Timeout time.Duration // longest time of one request

	// Invalid is the error for a request that the server refuses as invalid. If Invalid is nil, such an
	// error says that the keys of the table are wrong.
	Invalid error

	http *transport.Client
}

// New returns a table. It sends nothing.
func New(client *dynamodb.Client, name string, keys Keys, timeout time.Duration, log *slog.Logger) (*Table, error) {
	if client == nil || name == "" {
		return nil, errors.New("a client and the name of a table are needed")
	}
	t := &Table{
		Client: client, Name: name, Where: "dynamodb://" + name, Keys: keys, Init: "holdfast init", Timeout: timeout,
		http: transport.Guard(client.Options().HTTPClient, log),
	}
	if host := endpoint.Host(base(client.Options())); host != "" {
		t.Where += " at " + host
	}
	return t, nil
}

// MaxPrefix is [request.MaxPrefix], for a store in a table.
const MaxPrefix = request.MaxPrefix

// CheckOptions does the same as [request.CheckOptions], for a store in a table.
func CheckOptions(timeout time.Duration, prefix string) (below string, err error) {
	return request.CheckOptions("dynamostore", timeout, prefix)
}

// Request is a function that sends one request with these options of the SDK.
type Request func(ctx context.Context, opt func(*dynamodb.Options)) error

// Method is a method of the client.
type Method[In, Out any] = func(context.Context, *In, ...func(*dynamodb.Options)) (*Out, error)

// Send sends a request by a method of the client. The parameter by is [Table.Call] or [Table.Repeat] of the
// table. The answer is never nil.
func Send[In, Out any](ctx context.Context, by func(context.Context, Request) error, method Method[In, Out], in *In) (out *Out, err error) {
	err = by(ctx, func(ctx context.Context, opt func(*dynamodb.Options)) (err error) {
		out, err = method(ctx, in, opt)
		return err
	})
	return cmp.Or(out, new(Out)), err
}

// Repeat sends a request that changes nothing. If the request is throttled or gets no answer, Repeat
// sends it again, at most [Tries] times in total.
func (t *Table) Repeat(ctx context.Context, f Request) error {
	return engine.Repeat(ctx, Tries, FirstPause, func() error { return t.Call(ctx, f) })
}

// Call sends one request and classifies its outcome.
func (t *Table) Call(ctx context.Context, f Request) error {
	_, err := t.CallAt(ctx, f)
	return err
}

// CallAt is like Call, and also returns the time of the answer by the server's clock. The time is
// zero if the server does not send it.
func (t *Table) CallAt(ctx context.Context, f Request) (now time.Time, err error) {
	c := awscall.New(ctx, t.Where)
	if ctx.Err() != nil {
		return time.Time{}, c.Classify(ctx.Err())
	}
	ctx, cancel := c.WithTimeout(c.Share(t.Timeout))
	defer cancel()
	err = f(ctx, func(o *dynamodb.Options) {
		o.Retryer = aws.NopRetryer{}
		o.HTTPClient = c.Watch(t.http)
		o.EnableAcceptEncodingGzip = false // the SDK would unpack it without a bound
	})
	switch {
	case c.Damaged() != nil:
		err = c.Damaged()
	case err != nil:
		err = t.classify(c, err)
	case c.Empty():
		// For the SDK that is an answer: no item, for example.
		err = c.Fail(errEmpty, store.ErrUnavailable, store.Unknown, "%v", errEmpty)
	}
	return c.Now(), err
}

var errEmpty = errors.New("the connection ended before the answer began")

// wrong returns an error of the set-up, which names the table.
func (t *Table) wrong(format string, args ...any) error {
	return fmt.Errorf("%w: %s%s", store.ErrMisconfigured, t.Where, fmt.Sprintf(format, args...))
}
