package integration_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/examples/table"
	"github.com/holdfast-go/holdfast/examples/table/tabletest"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/object"
)

// tableVar makes the test binary a process that keeps a table; its value is a tableJob.
const tableVar = "HOLDFAST_TEST_TABLE"

type tableJob struct {
	Target target
	Role   string
}

func keepTable(job tableJob) error {
	tab, err := openTable(job.Target)
	if err != nil {
		return err
	}
	return tabletest.Work(context.Background(), tab, job.Role, os.Stdout)
}

// openTable opens the table, and its locks, in one bucket.
func openTable(a target) (*table.Table, error) {
	bucket, err := a.bucket(nil)
	if err != nil {
		return nil, err
	}
	client, err := object.New(bucket, nil)
	if err != nil {
		return nil, err
	}
	locks, err := a.open(context.Background())
	if err != nil {
		return nil, err
	}
	leases, err := lease.New(locks, &lease.Options{TTL: 5 * time.Second})
	if err != nil {
		return nil, err
	}
	return table.Open(client, leases, "orders")
}

// TestTableKilledAtRandom kills the writers, compactors and readers of the example's table
// on real servers.
func TestTableKilledAtRandom(t *testing.T) {
	t.Parallel()
	d := 8 * time.Second
	if torture() {
		d = 3 * time.Minute
	}
	for name, server := range s3Servers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server(t)
			a := target{Kind: "s3", S3: s, Space: s.NewBucket(t, false), Prefix: "locks"}
			command := func(role string) *exec.Cmd {
				config, err := json.Marshal(tableJob{a, role})
				if err != nil {
					t.Fatal(err)
				}
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), tableVar+"="+string(config))
				return cmd
			}
			tabletest.Run(t, func() (*table.Table, error) { return openTable(a) }, command, d)
		})
	}
}
