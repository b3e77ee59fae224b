// Command bench measures Holdfast beside other libraries in one run, on the same
// machine and the same servers, and prints tables in Markdown.
//
//	go run . [-only files|s3|dynamodb] [-for 3s] [-dir DIR]
//
// Requests are counted exactly. Times depend on the machine; what counts is their
// ratio to one raw request, or to two raw appends, of the same run.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/internal/integration/servers"
)

func main() {
	only := flag.String("only", "", "measure only `what`: files, s3 or dynamodb")
	d := flag.Duration("for", 3*time.Second, "how long each measurement takes")
	dir := flag.String("dir", os.TempDir(), "the `directory` whose file system is measured")
	config := flag.String("worker", "", "run as a worker (used by this program itself)")
	flag.Parse()
	if *config != "" {
		if err := work(os.Stdin, os.Stdout, *config); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(1)
		}
		return
	}
	if err := measure(*only, *dir, *d); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func measure(only, dir string, d time.Duration) error {
	if only == "" || only == "files" {
		if err := files(os.Stdout, dir, d); err != nil {
			return err
		}
	}
	ctx := context.Background()
	var set servers.Set
	defer set.Close()
	if only == "" || only == "s3" {
		for _, start := range []func(context.Context) (servers.S3, error){set.StartVersityGW, set.StartMinIO} {
			server, err := start(ctx)
			if err != nil {
				return err
			}
			if err := s3(ctx, os.Stdout, server, d); err != nil {
				return err
			}
		}
	}
	if only == "" || only == "dynamodb" {
		server, err := set.StartDynamoDB(ctx)
		if err != nil {
			return err
		}
		return dynamo(ctx, os.Stdout, server, d)
	}
	return nil
}
