package integration_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/store"
)

// What is set up wrongly is reported as such, at once or when patience ends, and no
// message contains a secret.
func TestClearErrors(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "http://" + listener.Addr().String()
	listener.Close()
	secret := "the-secret-that-no-message-shows"

	cases := map[string]struct {
		at   target
		want error
	}{}
	add := func(name string, at target, want error) {
		cases[name] = struct {
			at   target
			want error
		}{at, want}
	}
	for name, start := range s3Servers() {
		server := start(t)
		at := target{Kind: "s3", S3: server, Space: server.NewBucket(t, false)}
		missing, wrong, tls := at, at, at
		missing.Space = servers.Unique("missing")
		add(name+"/no such bucket", missing, store.ErrMisconfigured)
		wrong.S3.SecretKey = secret
		add(name+"/wrong secret", wrong, store.ErrDenied)
		wrong.S3.AccessKey, wrong.S3.SecretKey = "UNKNOWN", secret
		add(name+"/unknown access key", wrong, store.ErrDenied)
		tls.S3.Endpoint = strings.Replace(server.Endpoint, "http://", "https://", 1)
		add(name+"/TLS to a plain port", tls, store.ErrMisconfigured)
	}
	dynamo := target{Kind: "dynamodb", Dynamo: set.DynamoDB(t), Space: servers.Unique("missing")}
	add("dynamodb/no such table", dynamo, store.ErrMisconfigured)
	short := dynamo
	short.Space = "t1"
	add("dynamodb/no name of a table", short, store.ErrMisconfigured)
	dynamo.Space = newRawTable(t, dynamo.Dynamo).name
	add("dynamodb/another key schema", dynamo, store.ErrMisconfigured)
	dynamo.Dynamo.Endpoint = strings.Replace(dynamo.Dynamo.Endpoint, "http://", "https://", 1)
	add("dynamodb/TLS to a plain port", dynamo, store.ErrMisconfigured)
	add("s3/closed port", target{Kind: "s3", S3: servers.S3{Endpoint: closed, Region: "us-east-1", AccessKey: "a", SecretKey: secret}, Space: "bucket"}, store.ErrUnavailable)
	add("dynamodb/closed port", target{Kind: "dynamodb", Dynamo: servers.Dynamo{Endpoint: closed, Region: "us-east-1", AccessKey: "a", SecretKey: secret}, Space: "table"}, store.ErrUnavailable)

	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			st, err := tt.at.open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			c, err := lease.New(st, &lease.Options{StoreTimeout: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			_, err = c.Acquire(ctx, "job", nil)
			if !errors.Is(err, tt.want) {
				t.Errorf("got %v, want an error that matches %q", err, tt.want)
			}
			if ctx.Err() != nil {
				t.Error("it went on for 30 s")
			}
			t.Log(err)
			if strings.HasSuffix(name, "no name of a table") && !strings.Contains(err.Error(), "the name of the table is not valid") {
				t.Errorf("the message does not say what is wrong: %v", err)
			}
			if err != nil && (strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("the message has a secret, or several lines: %q", err)
			}
		})
	}
}

// A TTL attribute on the table removes nothing of ours: no attribute that we write
// is a number.
func TestTableTTLRemovesNothing(t *testing.T) {
	t.Parallel()
	k := kindNamed(t, "dynamodb")
	at := k.target(t)
	st, err := at.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := lease.New(st, nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := c.TryAcquire(t.Context(), "job", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Put(t.Context(), "number", "", []byte("1")); err != nil {
		t.Fatal(err)
	}
	out, err := at.Dynamo.Client().Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String(at.Space)})
	if err != nil || len(out.Items) < 2 {
		t.Fatalf("%d items, %v", len(out.Items), err)
	}
	for _, item := range out.Items {
		for name, value := range item {
			if _, number := value.(*types.AttributeValueMemberN); number {
				t.Errorf("the attribute %s of %v is a number: a TTL setting could remove the item", name, item["key"])
			}
		}
	}
}
