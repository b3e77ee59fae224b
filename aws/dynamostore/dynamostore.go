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

	"github.com/holdfast-go/holdfast/internal/aws/awscall"
	"github.com/holdfast-go/holdfast/internal/aws/dynamocall"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

const (
	// DefaultTimeout is the default of [Options].Timeout.
	DefaultTimeout = 3 * time.Second

	// MinTTL is the shortest useful TTL of a lease. Most requests take milliseconds, but a few take
	// a second.
	MinTTL = 2 * time.Second

	// MaxPrefix is the longest prefix, in bytes.
	MaxPrefix = dynamocall.MaxPrefix
)

// Options are the options of [New].
type Options struct {
	// Prefix is empty, or a valid key of at most [MaxPrefix] bytes. Every key in the table begins
	// with Prefix and a slash.
	Prefix string

	// Timeout is the longest time of one request. If the context of the call has a deadline, a
	// request gets at most half of the remaining time, but at least 500 ms. The other half is for a
	// read that finds the outcome after a lost answer. Timeout is at least 100 ms; 0 means
	// [DefaultTimeout].
	Timeout time.Duration

	// Trusted says that an earlier run, or the command "holdfast doctor", has checked the table.
	Trusted bool

	// Unsafe lists the risks that the user accepts; see [Risk].
	Unsafe []Risk

	// OnVerified, if not nil, is called when the table has passed the checks. The program can store
	// this result, and set Trusted in a later run.
	OnVerified func()

	// Logger receives the outcomes of writes whose reply was lost, and the results of the checks.
	// Nil means no log.
	Logger *slog.Logger
}

// Store contains the registers below one prefix in a table. Any number of goroutines may use it. It
// starts no goroutine, and needs no Close. [engine.Store] describes its methods and the outcomes of
// writes.
type Store struct {
	*engine.Store
	t *table
}

// table carries out single requests for the engine, and looks at the table.
type table struct {
	*dynamocall.Table
	prefix string // ends with a slash unless it is empty
	o      Options
}

// New returns a Store for the table with this name. The Store sends its requests through the given
// client. New sends no request. The ID in the traits of the Store consists of the endpoint, the
// region and the table, without the account. If you use tables of several accounts, use the ARN of
// each table as its name.
func New(client *dynamodb.Client, name string, opts *Options) (*Store, error) {
	t, err := newTable(client, name, opts)
	if err != nil {
		return nil, err
	}
	onAWS := dynamocall.IsAWS(client.Options())
	registers, err := engine.New(t, &engine.Options{
		Traits: store.Traits{
			Name:                 strings.TrimSuffix("dynamodb://"+name+"/"+t.prefix, "/"),
			ID:                   dynamocall.ID(client.Options(), name),
			Prefix:               t.prefix,
			ConflictCarriesState: true,
			Trusted:              onAWS || t.o.Trusted,
			MinTTL:               MinTTL,
		},
		Trusted:             t.o.Trusted,
		Numbered:            true,
		ReadTries:           dynamocall.Tries,
		Pause:               dynamocall.FirstPause,
		Check:               t.check,
		TrustConditions:     onAWS,
		OnConditionsIgnored: t.refuse,
		OnVerified:          t.o.OnVerified,
		Logger:              t.o.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("dynamostore: %w", err)
	}
	return &Store{registers, t}, nil
}

func newTable(client *dynamodb.Client, name string, opts *Options) (*table, error) {
	o := *cmp.Or(opts, &Options{})
	below, err := o.check()
	if err != nil {
		return nil, err
	}
	calls, err := dynamocall.New(client, name, keys(), o.Timeout, o.Logger)
	if err != nil {
		return nil, fmt.Errorf("dynamostore: %w", err)
	}
	return &table{Table: calls, prefix: below, o: o}, nil
}

func (o *Options) check() (below string, err error) {
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Prefix = strings.TrimSuffix(o.Prefix, "/")
	for _, l := range o.Unsafe {
		if l != ConditionsIgnored && l != GlobalTable {
			return "", fmt.Errorf("dynamostore: %w: Options.Unsafe: %q is unknown", store.ErrInvalid, l)
		}
	}
	return dynamocall.CheckOptions(o.Timeout, o.Prefix)
}

// Read implements [engine.Driver], by one consistent GetItem.
func (t *table) Read(ctx context.Context, key string, _ engine.Tag) (engine.Stored, error) {
	item, err := t.get(ctx, key)
	if err != nil {
		return engine.Stored{}, err
	}
	return decodeItem(item)
}

// ReadRaw implements [engine.RawReader]. A condition can name an item whose version is a
// string.
func (t *table) ReadRaw(ctx context.Context, key string) (body []byte, on engine.Stored, err error) {
	item, err := t.get(ctx, key)
	if err != nil {
		return nil, on, err
	}
	if id, ok := item[attrVersion].(*types.AttributeValueMemberS); ok {
		on.Nonce = id.Value
	}
	body, err = readable(item)
	return body, on, err
}

func (t *table) get(ctx context.Context, key string) (map[string]types.AttributeValue, error) {
	out, err := dynamocall.Send(ctx, t.Call, t.Client.GetItem, &dynamodb.GetItemInput{
		TableName:      &t.Name,
		Key:            t.itemKey(key),
		ConsistentRead: aws.Bool(true),
	})
	if err == nil && len(out.Item) == 0 {
		err = store.ErrNotFound
	}
	return out.Item, err
}

// Write implements [engine.Driver], by one conditional PutItem that asks for the item
// which it meets.
func (t *table) Write(ctx context.Context, key string, on engine.Stored, e engine.Envelope) (engine.Tag, error) {
	in := &dynamodb.PutItemInput{
		TableName:                           &t.Name,
		Item:                                t.encode(key, e),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		ConditionExpression:                 aws.String("attribute_not_exists(#key)"),
		ExpressionAttributeNames:            map[string]string{"#key": attrKey},
	}
	if !on.Absent() {
		in.ConditionExpression = aws.String("#version = :base")
		in.ExpressionAttributeNames = map[string]string{"#version": attrVersion}
		in.ExpressionAttributeValues = map[string]types.AttributeValue{":base": str(on.ID())}
	}
	_, err := dynamocall.Send(ctx, t.Call, t.Client.PutItem, in)
	var refused *types.ConditionalCheckFailedException
	switch {
	case errors.As(err, &refused) && len(refused.Item) > 0:
		met, err := decodeItem(refused.Item)
		if err != nil {
			return "", store.MarkNotApplied(err)
		}
		return "", &engine.ConditionFailedError{HasCurrent: true, Current: met}
	case errors.As(err, &refused):
		return "", &engine.ConditionFailedError{} // nothing is there, or the server does not tell
	case errors.Is(err, store.ErrUnavailable) && store.OutcomeOf(err) == store.NotApplied:
		return "", fmt.Errorf("%w: %w", engine.ErrBusy, err)
	}
	return "", err
}

// Remove implements [engine.Remover].
func (t *table) Remove(ctx context.Context, key string) error {
	_, err := dynamocall.Send(ctx, t.Call, t.Client.DeleteItem, &dynamodb.DeleteItemInput{TableName: &t.Name, Key: t.itemKey(key)})
	return err
}

// List implements [engine.Driver]. It costs at least one query for each of the sixteen
// parts, and holds a page at a time. More names than 32 MiB hold (each takes its length
// and 16 bytes) end it with an error.
func (t *table) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return awscall.BoundNames(func(yield func(string, error) bool) {
		below := t.prefix
		if prefix != "" {
			below += prefix + "/"
		}
		for _, part := range parts {
			var start map[string]types.AttributeValue
			var pages awscall.Pages
			for {
				keys, next, err := t.page(ctx, string(part), below, start)
				if err == nil && len(next) > 0 {
					last, _ := next[attrKey].(*types.AttributeValueMemberS)
					if last == nil {
						last = new(types.AttributeValueMemberS)
					}
					err = pages.Next(last.Value, len(keys))
				}
				if err != nil {
					yield("", err)
					return
				}
				for _, key := range keys {
					name := strings.TrimPrefix(key, t.prefix)
					if store.CheckKey(name) == nil && !yield(name, nil) { // an item of others may have no valid key
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
func (t *table) page(ctx context.Context, part, below string, start map[string]types.AttributeValue) (keys []string, next map[string]types.AttributeValue, err error) {
	in := &dynamodb.QueryInput{
		TableName:                 &t.Name,
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
	out, err := dynamocall.Send(ctx, t.Repeat, t.Client.Query, in)
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
