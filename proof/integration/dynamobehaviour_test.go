package integration_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/holdfast/proof/integration/faultproxy"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
)

// rawTable is one table with a string key "k", and the bare SDK without retries.
type rawTable struct {
	t    *testing.T
	c    *dynamodb.Client
	name string
}

func newRawTable(t *testing.T, server servers.Dynamo, opts ...func(*dynamodb.Options)) *rawTable {
	t.Helper()
	once := func(o *dynamodb.Options) { o.RetryMaxAttempts = 1 }
	r := &rawTable{t, server.Client(append([]func(*dynamodb.Options){once}, opts...)...), servers.Unique("table")}
	_, err := r.c.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName:            &r.name,
		BillingMode:          types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("k"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("k"), KeyType: types.KeyTypeHash}},
	})
	if err != nil {
		t.Fatalf("create a table: %v", err)
	}
	return r
}

// put writes value on a condition: prev is the value that must be there, or empty
// if nothing may be. A failed condition returns what was found.
func (r *rawTable) put(ctx context.Context, key, prev, value string) (found string, err error) {
	in := &dynamodb.PutItemInput{
		TableName:                           &r.name,
		Item:                                map[string]types.AttributeValue{"k": str(key), "v": str(value)},
		ConditionExpression:                 aws.String("attribute_not_exists(k)"),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	if prev != "" {
		in.ConditionExpression = aws.String("v = :prev")
		in.ExpressionAttributeValues = map[string]types.AttributeValue{":prev": str(prev)}
	}
	_, err = r.c.PutItem(ctx, in)
	var failed *types.ConditionalCheckFailedException
	if errors.As(err, &failed) {
		found = text(failed.Item["v"])
	}
	return found, err
}

func (r *rawTable) get(key string) string {
	out, err := r.c.GetItem(r.t.Context(), &dynamodb.GetItemInput{
		TableName: &r.name, Key: map[string]types.AttributeValue{"k": str(key)}, ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		return answer(err)
	}
	if out.Item == nil {
		return "absent"
	}
	return text(out.Item["v"])
}

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func text(v types.AttributeValue) string {
	if s, ok := v.(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return "nothing"
}

// DynamoDB Local does with conditions what DynamoDB does, as its documentation has
// it: every line here is what we rest on there.
func TestDynamoBehaviour(t *testing.T) {
	t.Parallel()
	const failed = "400 ConditionalCheckFailedException"
	for _, tt := range []struct {
		name, want string
		probe      func(r *rawTable) string
	}{
		{"create if absent: new, again", "ok, " + failed + " tells one, one", func(r *rawTable) string {
			_, err1 := r.put(r.t.Context(), "k", "", "one")
			found, err2 := r.put(r.t.Context(), "k", "", "two")
			return join(answer(err1), answer(err2)+" tells "+found, r.get("k"))
		}},
		{"create if absent, raced", "one winner, the others " + failed, func(r *rawTable) string {
			return race(r.t.Context(), 10, func(ctx context.Context, round, i int) error {
				_, err := r.put(ctx, fmt.Sprint(round), "", fmt.Sprint("v", i))
				return err
			})
		}},
		{"swap: wrong, right", "ok, " + failed + " tells one, ok, two", func(r *rawTable) string {
			_, err1 := r.put(r.t.Context(), "k", "", "one")
			found, err2 := r.put(r.t.Context(), "k", "wrong", "x")
			_, err3 := r.put(r.t.Context(), "k", "one", "two")
			return join(answer(err1), answer(err2)+" tells "+found, answer(err3), r.get("k"))
		}},
		{"swap, raced", "one winner, the others " + failed, func(r *rawTable) string {
			for i := range 10 {
				if _, err := r.put(r.t.Context(), fmt.Sprint(i), "", "start"); err != nil {
					return answer(err)
				}
			}
			return race(r.t.Context(), 10, func(ctx context.Context, round, i int) error {
				_, err := r.put(ctx, fmt.Sprint(round), "start", fmt.Sprint("v", i))
				return err
			})
		}},
		{"swap of what is not there", failed + " tells nothing, absent", func(r *rawTable) string {
			found, err := r.put(r.t.Context(), "k", "one", "two")
			return join(answer(err)+" tells "+found, r.get("k"))
		}},
		{"UpdateItem without a condition revives a deleted item", "ok, ok, new", func(r *rawTable) string {
			key := map[string]types.AttributeValue{"k": str("k")}
			_, err1 := r.c.DeleteItem(r.t.Context(), &dynamodb.DeleteItemInput{TableName: &r.name, Key: key})
			_, err2 := r.c.UpdateItem(r.t.Context(), &dynamodb.UpdateItemInput{
				TableName: &r.name, Key: key, UpdateExpression: aws.String("SET v = :v"),
				ExpressionAttributeValues: map[string]types.AttributeValue{":v": str("new")},
			})
			return join(answer(err1), answer(err2), r.get("k"))
		}},
		{"keys: 2,048 bytes, 2,049, none", "ok, 400 ValidationException, 400 ValidationException", func(r *rawTable) string {
			var got []string
			for _, n := range []int{2048, 2049, 0} {
				_, err := r.put(r.t.Context(), strings.Repeat("k", n), "", "v")
				got = append(got, answer(err))
			}
			return join(got...)
		}},
		{"an item of more than 400 KB", "400 ValidationException", func(r *rawTable) string {
			_, err := r.put(r.t.Context(), "k", "", strings.Repeat("v", 400<<10))
			return answer(err)
		}},
		{"no such table", "400 ResourceNotFoundException", func(r *rawTable) string {
			other := *r
			other.name = servers.Unique("missing")
			_, err := other.put(r.t.Context(), "k", "", "v")
			return answer(err)
		}},
		{"a table with another key", "400 ValidationException", func(r *rawTable) string {
			_, err := r.c.GetItem(r.t.Context(), &dynamodb.GetItemInput{TableName: &r.name, Key: map[string]types.AttributeValue{"other": str("k")}})
			return answer(err)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.probe(newRawTable(t, set.DynamoDB(t))); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// The control: with the SDK's own retries a conditional write whose reply was
// lost is reported as a failed condition, although it is our own write that is
// in the way. So those retries have to be off, and the outcome settled by us.
func TestSDKRetriesTurnSuccessIntoConflict(t *testing.T) {
	t.Parallel()
	lose := func(t *testing.T, endpoint string, when faultproxy.Match) *faultproxy.Proxy {
		p := faultproxy.New(t, endpoint)
		p.Inject(&faultproxy.Rule{When: when, Times: 1, Do: faultproxy.Lose()})
		return p
	}
	t.Run("dynamodb", func(t *testing.T) {
		server := set.DynamoDB(t)
		p := lose(t, server.Endpoint, faultproxy.Target("PutItem"))
		r := newRawTable(t, server.At(p.URL), func(o *dynamodb.Options) { o.RetryMaxAttempts = 3 })
		found, err := r.put(t.Context(), "k", "", "mine")
		if got, want := answer(err)+" tells "+found, "400 ConditionalCheckFailedException tells mine"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := p.Count(faultproxy.Target("PutItem")); got != 2 {
			t.Errorf("%d requests, want 2", got)
		}
	})
	for name, start := range s3Servers() {
		t.Run(name, func(t *testing.T) {
			server := start(t)
			p := lose(t, server.Endpoint, faultproxy.Header("If-None-Match"))
			r := newRaw(t, server, false)
			r.c = server.At(p.URL).Client()
			_, err := r.put("k", "mine", absent)
			if got, want := answer(err)+", "+r.get("k"), "412 PreconditionFailed, mine"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if got := p.Count(faultproxy.Header("If-None-Match")); got != 2 {
				t.Errorf("%d requests, want 2", got)
			}
		})
	}
}

// Signatures stay valid behind the proxy, for bodies of every kind: the proxy
// forwards what the client signed.
func TestProxyKeepsSignatures(t *testing.T) {
	t.Parallel()
	for name, start := range s3Servers() {
		t.Run(name, func(t *testing.T) {
			server := start(t)
			p := faultproxy.New(t, server.Endpoint)
			r := newRaw(t, server.At(p.URL), false)
			for _, key := range []string{"plain", "sp ace+%&?#=/ünï", "~tilde/(x)!'*"} {
				r.must(key, "body of "+key)
				if got := r.get(key); got != "body of "+key {
					t.Errorf("%q: got %q", key, got)
				}
			}
			large := strings.Repeat("0123456789abcdef", 3<<16) // 3 MB: with Expect: 100-continue
			r.must("large", large)
			if got := r.get("large"); got != large {
				t.Errorf("a large body came back with %d bytes, want %d", len(got), len(large))
			}
			code, h := r.headers("plain", "")
			if at, err := http.ParseTime(h.Get("Date")); code != 200 || err != nil || time.Since(at).Abs() > time.Minute {
				t.Errorf("Date behind the proxy: %q", h.Get("Date"))
			}
		})
	}
}
