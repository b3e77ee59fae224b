package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/object"
)

// showing returns the options of a copy inside the store, with its progress shown on a
// terminal.
func (a *app) showing(o *object.WriteOptions, what string) *object.WriteOptions {
	with := *o
	var line *output.Bar
	with.Progress = func(done, total int64) {
		if line == nil {
			line = a.Bar(what, total)
		}
		line.Set(done)
		if done == total {
			line.End()
		}
	}
	return &with
}

// source is what put reads.
type source struct {
	io.Reader
	name string
	size int64 // -1: not known
	file *os.File
	info fs.FileInfo
}

// openSource opens what put reads: a file, or standard input for "-". The source must have
// want bytes; a negative want means any number. The caller closes it.
func (a *app) openSource(ctx context.Context, name string, want int64) (*source, error) {
	s := &source{name: name, size: want}
	if name == "-" {
		s.name, s.Reader = "standard input", endWith(ctx, a.Stdin)
		return s, nil
	}
	f, err := openUntil(ctx, func() (*os.File, error) { return os.Open(name) })
	if name == "" {
		return nil, exit.Usagef("the name of the file is empty")
	}
	return s.of(ctx, f, err, want)
}

// of makes s a source of an opened file, or returns why it was not opened.
func (s *source) of(ctx context.Context, f *os.File, err error, want int64) (*source, error) {
	name := s.name
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, exit.With(exit.NotFound, err)
	case errors.Is(err, fs.ErrPermission):
		return nil, exit.With(exit.Denied, err)
	case err != nil:
		return nil, err
	}
	if s.info, err = f.Stat(); err != nil {
		f.Close()
		return nil, err
	}
	s.file = f
	switch mode := s.info.Mode(); {
	case mode.IsDir():
		f.Close()
		return nil, exit.Usagef("%s is a directory: put takes one file, or - for standard input; cp --recursive copies a directory", name)
	case mode.IsRegular():
		if want >= 0 && want != s.info.Size() {
			f.Close()
			return nil, exit.Usagef("%s has %d bytes, not %d", name, s.info.Size(), want)
		}
		s.size = s.info.Size()
		s.Reader = unchanged{f, s}
	default: // a pipe
		s.Reader = endWith(ctx, f)
	}
	return s, nil
}

// openUntil opens a file for reading, or fails when the context ends. To open a pipe that
// has no writer would otherwise wait for ever.
func openUntil(ctx context.Context, open func() (*os.File, error)) (*os.File, error) {
	type opened struct {
		f   *os.File
		err error
	}
	done := make(chan opened, 1)
	go func() {
		f, err := open()
		done <- opened{f, err}
	}()
	select {
	case o := <-done:
		return o.f, o.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// unchanged is a file that no program may write to while put reads it. Otherwise put could
// read neither the old content nor the new one.
type unchanged struct {
	*os.File
	of *source
}

func (u unchanged) Read(p []byte) (int, error) {
	n, err := u.File.Read(p)
	if err != io.EOF {
		return n, err
	}
	now, err := u.Stat()
	switch {
	case err != nil:
		return n, err
	case now.Size() != u.of.info.Size() || !now.ModTime().Equal(u.of.info.ModTime()):
		return n, fmt.Errorf("%s changed while put read it: start the put again when no program writes to the file", u.of.name)
	}
	return n, io.EOF
}

// WriteTo hides the file's own WriteTo, which would bypass Read.
func (u unchanged) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{u})
}

func (s *source) Close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// endWith returns a reader of r that ends when the context does. A read of r itself may
// wait for ever, on a pipe whose writer is silent.
func endWith(ctx context.Context, r io.Reader) io.Reader {
	out, in := io.Pipe()
	context.AfterFunc(ctx, func() { in.CloseWithError(context.Cause(ctx)) })
	go func() {
		_, err := io.Copy(in, r)
		in.CloseWithError(err)
	}()
	return out
}
