package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/holdfast-go/holdfast/cmd/internal/printable"
)

// untilInterrupted returns a context that ends, with an [interrupted] as its cause, when a
// signal asks the command to stop. The second signal ends the command at once.
func untilInterrupted(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals)
			cancel(interrupted{s})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

// bar shows on a terminal how far a transfer is. In a pipe, and for what is small, it
// shows nothing. All methods may be called on nil.
type bar struct {
	line *progressbar.ProgressBar
}

// barFrom is the size, in bytes, from which a transfer has a bar.
const barFrom = 4 << 20

// bar returns the bar of a transfer of size bytes; negative means not known.
func (a *app) bar(what string, size int64) *bar {
	f, ok := a.stderr.(*os.File)
	if a.quiet || !ok || !term.IsTerminal(int(f.Fd())) || size >= 0 && size < barFrom {
		return nil
	}
	return &bar{progressbar.NewOptions64(size,
		progressbar.OptionSetWriter(f), progressbar.OptionSetDescription(printable.Text(what)),
		progressbar.OptionShowBytes(true), progressbar.OptionUseIECUnits(true), progressbar.OptionShowTotalBytes(true),
		progressbar.OptionThrottle(200*time.Millisecond), progressbar.OptionFullWidth(),
		progressbar.OptionClearOnFinish(), progressbar.OptionUseANSICodes(true), progressbar.OptionSetRenderBlankState(false),
	)}
}

// set shows that n bytes are transferred.
func (b *bar) set(n int64) {
	if b != nil {
		_ = b.line.Set64(n) // a terminal that cannot be written to stops no transfer
	}
}

// end removes the bar.
func (b *bar) end() {
	if b != nil {
		_ = b.line.Finish()
	}
}

// counting counts what is read.
type counting struct {
	io.Reader
	n     int64
	count func(int64)
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	c.count(c.n)
	return n, err
}

// Seek implements [io.Seeker] where what is read does: a write that is sent again begins
// anew.
func (c *counting) Seek(offset int64, whence int) (int64, error) {
	at, err := seek(c.Reader, offset, whence)
	if err == nil {
		c.n = at
	}
	return at, err
}

func seek(r io.Reader, offset int64, whence int) (int64, error) {
	if s, ok := r.(io.Seeker); ok {
		return s.Seek(offset, whence)
	}
	return 0, errors.ErrUnsupported
}

// source is what is put.
type source struct {
	io.Reader
	name string
	size int64 // -1: not known
	file *os.File
	info fs.FileInfo
}

// openSource opens what put reads: a file, or standard input for "-". want is how many
// bytes it must have; negative means any number. The caller closes it.
func (a *app) openSource(ctx context.Context, name string, want int64) (*source, error) {
	s := &source{name: name, size: want}
	if name == "-" {
		s.name, s.Reader = "standard input", endWith(ctx, a.stdin)
		if want >= 0 {
			s.Reader = &exactly{Reader: s.Reader, name: s.name, left: want, want: want}
		}
		return s, nil
	}
	f, err := os.Open(name)
	switch {
	case name == "":
		return nil, usagef("the name of the file is empty")
	case errors.Is(err, fs.ErrNotExist):
		return nil, &statusError{statusNotFound, err}
	case errors.Is(err, fs.ErrPermission):
		return nil, &statusError{statusDenied, err}
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
		return nil, usagef("%s is a directory: put takes one file, or - for standard input", name)
	case mode.IsRegular():
		if want >= 0 && want != s.info.Size() {
			f.Close()
			return nil, &statusError{statusFailed, fmt.Errorf("%s has %d bytes, and not %d: nothing was written", name, s.info.Size(), want)}
		}
		s.size = s.info.Size()
		s.Reader = &exactly{Reader: f, name: name, left: s.size, want: s.size, check: s.unchanged}
	default: // a pipe
		s.Reader = endWith(ctx, f)
		if want >= 0 {
			s.Reader = &exactly{Reader: s.Reader, name: name, left: want, want: want}
		}
	}
	return s, nil
}

// unchanged reports a file that was written to while it was read: what was read may be
// neither its old content nor its new one.
func (s *source) unchanged() error {
	now, err := s.file.Stat()
	if err == nil && (now.Size() != s.info.Size() || !now.ModTime().Equal(s.info.ModTime())) {
		err = fmt.Errorf("%s was changed while it was read: put it again when its writer is done", s.name)
	}
	return err
}

func (s *source) Close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// exactly is a reader that fails unless it has as many bytes as were announced, and
// unless check, which may be nil, agrees in the end.
type exactly struct {
	io.Reader
	name       string
	left, want int64
	check      func() error
}

func (e *exactly) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	e.left -= int64(n)
	switch {
	case e.left < 0:
		return n, fmt.Errorf("%s has more than %d bytes: nothing was written", e.name, e.want)
	case err == io.EOF && e.left > 0:
		return n, fmt.Errorf("%s ended after %d bytes of %d: nothing was written", e.name, e.want-e.left, e.want)
	case err == io.EOF && e.check != nil:
		if changed := e.check(); changed != nil {
			return n, changed
		}
	}
	return n, err
}

// Seek implements [io.Seeker] where what is read does.
func (e *exactly) Seek(offset int64, whence int) (int64, error) {
	at, err := seek(e.Reader, offset, whence)
	if err == nil {
		e.left = e.want - at
	}
	return at, err
}

// endWith returns a reader of r that ends when the context does, although a read of r may
// wait for ever: that of a pipe whose writer is silent.
func endWith(ctx context.Context, r io.Reader) io.Reader {
	out, in := io.Pipe()
	context.AfterFunc(ctx, func() { out.CloseWithError(context.Cause(ctx)) })
	go func() {
		_, err := io.Copy(in, r)
		in.CloseWithError(err)
	}()
	return out
}
