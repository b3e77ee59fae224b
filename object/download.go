package object

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/workerpool"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// DefaultParallel is the default of [DownloadOptions].Parallel.
	DefaultParallel = 5

	// downloadRange is the size of the first range, in bytes; see restSize.
	downloadRange = 8 << 20

	// rangeTries is how often a range is requested at most, after answers that broke off.
	rangeTries = 10
	rangePause = 100 * time.Millisecond

	// copyBuffer is what each range holds in memory, in bytes. With 64 KiB, a download of 128 MiB
	// into a file needed 1.3 times the processor time: goroutines wait for the lock of the file.
	copyBuffer = 256 << 10
)

// DownloadOptions are the options of [Download].
type DownloadOptions struct {
	// Parallel is the number of ranges of 8 to 16 MiB that are read at the same time, 1 to 64; 0
	// means [DefaultParallel].
	Parallel int

	// IfMatch is a condition: the object must be in this state; see [GetOptions].
	IfMatch Version

	// Offset is the number of bytes that an earlier Download has already written. If Offset is
	// above 0, IfMatch must be the state that the earlier Download read; see [TruncatedError].
	Offset int64

	// Progress is called with the number of written bytes, including the bytes before Offset.
	Progress Progress

	rangeSize int64 // Tests set it; 0 means downloadRange.
}

// TruncatedError says that a Download wrote only a part of the body. The first Done bytes are
// complete. To continue, call Download with Offset set to Done, and IfMatch set to Info.Version.
type TruncatedError struct {
	Info Info
	Done int64
	Err  error
}

func (e *TruncatedError) Error() string {
	return fmt.Sprintf("after %d of %d bytes: %v", e.Done, e.Info.Size, e.Err)
}

// Unwrap returns Err.
func (e *TruncatedError) Unwrap() error { return e.Err }

// Download writes the body of an object to the writer w, each byte at its offset. It reads several
// ranges at the same time. All ranges are from one state of the object: if the object changes, the
// error matches store.ErrConflict. If an answer ends too early, Download requests the rest of the
// range.
//
// Download uses 256 KiB of memory for each range. The bucket can use more. Several goroutines write
// to w until Download returns. If w is already longer than the body, Download does not shorten w.
// After an error, w has parts of the body; a [TruncatedError] says how many bytes are complete.
func Download(ctx context.Context, b Bucket, key string, w io.WriterAt, opts *DownloadOptions) (Info, error) {
	return downloadFrom(ctx, b, TraitsOf(b), key, w, opts)
}

// Download writes the body of an object to a writer, like the function [Download].
func (c *Client) Download(ctx context.Context, key string, w io.WriterAt, opts *DownloadOptions) (Info, error) {
	return downloadFrom(ctx, c, TraitsOf(c.bucket), key, w, opts)
}

// opener is what a download needs: of a bucket, or of a client.
type opener interface {
	Get(ctx context.Context, key string, opts *GetOptions) (*Reader, error)
	Stat(ctx context.Context, key string) (Info, error)
}

func downloadFrom(ctx context.Context, b opener, t Traits, key string, w io.WriterAt, opts *DownloadOptions) (Info, error) {
	o := *cmp.Or(opts, &DownloadOptions{})
	o.rangeSize = cmp.Or(o.rangeSize, downloadRange)
	o.Parallel = cmp.Or(o.Parallel, DefaultParallel)
	if o.Parallel < 1 || o.Parallel > 64 || o.Offset < 0 || o.Offset > 0 && o.IfMatch == "" {
		return Info{}, fmt.Errorf("%w: DownloadOptions.Parallel is %d and must be from 1 to 64; DownloadOptions.Offset is %d and must be 0, or positive with IfMatch", ErrInvalid, o.Parallel, o.Offset)
	}
	d := &download{b: b, key: key, w: w, o: o, done: make(map[int64]int64)}
	d.doubtful = !t.Trusted && !t.UniqueVersions
	return d.run(ctx)
}

type download struct {
	b    opener
	key  string
	w    io.WriterAt
	o    DownloadOptions
	info Info

	doubtful bool        // answers may mix two states; see check
	further  atomic.Bool // more than one answer was requested

	mu   sync.Mutex
	sum  int64           // of the bytes that are written
	done map[int64]int64 // of each range, by its offset
}

func (d *download) run(ctx context.Context) (Info, error) {
	r, err := d.b.Get(ctx, d.key, &GetOptions{Offset: d.o.Offset, Length: d.o.rangeSize, IfMatch: d.o.IfMatch})
	if errors.Is(err, ErrRange) && d.o.Offset > 0 {
		return d.nothingLeft(ctx)
	}
	if err != nil {
		return Info{}, err
	}
	d.info, d.sum = r.Info, d.o.Offset
	c := workerpool.New(ctx, d.o.Parallel, 0)
	defer c.Close()
	for at, size := d.o.Offset, d.o.rangeSize; at < d.info.Size && c.WaitRoom(0); at += size {
		first := r
		r = nil
		if first == nil {
			size = d.restSize()
		}
		c.Go(0, func(ctx context.Context) error { return d.read(ctx, first, at, min(size, d.info.Size-at)) })
	}
	if r != nil { // no range was begun
		r.Close()
	}
	err = c.Wait()
	if err == nil && d.doubtful && (d.further.Load() || d.o.Offset > 0) {
		err = d.check(ctx)
	}
	if err != nil {
		return d.info, &TruncatedError{Info: d.info, Done: d.complete(), Err: err}
	}
	if d.info.Size == 0 {
		d.o.Progress.Report(0, 0)
	}
	return d.info, nil
}

// restSize is the size of each range after the first. It is up to twice the size of the first, so that
// all goroutines read the same number of ranges, and none of them reads alone at the end.
func (d *download) restSize() int64 {
	left, parallel := d.info.Size-d.o.Offset-d.o.rangeSize, int64(d.o.Parallel)
	n := (left-1)/d.o.rangeSize + 2 // ranges, with the first
	if n > parallel {
		n -= n % parallel
	}
	return max(d.o.rangeSize, (left-1)/max(n-1, 1)+1)
}

// nothingLeft is for a download of which the caller has all bytes already.
func (d *download) nothingLeft(ctx context.Context) (Info, error) {
	info, err := d.b.Stat(ctx, d.key)
	switch {
	case err != nil:
		return Info{}, err
	case info.Version != d.o.IfMatch:
		return info, &ConflictError{Key: d.key, HasCurrent: true, Version: info.Version}
	case info.Size != d.o.Offset:
		return info, fmt.Errorf("%q: %w: the object has %d bytes, but must have %d", d.key, ErrRange, info.Size, d.o.Offset)
	}
	d.o.Progress.Report(info.Size, info.Size)
	return info, nil
}

// check makes sure that all ranges were of one state: some servers look up the version of
// one state and send the bytes of another. What is the same before and after all was so
// in between.
func (d *download) check(ctx context.Context) error {
	now, err := d.b.Stat(ctx, d.key)
	if err == nil && now.Version != d.info.Version {
		d.mu.Lock()
		d.done = nil // any of it can be of another state
		d.mu.Unlock()
		err = &ConflictError{Key: d.key, HasCurrent: true, Version: now.Version}
	}
	return err
}

// complete is how many bytes are complete from the beginning on.
func (d *download) complete() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done == nil {
		return 0
	}
	at := d.o.Offset
	for d.done[at] > 0 { // it ends with the first range that is incomplete
		at += d.done[at]
	}
	return at
}

// read writes one range. r is the answer to its first request, if that was sent.
func (d *download) read(ctx context.Context, r *Reader, at, size int64) error {
	var done int64
	for try := 1; ; try++ {
		var err error
		if r == nil {
			d.further.Store(true)
			r, err = d.b.Get(ctx, d.key, &GetOptions{Offset: at + done, Length: size - done, IfMatch: d.info.Version})
		}
		if err == nil {
			var n int64
			n, err = d.drain(ctx, r, at+done, size-done)
			done += n
			d.wrote(at, n)
		}
		r = nil
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, store.ErrUnavailable) || try == rangeTries || !sleep(ctx, rangePause, try):
			return err
		}
	}
}

// drain writes size bytes of r at an offset, and returns how many were written.
func (d *download) drain(ctx context.Context, r *Reader, at, size int64) (int64, error) {
	defer r.Close()
	if r.Info.Version != d.info.Version || r.Info.Size != d.info.Size {
		return 0, &ConflictError{Key: d.key, HasCurrent: true, Version: r.Info.Version}
	}
	from := &bounded{ctx: ctx, r: io.LimitReader(r, size)}
	n, err := io.CopyBuffer(onlyWriter{io.NewOffsetWriter(d.w, at)}, from, make([]byte, copyBuffer))
	if err == nil && n < size {
		err = fmt.Errorf("%q: %w: the answer ended %d bytes early", d.key, store.ErrUnavailable, size-n)
	}
	return n, err
}

// bounded is a reader that ends with a context, which may be another than that of the
// request.
type bounded struct {
	ctx context.Context
	r   io.Reader
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.ctx.Err() != nil {
		return 0, store.Cause(b.ctx)
	}
	return b.r.Read(p)
}

// onlyWriter hides all methods of a writer but Write, so that the size of the buffer is
// known.
type onlyWriter struct{ io.Writer }

// wrote notes n more bytes of the range at an offset.
func (d *download) wrote(at, n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done[at] += n
	d.sum += n
	d.o.Progress.Report(d.sum, d.info.Size)
}
