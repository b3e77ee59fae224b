package output

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/holdfast-go/holdfast/cmd/internal/printable"
)

// Bar shows on a terminal how far a transfer is. In a pipe, and for small objects, it shows
// nothing. All methods may be called on nil.
type Bar struct {
	line *progressbar.ProgressBar
	size int64

	resumes bool  // the next set says where the transfer begins
	base    int64 // bytes that were transferred before
}

// BarFrom is the size, in bytes, from which a transfer has a bar.
const BarFrom = 4 << 20

// Bar returns the bar for a transfer of size bytes; a negative size is not known.
func (p *Printer) Bar(what string, size int64) *Bar {
	f, ok := p.Stderr.(*os.File)
	if p.Quiet || p.NoBars || !ok || !term.IsTerminal(int(f.Fd())) || size >= 0 && size < BarFrom {
		return nil
	}
	return newBar(f, what, size)
}

func newBar(w io.Writer, what string, size int64) *Bar {
	return &Bar{size: size, line: progressbar.NewOptions64(size,
		progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(printable.Text(what)),
		progressbar.OptionShowBytes(true), progressbar.OptionUseIECUnits(true), progressbar.OptionShowTotalBytes(true),
		progressbar.OptionThrottle(200*time.Millisecond), progressbar.OptionFullWidth(),
		progressbar.OptionClearOnFinish(), progressbar.OptionUseANSICodes(true), progressbar.OptionSetRenderBlankState(false),
	)}
}

// Counter returns a line for a number that grows to no known end.
func (p *Printer) Counter(what string) *Bar {
	f, ok := p.Stderr.(*os.File)
	if p.Quiet || !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return &Bar{line: progressbar.NewOptions64(-1,
		progressbar.OptionSetWriter(f), progressbar.OptionSetDescription(what), progressbar.OptionShowCount(), progressbar.OptionShowIts(),
		progressbar.OptionThrottle(200*time.Millisecond), progressbar.OptionSpinnerType(14),
		progressbar.OptionClearOnFinish(), progressbar.OptionUseANSICodes(true), progressbar.OptionSetRenderBlankState(false),
	)}
}

// Clear makes room for a line of output. The next set shows the bar again.
func (b *Bar) Clear() {
	if b != nil {
		_ = b.line.Clear()
	}
}

// Reader returns a reader of r whose progress the bar shows.
func (b *Bar) Reader(r io.Reader) io.Reader { return shown{r, b} }

type shown struct {
	io.Reader
	bar *Bar
}

func (s shown) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if s.bar != nil {
		_ = s.bar.line.Add(n)
	}
	return n, err
}

// Resume says that the next set is of what an earlier run transferred. The bar, and its rate,
// are of the rest.
func (b *Bar) Resume() {
	if b != nil {
		b.resumes = true
	}
}

// Set shows that n bytes are transferred.
func (b *Bar) Set(n int64) {
	if b == nil {
		return
	}
	if b.resumes {
		b.resumes, b.base = false, n
		b.line.ChangeMax64(b.size - n)
	}
	_ = b.line.Set64(n - b.base) // a failing terminal must not stop the transfer
}

// End removes the bar.
func (b *Bar) End() {
	if b != nil {
		_ = b.line.Finish()
	}
}

// Steps returns a function that shows on a terminal what doctor looks at. A step that took a
// second or more leaves a line. An empty text is the end. In a pipe the function shows nothing.
func (p *Printer) Steps() func(what string) {
	f, ok := p.Stderr.(*os.File)
	if p.Quiet || !ok || !term.IsTerminal(int(f.Fd())) {
		return func(string) {}
	}
	var last string
	var began time.Time
	return func(what string) {
		line := "\r\x1b[K"
		if took := time.Since(began); last != "" && took >= time.Second {
			line += fmt.Sprintf("tested %s (%v)\n", last, took.Round(time.Second))
		}
		if last, began = what, time.Now(); what != "" {
			line += "testing " + what + " ..."
		}
		fmt.Fprint(p.Stderr, line)
	}
}

// Progress returns a function that shows a line on a terminal, in place of the line before.
// An empty line clears it. In a pipe the function shows nothing.
func (p *Printer) Progress() func(string) {
	f, ok := p.Stderr.(*os.File)
	if p.Quiet || !ok || !term.IsTerminal(int(f.Fd())) {
		return func(string) {}
	}
	var last time.Time
	return func(line string) {
		if line != "" && time.Since(last) < 100*time.Millisecond {
			return
		}
		last = time.Now()
		fmt.Fprintf(p.Stderr, "\r\x1b[K%s", printable.Text(line))
	}
}
