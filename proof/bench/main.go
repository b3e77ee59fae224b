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
	dir      string        // its file system is measured
	temp     string        // for the servers, and for large files
	size     int64         // of a large body, in MiB

	last []func(w io.Writer) error
	ends []func() // of servers
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
	flag.Int64Var(&r.size, "size", 128, "how many `MiB` a large object has")
	flag.DurationVar(&r.each, "for", 2*time.Second, "how long each measurement takes")
	flag.DurationVar(&r.window, "window", 20*time.Second, "how long many programs use one lock")
	flag.DurationVar(&r.wait, "wait", 3*time.Minute, "how long those waiters wait that wait long")
	flag.IntVar(&r.waiters, "waiters", 24, "how many wait through each library; at most 80 on PostgreSQL")
	flag.BoolVar(&r.waitOnly, "wait-only", false, "on DynamoDB, PostgreSQL, MariaDB, Redis, etcd, NATS and Azurite: measure nothing but waiting")
	flag.IntVar(&r.rounds, "rounds", 9, "how often a large object is put and got")
	flag.StringVar(&r.part, "part", "", "of the sessions, measure only `what`: holding, takeover, contention, readers or cycles")
	flag.StringVar(&r.dir, "dir", os.TempDir(), "the `directory` whose file system is measured")
	do := func(io.Reader, io.Writer) error { return measure(*only, &r) }
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

// measurement measures a part, and prints tables.
type measurement func(ctx context.Context, w io.Writer, r *run) error

// onEach measures on each of the servers, which it starts one after the other.
func onEach[S any](measure func(ctx context.Context, w io.Writer, server S, r *run) error, starts ...func(context.Context) (S, error)) measurement {
	return func(ctx context.Context, w io.Writer, r *run) error {
		for _, start := range starts {
			server, err := start(ctx)
			if err == nil {
				err = measure(ctx, w, server, r)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// lasting returns a start of a server that ends with the run: what is put off needs it, too.
func lasting[S interface{ Kill() }](r *run, dir string, start func(ctx context.Context, dir string) (S, error)) func(context.Context) (S, error) {
	return func(ctx context.Context) (S, error) {
		server, err := start(ctx, dir)
		if err == nil {
			r.ends = append(r.ends, server.Kill)
		}
		return server, err
	}
}

func measure(only string, r *run) (err error) {
	ctx := context.Background()
	var set servers.Set
	defer set.Close()
	if r.temp, err = os.MkdirTemp("", "holdfast-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.temp)
	defer func() {
		for _, end := range r.ends {
			end()
		}
	}()
	for _, part := range []struct {
		name    string
		measure measurement
	}{
		{"files", files},
		{"startup", startup},
		{"s3", onEach(s3, set.StartVersityGW, set.StartMinIO)},
		{"transfers", onEach(transfers, set.StartVersityGW, set.StartMinIO)},
		{"items", onEach(func(ctx context.Context, w io.Writer, db servers.Dynamo, r *run) error {
			server, err := set.StartVersityGW(ctx)
			if err != nil {
				return err
			}
			return largeItems(ctx, w, db, server, r)
		}, set.StartDynamoDB)},
		{"dynamodb", onEach(dynamo, set.StartDynamoDB)},
		{"postgresql", onEach(postgres, lasting(r, r.temp, servers.StartPostgres))},
		{"mysql", onEach(onMySQL, lasting(r, r.temp, func(ctx context.Context, dir string) (*servers.MariaDB, error) {
			return servers.StartMariaDB(ctx, dir)
		}))},
		{"redis", onEach(onRedis, lasting(r, r.temp, servers.StartRedis))},
		{"azure", onEach(azure, lasting(r, "", servers.StartAzurite))},
		{"etcd", onEach(quorum[*servers.Etcd]("etcd", kindEtcdStore, kindEtcdMutex), lasting(r, r.temp, startEtcd))},
		{"nats", onEach(quorum[*servers.NATS]("NATS", kindNATSStore, kindKVCreate), lasting(r, r.temp, servers.StartNATS))},
		{"sessions", onEach(coordination, set.StartVersityGW)},
		{"", func(_ context.Context, w io.Writer, r *run) error { return r.finish(w) }},
	} {
		if only != "" && part.name != "" && only != part.name {
			continue
		}
		began := time.Now()
		if err := part.measure(ctx, os.Stdout, r); err != nil {
			return fmt.Errorf("%s: %w", cmp.Or(part.name, "waiting"), err)
		}
		fmt.Fprintf(os.Stderr, "%s: %.0f s\n", cmp.Or(part.name, "waiting"), time.Since(began).Seconds())
	}
	return nil
}
