package integration_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/compat/s3verstore"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
)

// countVar makes the test binary a process of TestVersionedStress; its value is a
// counting in JSON.
const countVar = "HOLDFAST_TEST_COUNT"

// counting is what such a process does, for each of the locks again and again: take it,
// read a plain object, write it one higher without any condition, release the lock.
type counting struct {
	S3     servers.S3
	Bucket string
	Life   time.Duration
	Unsafe bool // without a pause: the control
	Locks  int
	Until  time.Time
}

// interval is a time for which a process had a lock, by the machine's monotonic clock.
type interval struct {
	Lock       int
	Token      uint64
	Begin, End int64
}

// count is the work of one process: all locks at the same time, each by one goroutine.
func count(c counting) error {
	o := &s3verstore.Options{PutLifetime: c.Life}
	if c.Unsafe {
		o = &s3verstore.Options{PutLifetime: time.Hour, SettleDelay: 1, UnsafeTimes: true}
	}
	b, err := s3bucket.New(c.S3.Client(), c.Bucket, nil)
	if err != nil {
		return err
	}
	st, err := s3verstore.New(b, "", o)
	if err != nil {
		return err
	}
	client, err := lease.New(st, &lease.Options{TTL: time.Minute, Tuning: lease.Tuning{MinPoll: 10 * time.Millisecond, MaxPoll: 200 * time.Millisecond}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithDeadline(context.Background(), c.Until)
	defer cancel()
	done := make(chan interval)
	ended := make(chan error)
	for lock := range c.Locks {
		go func() { ended <- c.countOne(ctx, client, lock, done) }()
	}
	out := json.NewEncoder(os.Stdout)
	for running := c.Locks; running > 0; {
		select {
		case i := <-done:
			if err := out.Encode(i); err != nil {
				return err
			}
		case e := <-ended:
			running--
			err = errors.Join(err, e)
		}
	}
	return err
}

func (c *counting) countOne(ctx context.Context, client *lease.Client, lock int, done chan<- interval) error {
	for ctx.Err() == nil {
		g, err := client.Acquire(ctx, fmt.Sprint("lock", lock), nil)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		i := interval{Lock: lock, Token: g.Token(), Begin: now()}
		err = c.increment(fmt.Sprint("counter", lock))
		i.End = now()
		if g.Err() != nil && !c.Unsafe {
			err = errors.Join(err, fmt.Errorf("lost while it was held: %w", g.Err()))
		}
		done <- i
		if e := g.Release(context.WithoutCancel(ctx)); e != nil && !c.Unsafe {
			err = errors.Join(err, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// increment reads a plain object and writes it one higher, as if it were alone.
func (c *counting) increment(key string) error {
	ctx := context.Background()
	client := c.S3.Client()
	n, err := readCount(ctx, client, c.Bucket, key)
	if err != nil {
		return err
	}
	_, err = client.PutObject(ctx, &s3.PutObjectInput{Bucket: &c.Bucket, Key: &key, Body: strings.NewReader(strconv.Itoa(n + 1))})
	return err
}

func readCount(ctx context.Context, client *s3.Client, bucket, key string) (int, error) {
	list, err := client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &bucket, Prefix: aws.String(key)})
	if err != nil || len(list.Contents) == 0 {
		return 0, err
	}
	out, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: &key})
	if err != nil {
		return 0, err
	}
	defer out.Body.Close()
	text, err := io.ReadAll(out.Body)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(text))
}

// stress lets processes count for a time, and returns what they did and the sum of the
// counters.
func stress(t *testing.T, c counting, processes int) (all []interval, sum int) {
	t.Helper()
	type result struct {
		found []interval
		err   error
	}
	results := make(chan result)
	config, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	for range processes {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), countVar+"="+string(config))
		var complaint strings.Builder
		cmd.Stderr = &complaint
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() {
			var r result
			lines := bufio.NewScanner(out)
			for lines.Scan() {
				var i interval
				if err := json.Unmarshal(lines.Bytes(), &i); err != nil {
					r.err = errors.Join(r.err, err)
				}
				r.found = append(r.found, i)
			}
			if err := cmd.Wait(); err != nil {
				r.err = errors.Join(r.err, fmt.Errorf("%w: %s", err, complaint.String()))
			}
			results <- r
		}()
	}
	for range processes {
		r := <-results
		all = append(all, r.found...)
		if r.err != nil {
			t.Error(r.err)
		}
	}
	for lock := range c.Locks {
		n, err := readCount(t.Context(), c.S3.Client(), c.Bucket, fmt.Sprint("counter", lock))
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return all, sum
}

// overlaps counts the pairs of intervals of one lock that overlap.
func overlaps(all []interval) (n int) {
	for i, a := range all {
		for _, b := range all[:i] {
			if a.Lock == b.Lock && a.Begin <= b.End && b.Begin <= a.End {
				n++
			}
		}
	}
	return n
}

// Processes that increment plain objects under locks on a bucket with versions lose no
// increment, and no two of them have a lock at one time.
func TestVersionedStress(t *testing.T) {
	processes, locks, span := 4, 4, 25*time.Second
	if torture() {
		processes, locks, span = 8, 8, 5*time.Minute
	}
	for name, start := range s3Servers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t)
			all, sum := stress(t, counting{
				S3: server, Bucket: server.NewBucket(t, true), Life: time.Second, Locks: locks, Until: time.Now().Add(span),
			}, processes)
			if n := overlaps(all); n > 0 {
				t.Errorf("%d times two had a lock at once", n)
			}
			if sum != len(all) {
				t.Errorf("%d increments, and the counters say %d", len(all), sum)
			}
			if len(all) < 2*locks {
				t.Errorf("only %d acquisitions", len(all))
			}
			tokens := map[[2]uint64]bool{}
			for _, i := range all {
				if id := [2]uint64{uint64(i.Lock), i.Token}; tokens[id] {
					t.Errorf("token %d of lock %d was granted twice", i.Token, i.Lock)
				} else {
					tokens[id] = true
				}
			}
			t.Logf("%d acquisitions by %d processes, %d increments", len(all), processes, sum)
		})
	}
}

// The control of TestVersionedStress: without the pause two have a lock at once, on
// MinIO at least.
func TestVersionedStressControl(t *testing.T) {
	server := set.MinIO(t)
	for range 20 {
		all, sum := stress(t, counting{
			S3: server, Bucket: server.NewBucket(t, true), Unsafe: true, Locks: 4, Until: time.Now().Add(3 * time.Second),
		}, 4)
		if n := overlaps(all); n > 0 || sum < len(all) {
			t.Logf("%d acquisitions, %d overlaps, %d increments lost", len(all), n, len(all)-sum)
			return
		}
	}
	t.Error("without the pause nothing went wrong: the stress test tests nothing")
}
