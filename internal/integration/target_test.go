package integration_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/integration/servers"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// target is a store on a server, in a form that another process can be given.
type target struct {
	Kind   string // "file"
	S3     servers.S3
	Dynamo servers.Dynamo
	Space  string // the bucket or the table
}

// open opens the store. The space exists.
func (a target) open(ctx context.Context) (store.Store, error) {
	switch a.Kind {
	case "file":
		return filestore.Open(a.Space, nil)
	}
	return nil, fmt.Errorf("no store of kind %q", a.Kind)
}

// endpoint is the address of the server; at is the same store behind another one.
func (a target) endpoint() string { return a.S3.Endpoint + a.Dynamo.Endpoint }

func (a target) at(endpoint string) target {
	return a
}

type namedTarget struct {
	name   string
	ttl    time.Duration
	target func(t *testing.T) target // with a space of its own
}

// targets are the stores that the tests run on.
func targets() []namedTarget {
	return []namedTarget{
		{"file", 2 * time.Second, func(t *testing.T) target {
			return target{Kind: "file", Space: t.TempDir(), S3: servers.S3{Endpoint: "http://127.0.0.1:1"}}
		}},
	}
}
