package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/cmd/internal/transfer"
	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// download writes an object to the target and returns what it read.
func (a *access) download(ctx context.Context, b stores.Bucket, key string, opts object.GetOptions, to *transfer.Target) (object.Info, error) {
	if to.File != nil && opts.Offset == 0 && opts.Length == 0 {
		return a.downloadFile(ctx, b, key, opts.IfMatch, to)
	}
	var (
		info object.Info
		line *output.Bar
	)
	d := &reading{b: b, key: key, opts: opts, to: to, progress: func(done int64) { line.Set(done) }}
	d.begun = func(i object.Info) {
		info, line = i, a.Bar(key, d.wanted(i))
	}
	err := to.Named(d.run(ctx))
	line.End()
	if err != nil && d.done >= output.BarFrom && !d.full && !store.Permanent(err) && !errors.Is(err, store.ErrConflict) {
		err = fmt.Errorf("%w (get has read %s; to continue, use --offset %d)", err, output.Bytes(d.done), opts.Offset+d.done)
	}
	return info, err
}

// restarts is how many times a download begins again since the object was replaced.
const restarts = 5

// downloadFile writes a whole object to the file of the target. If an earlier run has kept
// a beginning, it continues from there. If the object is replaced meanwhile, it begins again.
func (a *access) downloadFile(ctx context.Context, b stores.Bucket, key string, ifMatch object.Version, to *transfer.Target) (object.Info, error) {
	of := b.ID() + " " + key
	had, err := to.Resume(of)
	if err != nil {
		return object.Info{}, err
	}
	var line *output.Bar
	o := &object.DownloadOptions{IfMatch: ifMatch}
	o.Progress = func(done, total int64) {
		if line == nil {
			line = a.Bar(key, total-o.Offset) // the rate is that of this run
		}
		line.Set(done - o.Offset)
	}
	resumes := had.Done > 0 && (ifMatch == "" || ifMatch == had.Version)
	if resumes {
		o.IfMatch, o.Offset = had.Version, had.Done
	}
	info, err := b.Download(ctx, key, to.File, o)
	for again := 0; again < restarts && ifMatch == "" && errors.Is(err, store.ErrConflict); again++ {
		line.End()
		line, o.IfMatch, o.Offset = nil, "", 0 // the object was replaced: begin again, with the new state
		info, err = b.Download(ctx, key, to.File, o)
	}
	line.End()
	if err = to.Named(err); err == nil {
		return info, to.Named(to.File.Truncate(info.Size))
	}
	var cut *object.TruncatedError
	switch {
	case errors.As(err, &cut):
		had = transfer.Part{Object: of, Version: cut.Info.Version, Done: cut.Done}
	case !resumes || errors.Is(err, store.ErrNotFound):
		return info, err
	}
	if had.Done < output.BarFrom || store.Permanent(err) || errors.Is(err, store.ErrConflict) {
		return info, err
	}
	if keepErr := to.Keep(had); keepErr != nil {
		return info, errors.Join(err, keepErr)
	}
	return info, fmt.Errorf("%w (the first %s are saved: the same command continues from there)", err, output.Bytes(had.Done))
}

// readTries is how many times in a row a reading continues after a broken connection that
// delivered no byte.
const readTries = 5

// reading reads one state of an object from beginning to end, over several connections if
// necessary.
type reading struct {
	b     stores.Bucket
	key   string
	opts  object.GetOptions
	to    io.Writer
	begun func(object.Info) // called with the object that is read

	progress func(done int64) // called after each write; may be nil

	done int64 // bytes
	full bool  // writing to the target failed
}

// wanted returns how many bytes the whole read has.
func (d *reading) wanted(info object.Info) int64 {
	n := info.Size - d.opts.Offset
	if d.opts.Length > 0 {
		n = min(n, d.opts.Length)
	}
	return n
}

func (d *reading) run(ctx context.Context) error {
	r, err := d.b.Get(ctx, d.key, &d.opts)
	if err != nil {
		return err
	}
	info, wanted := r.Info, d.wanted(r.Info)
	d.begun(info)
	for failed, before := 0, d.done; ; {
		if r == nil {
			r, err = d.b.Get(ctx, d.key, &object.GetOptions{IfMatch: info.Version, Offset: d.opts.Offset + d.done, Length: wanted - d.done})
		}
		if err == nil {
			if _, err = io.CopyBuffer(d, r, make([]byte, 256<<10)); err == nil && d.done < wanted {
				err = io.ErrUnexpectedEOF
			}
			r.Close()
		}
		r = nil
		if err == nil || d.full || ctx.Err() != nil || d.done >= wanted || store.Permanent(err) || errors.Is(err, store.ErrConflict) {
			return err
		}
		if failed++; d.done > before {
			failed, before = 1, d.done
		}
		if failed > readTries {
			return err
		}
		if err := backoff.Sleep(ctx, time.Duration(failed)*200*time.Millisecond); err != nil {
			return err
		}
	}
}

// Write writes a part of an answer to the target.
func (d *reading) Write(p []byte) (int, error) {
	n, err := d.to.Write(p)
	d.done += int64(n)
	if d.full = err != nil; d.progress != nil {
		d.progress(d.done)
	}
	return n, err
}
