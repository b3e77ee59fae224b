// Package transfer opens what the commands about objects and items read from, and write to: files,
// standard input and standard output.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
)

// Source is what put reads.
type Source struct {
	io.Reader
	Name string
	Size int64 // -1: not known
	File *os.File
	Info fs.FileInfo
}

// OpenSource opens what put reads: a file, or standard input for "-". The source must have
// want bytes; a negative want means any number. The caller closes it.
func OpenSource(ctx context.Context, stdin io.Reader, name string, want int64) (*Source, error) {
	switch name {
	case "":
		return nil, exit.Usagef("the name of the file is empty")
	case "-":
		return &Source{Reader: endWith(ctx, stdin), Name: "standard input", Size: want}, nil
	}
	return SourceOf(ctx, name, want, func() (*os.File, error) { return os.Open(name) })
}

// SourceOf is [OpenSource] for a file that open opens.
func SourceOf(ctx context.Context, name string, want int64, open func() (*os.File, error)) (_ *Source, err error) {
	s := &Source{Name: name, Size: want}
	f, err := openUntil(ctx, open)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, exit.With(exit.NotFound, err)
	case errors.Is(err, fs.ErrPermission):
		return nil, exit.With(exit.Denied, err)
	case err != nil:
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if s.Info, err = f.Stat(); err != nil {
		return nil, err
	}
	s.File = f
	switch mode := s.Info.Mode(); {
	case mode.IsDir():
		return nil, exit.Usagef("%s is a directory: put takes one file, or - for standard input; cp --recursive copies a directory", name)
	case mode.IsRegular():
		if want >= 0 && want != s.Info.Size() {
			return nil, exit.Usagef("%s has %d bytes, not %d", name, s.Info.Size(), want)
		}
		s.Size = s.Info.Size()
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
	io.ReadSeeker
	of *Source
}

func (u unchanged) Read(p []byte) (int, error) {
	n, err := u.ReadSeeker.Read(p)
	if err != io.EOF {
		return n, err
	}
	now, err := u.of.File.Stat()
	switch {
	case err != nil:
		return n, err
	case now.Size() != u.of.Info.Size() || !now.ModTime().Equal(u.of.Info.ModTime()):
		return n, fmt.Errorf("%s changed while put read it: start the put again when no program writes to the file", u.of.Name)
	}
	return n, io.EOF
}

func (s *Source) Close() error {
	if s.File == nil {
		return nil
	}
	return s.File.Close()
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
