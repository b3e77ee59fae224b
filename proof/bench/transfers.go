package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/s3/manager"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
)

// transfers compares puts and gets of objects with those of the SDK, on one S3 server.
func transfers(ctx context.Context, w io.Writer, server servers.S3, r *run) error {
	bucket := servers.Unique("transfers")
	if err := server.CreateBucket(ctx, bucket, false); err != nil {
		return err
	}
	fmt.Fprintf(w, "### Objects on S3: %s\n\n", server.Name)
	if err := smallPuts(ctx, w, server, bucket, r.each); err != nil {
		return err
	}
	return largeBodies(ctx, w, server, bucket, r)
}

// smallPuts measures conditional puts of 4 KiB in turns: bare ones of the SDK, those of a
// bucket, and those of a client.
func smallPuts(ctx context.Context, w io.Writer, server servers.S3, bucket string, d time.Duration) error {
	requests := &counter{}
	b, err := s3bucket.New(server.Client(requests.countS3), bucket, &s3bucket.Options{AssumeAbilities: object.Abilities()})
	if err != nil {
		return err
	}
	c, err := object.New(b, nil)
	if err != nil {
		return err
	}
	body := make([]byte, 4<<10)
	var metadata map[string]string
	state := map[string]object.Info{}
	sdk := server.Client()
	raw := func(key string, metadata func() map[string]string) func() error {
		put := rawS3(sdk, bucket, key, func(in *awss3.PutObjectInput) {
			in.Body, in.ContentType, in.Metadata = newBody(body), aws.String("application/octet-stream"), metadata()
		})
		return func() error { return put(ctx) }
	}
	subjects := []struct {
		name string
		put  func() error
	}{
		{"SDK, `PutObject` with If-Match", raw("raw", func() map[string]string { return nil })},
		{"the same, with metadata as long as the client's", raw("marked", func() map[string]string { return metadata })},
		{"`object.Bucket`", func() error {
			o := &object.PutOptions{IfMatch: state["bucket"].Version, IfAbsent: state["bucket"].Version == ""}
			info, err := b.Put(ctx, "bucket", newBody(body), o)
			state["bucket"] = info
			return err
		}},
		{"`object.Client`", func() error {
			o := &object.WriteOptions{IfAbsent: true}
			if base, ok := state["client"]; ok {
				o = &object.WriteOptions{Base: &base}
			}
			info, err := c.Put(ctx, "client", newBody(body), o)
			state["client"] = info
			return err
		}},
	}
	got := make([]samples, len(subjects))
	sent := make([]int64, len(subjects))
	for end, round := time.Now().Add(2*d), 0; time.Now().Before(end); round++ {
		if round == 10 { // the marks of the client are as long as they get
			info, err := b.Stat(ctx, "client")
			if err != nil {
				return err
			}
			metadata = info.Metadata
		}
		for i := range subjects {
			i = (i + round) % len(subjects) // none always follows the same
			before := requests.n.Load()
			took, err := timed(subjects[i].put)
			if err != nil {
				return fmt.Errorf("%s: %w", subjects[i].name, err)
			}
			if round > 10 {
				got[i], sent[i] = append(got[i], took), sent[i]+requests.n.Load()-before
			}
		}
	}
	t := table{head: []string{"conditional put of 4 KiB", "requests", "time, lower quartile", "ratio"}}
	for i, s := range subjects {
		n := "1"
		if i > 1 {
			n = fmt.Sprintf("%.3g", float64(sent[i])/float64(len(got[i])))
		}
		t.row(s.name, n, short(got[i].at(0.25)), ratio(got[i].at(0.25), got[0].at(0.25)))
	}
	t.print(w)
	return nil
}

// newBody returns a body that differs from all others, as long as body.
func newBody(body []byte) io.Reader {
	copy(body, rand.Text())
	return bytes.NewReader(body)
}

// largeBodies measures a put and a get of a file, in turns by the SDK's transfer manager
// and by this library, both with parts of the same size and as many at a time. The lower quartile
// counts: a server that joins parts on a busy disk takes up to ten times as long.
func largeBodies(ctx context.Context, w io.Writer, server servers.S3, bucket string, r *run) error {
	// The manager sends checksums whatever its client says. A server that gets none computes
	// others, which takes it longer.
	client := server.Client(func(o *awss3.Options) { o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenSupported })
	up := manager.NewUploader(client, func(u *manager.Uploader) {
		u.PartSize, u.Concurrency = s3bucket.DefaultPartSize, s3bucket.DefaultParallel
	})
	down := manager.NewDownloader(client, func(d *manager.Downloader) {
		d.PartSize, d.Concurrency = 8<<20, object.DefaultParallel // as object.Download
	})
	b, err := s3bucket.New(client, bucket, &s3bucket.Options{AssumeAbilities: object.Abilities()})
	if err != nil {
		return err
	}
	source, target, size := filepath.Join(r.temp, "source"), filepath.Join(r.temp, "target"), r.size<<20
	if err := fillFile(source, size); err != nil {
		return err
	}
	defer os.Remove(source)
	defer os.Remove(target)
	upload := func(put func(f *os.File) error) func() error {
		return func() error {
			f, err := os.Open(source)
			if err != nil {
				return err
			}
			defer f.Close()
			return put(f)
		}
	}
	download := func(get func(f *os.File) (int64, error)) func() error {
		return func() error {
			f, err := os.Create(target)
			if err != nil {
				return err
			}
			defer f.Close()
			n, err := get(f)
			if err == nil && n != size {
				err = fmt.Errorf("got %d bytes of %d", n, size)
			}
			return err
		}
	}
	key := "large"
	steps := []struct {
		name string
		run  [2]func() error // the SDK's, and ours
	}{
		{"put", [2]func() error{upload(func(f *os.File) error {
			_, err := up.Upload(ctx, &awss3.PutObjectInput{Bucket: &bucket, Key: &key, Body: f})
			return err
		}), upload(func(f *os.File) error {
			_, err := b.Put(ctx, key, f, &object.PutOptions{Length: size})
			return err
		})}},
		{"get", [2]func() error{download(func(f *os.File) (int64, error) {
			return down.Download(ctx, f, &awss3.GetObjectInput{Bucket: &bucket, Key: &key})
		}), download(func(f *os.File) (int64, error) {
			info, err := object.Download(ctx, b, key, f, nil)
			return info.Size, err
		})}},
	}
	t := table{head: []string{fmt.Sprintf("%d MiB, %d parts of 8 MiB at a time, the lower quartile of %d", r.size, s3bucket.DefaultParallel, r.rounds),
		"SDK manager, MiB/s", "holdfast, MiB/s", "throughput, ratio", "client's CPU, ratio", "heap at most: SDK, MiB", "holdfast, MiB"}}
	for _, step := range steps {
		var took, busy [2]samples
		var most [2]uint64
		for i := range 2 * r.rounds {
			who := (i/2 + i) % 2 // each is the first of a pair as often as the other
			d, cpu, heap, err := weighed(step.run[who])
			if err != nil {
				return fmt.Errorf("%s%s: %w", step.name, [2]string{", SDK", ""}[who], err)
			}
			took[who], busy[who], most[who] = append(took[who], d), append(busy[who], cpu), max(most[who], heap)
		}
		sdk, ours, cpu := took[0].at(0.25), took[1].at(0.25), ratio(busy[1].at(0.25), busy[0].at(0.25))
		speed := func(d time.Duration) string { return fmt.Sprintf("%.0f", float64(size)/(1<<20)/d.Seconds()) }
		t.row(step.name, speed(sdk), speed(ours), ratio(sdk, ours), cpu, fmt.Sprint(most[0]>>20), fmt.Sprint(most[1]>>20))
	}
	t.print(w)
	return nil
}

// fillFile makes a file of this size that cannot be compressed.
func fillFile(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := io.CopyN(f, rand.Reader, size); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// weighed returns how long f took, how much of a processor, and by how much the heap was
// larger meanwhile, at most, garbage included.
func weighed(f func() error) (took, cpu time.Duration, heap uint64, err error) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before := m.HeapAlloc
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		var m runtime.MemStats
		for {
			runtime.ReadMemStats(&m)
			heap = max(heap, m.HeapAlloc-min(before, m.HeapAlloc))
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	busy := processorTime()
	took, err = timed(f)
	cpu = processorTime() - busy
	close(done)
	wg.Wait()
	return took, cpu, heap, err
}
