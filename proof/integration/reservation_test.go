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

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/compat/reservation"
	"github.com/holdfast-go/holdfast/compat/reserve"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// TestReservationsOnDynamoDB plays the requests of object_store byte for byte against
// DynamoDB, together with ours, in both directions.
func TestReservationsOnDynamoDB(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	const timeout, ours = 200 * time.Millisecond, 20 * time.Second
	other := &awstest.ObjectStore{Client: http.DefaultClient, Endpoint: s.dynamo.Endpoint, Table: s.table}
	r := s.reserver(t, ours)
	exists := func(context.Context) error { return nil }

	table, err := reservation.New(s.dynamo.Client(), s.table, nil)
	if err != nil {
		t.Fatal(err)
	}
	if found, err := table.Describe(t.Context()); err != nil || !found.KeysValid || found.TTL != "ttl" {
		t.Errorf("the table is %+v, %v", found, err)
	}
	if err := table.Verify(t.Context()); err != nil {
		t.Error(err)
	}

	t.Run("ours after theirs", func(t *testing.T) {
		const key, etag = `sp ace/%C3%BC"<&`, `"v\"`
		if _, err := other.Acquire(t.Context(), key, etag, timeout, nil); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := r.Do(t.Context(), key, etag, exists, exists); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(start); waited <= 3*timeout {
			t.Errorf("it waited %v", waited)
		}
		if l, err := other.Acquire(t.Context(), key, etag, timeout, nil); err != awstest.ErrLeased || l != (awstest.Lease{Generation: 1, Timeout: ours}) {
			t.Errorf("got %+v, %v", l, err)
		}
	})
	t.Run("theirs after ours", func(t *testing.T) {
		const key = "theirs after ours"
		failed := store.MarkNotApplied(errors.New("not applied"))
		var met awstest.Lease
		err := r.Do(t.Context(), key, "", exists, func(context.Context) (err error) {
			if met, err = other.Acquire(t.Context(), key, "*", timeout, nil); err != awstest.ErrLeased || met.Timeout != ours {
				t.Errorf("got %+v, %v", met, err)
			}
			return failed
		})
		if err != failed {
			t.Fatal(err)
		}
		if _, err := other.Acquire(t.Context(), key, "*", timeout, &met); err != awstest.ErrLeased {
			t.Errorf("it took over what has changed: %v", err)
		}
		free, err := other.Acquire(t.Context(), key, "*", timeout, nil)
		if err != awstest.ErrLeased || free.Timeout != 0 || free.Generation != met.Generation+1 {
			t.Errorf("after the release: %+v, %v", free, err)
		}
		if _, err := other.Acquire(t.Context(), key, "*", timeout, &free); err != nil {
			t.Error(err)
		}
		if _, err := other.Acquire(t.Context(), key, "*", timeout, &free); err != awstest.ErrLeased {
			t.Errorf("it took over twice: %v", err)
		}
	})
	t.Run("foreign items", func(t *testing.T) {
		for _, c := range []struct {
			name  string
			value types.AttributeValue
			want  error
		}{
			{"note", &types.AttributeValueMemberS{Value: `"`}, nil},
			{"flag", &types.AttributeValueMemberBOOL{Value: true}, nil},
			{"size", &types.AttributeValueMemberN{Value: "-1.5"}, nil},
			{"generation", &types.AttributeValueMemberS{Value: "7"}, store.ErrCorrupt},
			{"generation", &types.AttributeValueMemberN{Value: "7.5"}, store.ErrCorrupt},
			{"generation", &types.AttributeValueMemberN{Value: "36893488147419103232"}, store.ErrCorrupt},
			{"timeout", &types.AttributeValueMemberNULL{Value: true}, store.ErrCorrupt},
		} {
			key := fmt.Sprintf("foreign/%s/%T", c.name, c.value)
			item := map[string]types.AttributeValue{
				"path": &types.AttributeValueMemberS{Value: key}, "etag": &types.AttributeValueMemberS{Value: "*"},
				"generation": &types.AttributeValueMemberN{Value: "7"}, "timeout": &types.AttributeValueMemberN{Value: "0"},
				"ttl": &types.AttributeValueMemberN{Value: "1795287367"},
			}
			item[c.name] = c.value
			if _, err := s.dynamo.Client().PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(s.table), Item: item}); err != nil {
				t.Fatal(err)
			}
			if err := r.Do(t.Context(), key, "", exists, exists); !errors.Is(err, c.want) || err != nil && c.want == nil {
				t.Errorf("%s: %v", key, err)
			}
		}
	})
	t.Run("a table of another shape", func(t *testing.T) {
		input := &dynamodb.CreateTableInput{
			TableName: aws.String(s.table + "-other"), BillingMode: types.BillingModePayPerRequest,
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
			KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
		}
		if _, err := s.dynamo.Client().CreateTable(t.Context(), input); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{s.table + "-other", s.table + "-none"} {
			table, err := reservation.New(s.dynamo.Client(), name, nil)
			if err != nil {
				t.Fatal(err)
			}
			r, err := reserve.New(table, nil)
			if err != nil {
				t.Fatal(err)
			}
			err = r.Do(t.Context(), "k", "", exists, exists)
			if !errors.Is(err, store.ErrMisconfigured) || store.OutcomeOf(err) != store.NotApplied {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestWritesUnderReservations: each conditional write of a client costs what it costs
// without, and a check and one row. An update of a bare version reads the object first, for
// the ids of the writes before it.
func TestWritesUnderReservations(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	for _, conditions := range []bool{true, false} {
		o := s.newOurs(t, 20*time.Second, conditions)
		dir := fmt.Sprint(conditions, "/")
		if _, err := o.client.Strategies(t.Context()); err != nil { // it tries what the server honours, once
			t.Fatal(err)
		}
		cost := func(what string, want [3]int64, words ...string) result {
			t.Helper()
			s.count()
			r := o.do(words...)
			if got := s.count(); r.word != "ok" || got != want {
				t.Errorf("conditions %v, %s: %+v; %v checks, writes and rows, want %v", conditions, what, r, got, want)
			}
			return r
		}
		v := cost("create", [3]int64{1, 1, 1}, "create", dir+"k", "1")
		v = cost("update", [3]int64{2, 1, 1}, "update", dir+"k", v.etag, "2")
		cost("update again", [3]int64{2, 1, 1}, "update", dir+"k", v.etag, "3")
		if r := o.do("update", dir+"k", v.etag, "4"); r.word != "precondition" {
			t.Errorf("on an old state: %+v", r)
		}
		if r := o.do("create", dir+"k", "4"); r.word != "exists" {
			t.Errorf("what is there: %+v", r)
		}
		for _, words := range [][]string{{"copy", dir + "k", dir + "l"}, {"rename", dir + "l", dir + "m"}} {
			if r := o.do(words...); r.word != "ok" {
				t.Errorf("%q: %+v", words, r)
			}
			if r := o.do(words[0], dir+"k", words[2]); r.word != "exists" {
				t.Errorf("%q, to what is there: %+v", words, r)
			}
		}
		if r := o.do("get", dir+"m"); r.body != "3" {
			t.Errorf("got %+v", r)
		}
		if r := o.do("get", dir+"l"); r.word != "notfound" {
			t.Errorf("the source of the rename: %+v", r)
		}
		info, err := o.client.Stat(t.Context(), dir+"m")
		if err != nil {
			t.Fatal(err)
		}
		if err := o.client.Delete(t.Context(), dir+"m", &object.WriteOptions{IfMatch: `"0123"`}); !errors.Is(err, store.ErrConflict) {
			t.Errorf("a delete of another state: %v", err)
		}
		s.count()
		if err := o.client.Delete(t.Context(), dir+"m", &object.WriteOptions{IfMatch: info.Version}); err != nil {
			t.Error(err)
		}
		if got := s.count(); got != [3]int64{1, 1, 1} {
			t.Errorf("a delete costs %v", got)
		}
		for _, step := range ladder(t, o.client) {
			if step.Strategy != object.StrategyReservation && step.Strategy != object.StrategyDownloadUpload || !conditions && step.Native {
				t.Errorf("conditions %v: %+v", conditions, step)
			}
		}
	}
}

func ladder(t *testing.T, c *object.Client) []object.AbilityStrategy {
	t.Helper()
	steps, err := c.Strategies(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var text []string
	for _, step := range steps {
		text = append(text, fmt.Sprintf("%s: %s, own condition %v", step.Ability, step.Strategy, step.Native))
	}
	t.Log(strings.Join(text, "; "))
	return steps
}
