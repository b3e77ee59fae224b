// Demo keeps a table in a directory; see package table.
//
//	go run ./examples/table/demo DIRECTORY insert ROW...
//	go run ./examples/table/demo DIRECTORY rows
//	go run ./examples/table/demo DIRECTORY compact
//
// Any number of them may run at once, and may be killed at any time.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/holdfast-go/holdfast/examples/table"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/dirbucket"
	"github.com/holdfast-go/holdfast/store/filestore"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: demo DIRECTORY insert ROW... | rows | compact")
		os.Exit(64)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir, what string, rows []string) (err error) {
	// On S3, bucket would be one of package s3bucket, and locks one of package s3store.
	bucket, err := dirbucket.Open(filepath.Join(dir, "objects"), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bucket.Close()) }()
	locks, err := filestore.Open(filepath.Join(dir, "locks"), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locks.Close()) }()

	client, err := object.New(bucket, nil)
	if err != nil {
		return err
	}
	leases, err := lease.New(locks, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leases.Close(context.WithoutCancel(ctx))) }()
	t, err := table.Open(client, leases, "demo")
	if err != nil {
		return err
	}
	switch what {
	case "insert":
		return t.Insert(ctx, rows...)
	case "compact":
		return t.Compact(ctx)
	case "rows":
		rows, err := t.Rows(ctx)
		if err == nil && len(rows) > 0 {
			fmt.Println(strings.Join(rows, "\n"))
		}
		return err
	}
	return fmt.Errorf("unknown command %q: use insert, rows or compact", what)
}
