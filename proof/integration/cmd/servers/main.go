// Command servers starts the S3 and DynamoDB servers of the integration tests and prints how to reach
// them. When the user types Ctrl-C, the command stops the servers and removes their data.
//
// With -prepare, the command only builds and downloads the servers, and shows the progress of this.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/holdfast-go/holdfast/proof/integration/servers"
)

func main() {
	prepare := flag.Bool("prepare", false, "build and fetch the servers, start none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := serve
	if *prepare {
		run = servers.Prepare
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "servers:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context) error {
	var set servers.Set
	defer set.Close()
	versity, err := set.StartVersityGW(ctx)
	if err != nil {
		return err
	}
	minio, err := set.StartMinIO(ctx)
	if err != nil {
		return err
	}
	dynamo, err := set.StartDynamoDB(ctx)
	if err != nil {
		return err
	}
	for _, s := range []servers.S3{versity, minio} {
		if err := s.CreateBucket(ctx, "plain", false); err != nil {
			return err
		}
		if err := s.CreateBucket(ctx, "versioned", true); err != nil {
			return err
		}
		print(s.Name, s.Env(),
			fmt.Sprintf("s3://plain?endpoint=%s&path_style=true", s.Endpoint),
			fmt.Sprintf("s3+versioned://versioned?endpoint=%s&path_style=true", s.Endpoint))
	}
	print("DynamoDB Local", dynamo.Env(), "dynamodb://TABLE?endpoint="+dynamo.Endpoint)
	fmt.Fprintln(os.Stderr, "servers: ready; Ctrl-C ends them")
	<-ctx.Done()
	return nil
}

// print writes a server as lines that a shell can read.
func print(name string, env []string, urls ...string) {
	fmt.Printf("# %s\n", name)
	for _, url := range urls {
		fmt.Printf("#   %s\n", url)
	}
	fmt.Printf("export %s\n\n", strings.Join(env, " "))
}
