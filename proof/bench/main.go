// Command bench compares Holdfast with other libraries in one run, on the same machine and the
// same servers, and prints tables in Markdown.
//
//	go run . [-only files|startup|s3|transfers|items|dynamodb|postgresql|mysql|redis|etcd|nats|azure|sessions] [-for 2s] [-dir DIR] [-size MIB] [-rounds N]
//	go run . -only dynamodb -wait-only -wait 10m -waiters 100
//
// The module is not part of the workspace: set GOWORK=off, as make bench does.
//
// The counts of requests are exact. Times depend on the machine, so compare each time with that
// of one raw request, or of two raw appends, in the same run.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/proof/integration/servers"
)

// run is how long and how much is measured.
type run struct {
	each     time.Duration // a measurement of times
	window   time.Duration // many programs use one lock for this time
	wait     time.Duration // of the waiters that wait long
	waiters  int           // of each library
	waitOnly bool          // measure nothing but waiting
	rounds   int           // a large body is put and got so often
	part     string        // of the sessions: measure this alone

	last []func(w io.Writer) error
}

// later puts off what mostly sleeps: all of that is measured at the same time, after all
// else.
func (r *run) later(measure func(w io.Writer) error) { r.last = append(r.last, measure) }

// finish measures what was put off.
func (r *run) finish(w io.Writer) error {
	out := make([]bytes.Buffer, len(r.last))
	_, err := together(len(r.last), func(i int) error { return r.last[i](&out[i]) })
	for i := range out {
		if _, err := out[i].WriteTo(w); err != nil {
			return err
		}
	}
	return err
}

func main() {
	var r run
	only := flag.String("only", "", "measure only `what`: files, startup, s3, transfers, items, dynamodb, postgresql, mysql, redis, etcd, nats, azure or sessions")
	size := flag.Int64("size", 128, "how many `MiB` a large object has")
	flag.DurationVar(&r.each, "for", 2*time.Second, "how long each measurement takes")
	flag.DurationVar(&r.window, "window", 20*time.Second, "how long many programs use one lock")
	flag.DurationVar(&r.wait, "wait", 3*time.Minute, "how long those waiters wait that wait long")
	flag.IntVar(&r.waiters, "waiters", 24, "how many wait through each library; at most 80 on PostgreSQL")
	flag.BoolVar(&r.waitOnly, "wait-only", false, "on DynamoDB, PostgreSQL, MariaDB, Redis, etcd, NATS and Azurite: measure nothing but waiting")
	flag.IntVar(&r.rounds, "rounds", 9, "how often a large object is put and got")
	flag.StringVar(&r.part, "part", "", "of the sessions, measure only `what`: holding, takeover, contention, readers or cycles")
	dir := flag.String("dir", os.TempDir(), "the `directory` whose file system is measured")
	do := func(io.Reader, io.Writer) error { return measure(*only, *dir, *size<<20, &r) }
	flag.Func("worker", "run as a worker (used by this program itself)", func(config string) error {
		var t task
		do = t.run
		return json.Unmarshal([]byte(config), &t)
	})
	flag.Func("errand", "run as a member of many (used by this program itself)", func(config string) error {
		var e errand
		do = e.run
		return json.Unmarshal([]byte(config), &e)
	})
	flag.Parse()
	if err := do(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func measure(only, dir string, size int64, r *run) error {
	ctx := context.Background()
	var set servers.Set
	defer set.Close()
	temp, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	var ends []func()
	defer func() {
		for _, end := range ends {
			end()
		}
	}()
	onS3 := func(measure func(servers.S3) error) func() error {
		return func() error {
			for _, start := range []func(context.Context) (servers.S3, error){set.StartVersityGW, set.StartMinIO} {
				server, err := start(ctx)
				if err == nil {
					err = measure(server)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}
	}
	for _, part := range []struct {
		name    string
		measure func() error
	}{
		{"files", func() error { return files(os.Stdout, dir, r) }},
		{"startup", func() error { return startup(os.Stdout, dir, r) }},
		{"s3", onS3(func(server servers.S3) error { return s3(ctx, os.Stdout, server, r) })},
		{"transfers", onS3(func(server servers.S3) error { return transfers(ctx, os.Stdout, server, temp, size, r) })},
		{"items", func() error {
			db, err := set.StartDynamoDB(ctx)
			if err != nil {
				return err
			}
			server, err := set.StartVersityGW(ctx)
			if err != nil {
				return err
			}
			return largeItems(ctx, os.Stdout, db, server, r)
		}},
		{"dynamodb", func() error {
			server, err := set.StartDynamoDB(ctx)
			if err != nil {
				return err
			}
			return dynamo(ctx, os.Stdout, server, r)
		}},
		{"postgresql", func() error {
			server, err := servers.StartPostgres(ctx, temp)
			if err != nil {
				return err
			}
			ends = append(ends, server.Kill)
			return postgres(ctx, os.Stdout, server, r)
		}},
		{"mysql", func() error {
			server, err := servers.StartMariaDB(ctx, temp)
			if err != nil {
				return err
			}
			ends = append(ends, server.Kill)
			return onMySQL(ctx, os.Stdout, server, r)
		}},
		{"redis", func() error {
			server, err := servers.StartRedis(ctx, temp)
			if err != nil {
				return err
			}
			ends = append(ends, server.Kill)
			return onRedis(ctx, os.Stdout, server, r)
		}},
		{"azure", func() error {
			server, err := servers.StartAzurite(ctx, "")
			if err != nil {
				return err
			}
			ends = append(ends, server.Kill)
			return azure(ctx, os.Stdout, server, r)
		}},
		{"etcd", func() error {
			server, err := startEtcd(ctx, temp)
			if err != nil {
				return err
			}
			ends = append(ends, server.Kill)
			return quorum(ctx, os.Stdout, "etcd", server.Address(), r, kindEtcdStore, kindEtcdMutex)
		}},
		{"nats", func() error {
			members, err := servers.StartNATS(ctx, temp, 1, "")
			for _, m := range members {
				ends = append(ends, m.Kill)
			}
			if err != nil {
				return err
			}
			return quorum(ctx, os.Stdout, "NATS", members[0].Address(), r, kindNATSStore, kindKVCreate)
		}},
		{"sessions", func() error {
			server, err := set.StartVersityGW(ctx)
			if err != nil {
				return err
			}
			return coordination(ctx, os.Stdout, dir, server, r)
		}},
		{"", func() error { return r.finish(os.Stdout) }},
	} {
		if only != "" && part.name != "" && only != part.name {
			continue
		}
		began := time.Now()
		if err := part.measure(); err != nil {
			return fmt.Errorf("%s: %w", cmp.Or(part.name, "waiting"), err)
		}
		fmt.Fprintf(os.Stderr, "%s: %.0f s\n", cmp.Or(part.name, "waiting"), time.Since(began).Seconds())
	}
	return nil
}
