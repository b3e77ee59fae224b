package reservation

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

	"github.com/holdfast-go/holdfast/compat/reserve"
	"github.com/holdfast-go/holdfast/internal/aws/awscall"
	"github.com/holdfast-go/holdfast/internal/aws/dynamocall"
	"github.com/holdfast-go/holdfast/internal/aws/transport"
	"github.com/holdfast-go/holdfast/store"
)

// DefaultTimeout is the default of [Options].Timeout.
const DefaultTimeout = 3 * time.Second

// maxKey is the longest sort key of DynamoDB, in bytes; the longest partition key is
// longer than the longest key of an object.
const maxKey = 1024

// Options are the options of [New].
type Options struct {
	// Timeout is the longest time of one request to the table, at least 100 ms; 0 means
	// [DefaultTimeout]. If a request gets no answer, package reserve repeats the request.
	Timeout time.Duration

	// Logger receives messages about the connections. Nil means no log.
	Logger *slog.Logger
}

// Table is a DynamoDB table with the schema of object_store. It implements [reserve.Table]. Any
// number of goroutines may use it. It starts no goroutine, and needs no Close.
type Table struct{ t *dynamocall.Table }

// New returns the table with this name. The Table sends its requests through the given client. New
// sends no request. To check the table, call [Table.Describe] and [Table.Verify].
func New(client *dynamodb.Client, name string, opts *Options) (*Table, error) {
	o := *cmp.Or(opts, &Options{})
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Timeout < 100*time.Millisecond {
		return nil, fmt.Errorf("reservation: %w: Options.Timeout is %v, at least 100ms is needed", store.ErrInvalid, o.Timeout)
	}
	t, err := dynamocall.New(client, name, dynamocall.Strings(attrPath, attrETag), o.Timeout, o.Logger)
	if err != nil {
		return nil, fmt.Errorf("reservation: %w: %w", store.ErrInvalid, err)
	}
	return &Table{t}, nil
}

// Insert implements [reserve.Table], by one PutItem.
func (t *Table) Insert(ctx context.Context, row reserve.Row) (reserve.WriteResult, error) {
	return t.put(ctx, row, &dynamodb.PutItemInput{
		ConditionExpression:      aws.String("attribute_not_exists(#path)"),
		ExpressionAttributeNames: map[string]string{"#path": attrPath},
	})
}

// Replace implements [reserve.Table], by one PutItem. The condition is that the row in the table
// has the generation, the ttl and the nonce of the row that the caller has seen. If that row has no
// ttl or no nonce, the row in the table must have none either.
func (t *Table) Replace(ctx context.Context, seen, row reserve.Row) (reserve.WriteResult, error) {
	in := &dynamodb.PutItemInput{
		ConditionExpression:       aws.String("attribute_exists(#path) AND #generation = :generation"),
		ExpressionAttributeNames:  map[string]string{"#path": attrPath, "#generation": attrGeneration},
		ExpressionAttributeValues: map[string]types.AttributeValue{":generation": number(seen.Generation)},
	}
	also := func(name string, value types.AttributeValue) {
		in.ExpressionAttributeNames["#"+name] = name
		if value == nil {
			*in.ConditionExpression += " AND attribute_not_exists(#" + name + ")"
			return
		}
		*in.ConditionExpression += " AND #" + name + " = :" + name
		in.ExpressionAttributeValues[":"+name] = value
	}
	also(attrTTL, ttlOf(seen))
	var nonce types.AttributeValue
	if seen.Nonce != "" {
		nonce = text(seen.Nonce)
	}
	also(attrNonce, nonce)
	return t.put(ctx, row, in)
}

func (t *Table) put(ctx context.Context, row reserve.Row, in *dynamodb.PutItemInput) (reserve.WriteResult, error) {
	item, err := encode(row)
	if err != nil {
		return reserve.WriteResult{}, err
	}
	in.TableName, in.Item = &t.t.Name, item
	in.ReturnValuesOnConditionCheckFailure = types.ReturnValuesOnConditionCheckFailureAllOld
	now, err := t.t.CallAt(ctx, func(ctx context.Context, opt func(*dynamodb.Options)) error {
		_, err := t.t.Client.PutItem(ctx, in, opt)
		return err
	})
	placed := reserve.WriteResult{Tag: fmt.Sprint(row.TTL), Now: now}
	var refused *types.ConditionalCheckFailedException
	if !errors.As(err, &refused) {
		return placed, err
	}
	met := &reserve.ConflictError{HasRow: len(refused.Item) > 0}
	inserts := in.ExpressionAttributeValues == nil
	switch {
	case met.HasRow:
		met.Row, err = decode(refused.Item)
	case inserts:
		err = fmt.Errorf("%w: the server does not return the item when a condition fails (ALL_OLD)", store.ErrMisconfigured)
	default:
		err = nil
	}
	if err == nil && met.HasRow && (met.Row.Key != row.Key || met.Row.Version != row.Version) {
		err = fmt.Errorf("%w: the table returned an item with another path or etag; the keys of the table must be %s and %s", store.ErrMisconfigured, attrPath, attrETag)
	}
	if err != nil {
		return reserve.WriteResult{}, store.MarkNotApplied(fmt.Errorf("%s: %w", t.t.Where, err))
	}
	return reserve.WriteResult{}, met
}

// maxPage is the most bytes of items in an answer to a Scan, as DynamoDB counts them: 1 MiB,
// and the item that exceeds that.
const maxPage = 1<<20 + 400<<10

// Rows implements [reserve.Lister], by consistent Scans of at most 1 MiB each. It does not yield
// items that [Table.Verify] has left.
func (t *Table) Rows(ctx context.Context) iter.Seq2[reserve.Row, error] {
	return func(yield func(reserve.Row, error) bool) {
		in := &dynamodb.ScanInput{TableName: &t.t.Name, ConsistentRead: aws.Bool(true)}
		pages := awscall.Pages{Endless: true}
		for {
			out, err := dynamocall.Send(transport.ExpectItems(ctx, maxPage), t.t.Repeat, t.t.Client.Scan, in)
			if err == nil && len(out.LastEvaluatedKey) > 0 {
				err = pages.Next(fmt.Sprint(out.LastEvaluatedKey[attrPath], out.LastEvaluatedKey[attrETag]), len(out.Items))
			}
			if err != nil {
				yield(reserve.Row{}, err)
				return
			}
			for _, item := range out.Items {
				row, err := decode(item)
				if err != nil {
					err = fmt.Errorf("%s: %w", t.t.Where, err)
				}
				if !strings.HasPrefix(row.Key, probes) && !yield(row, err) {
					return
				}
			}
			if in.ExclusiveStartKey = out.LastEvaluatedKey; len(in.ExclusiveStartKey) == 0 {
				return
			}
		}
	}
}

// Description contains the properties of a table.
type Description struct {
	Status string // "ACTIVE", "CREATING", ...

	// KeysValid says that the table has the primary key that object_store needs. Keys describes the
	// primary key of the table.
	KeysValid bool
	Keys      string

	// TTL is the attribute by which the table removes expired items. It must be "ttl". It is empty
	// if the table removes no items. If Describe could not read TTL, TTLErr is the error.
	TTL    string
	TTLErr error

	// Replicas are the other regions of a global table. StronglyConsistent says that all regions
	// have the same order of writes. If it is false, writers of two regions do not exclude each
	// other.
	Replicas           []string
	StronglyConsistent bool
}

// Describe reads the properties of the table, in two requests.
func (t *Table) Describe(ctx context.Context) (Description, error) {
	found, err := t.t.Describe(ctx)
	if err != nil {
		return Description{}, err
	}
	d := Description{Status: found.Status, KeysValid: found.KeysValid, Keys: found.Keys, Replicas: found.Replicas, StronglyConsistent: found.StronglyConsistent}
	d.TTL, d.TTLErr = t.t.TTL(ctx)
	return d, nil
}

// Verify tests with three requests whether the server checks the conditions of writes. It leaves
// one item with a random path in the table. The table's TTL removes the item after an hour. If the
// server ignores a condition, the error matches store.ErrUnsafe.
func (t *Table) Verify(ctx context.Context) error {
	row := probe()
	unsafe := func(what string) error {
		return fmt.Errorf("%w: %s: %s; two writers could have the same reservation", store.ErrUnsafe, t.t.Where, what)
	}
	if _, err := t.Insert(ctx, row); err != nil && store.OutcomeOf(err) == store.NotApplied {
		return err
	}
	met := new(reserve.ConflictError)
	again := row
	again.Nonce += "2"
	switch _, err := t.Insert(ctx, again); {
	case err == nil:
		return unsafe("the server overwrote an existing item although the write was conditional")
	case !errors.As(err, &met):
		return err
	}
	old := met.Row
	old.Generation--
	switch _, err := t.Replace(ctx, old, again); {
	case err == nil:
		return unsafe("the server replaced an item of another generation although the write was conditional")
	case !errors.As(err, &met):
		return err
	case met.Row.Nonce != row.Nonce:
		return unsafe("the server reported that a condition failed, but wrote the item")
	}
	return nil
}

// CreateTable creates a table for reservations, with on-demand billing. The table removes expired
// items by their attribute "ttl". If a table with this name exists, CreateTable only enables the
// removal of expired items. If the existing table has other keys, or removes items by another
// attribute, the error matches store.ErrMisconfigured. Of the options, CreateTable uses only
// Timeout.
func CreateTable(ctx context.Context, client *dynamodb.Client, name string, opts *Options) error {
	t, err := New(client, name, opts)
	if err != nil {
		return err
	}
	if err := t.t.Create(ctx); err != nil {
		return err
	}
	removes, err := t.t.TTL(ctx)
	switch {
	case err == nil && removes == attrTTL:
		return nil
	case err == nil && removes != "":
		return fmt.Errorf("%w: %s removes items by the attribute %q, but Holdfast needs the attribute %q. Turn off the removal by %[3]q, or use another table", store.ErrMisconfigured, t.t.Where, removes, attrTTL)
	}
	_, err = dynamocall.Send(ctx, t.t.Repeat, client.UpdateTimeToLive, &dynamodb.UpdateTimeToLiveInput{
		TableName:               &name,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(attrTTL), Enabled: aws.Bool(true)},
	})
	if err != nil {
		// Another program has done so meanwhile, or the reply of a first try was lost.
		if removes, again := t.t.TTL(ctx); again == nil && removes == attrTTL {
			return nil
		}
		return fmt.Errorf("the table exists, but the removal of expired items could not be turned on: %w", err)
	}
	return nil
}
