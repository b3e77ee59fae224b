package output

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/printable"
)

// Bar shows on a terminal how far a transfer is. In a pipe, and for small objects, it shows
// nothing. All methods may be called on nil.
type Bar struct {
	w     io.Writer
	what  string
	total int64 // what a full bar stands for; negative: not known
	bytes bool  // the numbers are bytes

	mu    sync.Mutex
	done  int64
	began time.Time
	drawn time.Time // the last time; zero: the terminal shows no bar

	resumes bool  // the next set says where the transfer begins
	base    int64 // bytes that were transferred before
}

// BarFrom is the size, in bytes, from which a transfer has a bar.
const BarFrom = 4 << 20

// barEvery is the time from one drawing of a bar to the next.
const barEvery = 200 * time.Millisecond

// Bar returns the bar for a transfer of size bytes; a negative size is not known.
func (p *Printer) Bar(what string, size int64) *Bar {
	f := p.progress()
	if f == nil || p.NoBars || size >= 0 && size < BarFrom {
		return nil
	}
	return newBar(f, what, size, true)
}

// Counter returns a line for a number that grows to no known end.
func (p *Printer) Counter(what string) *Bar {
	if f := p.progress(); f != nil {
		return newBar(f, what, -1, false)
	}
	return nil
}

func newBar(w io.Writer, what string, total int64, bytes bool) *Bar {
	return &Bar{w: w, what: printable.Line(what), total: total, bytes: bytes, began: time.Now()}
}

// to shows that the transfer is at done. The caller holds b.mu.
func (b *Bar) to(done int64) {
	b.done = done
	if now := time.Now(); now.Sub(cmp.Or(b.drawn, b.began)) >= barEvery {
		b.drawn = now
		line := b.line(now.Sub(b.began))
		what := []rune(b.what)
		if room := max(8, b.width()-len([]rune(line))); room < len(what) {
			what = what[:room] // a bar of two lines could not be removed
		}
		_, _ = io.WriteString(b.w, "\r\x1b[K"+string(what)+line) // a failing terminal must not stop the transfer
	}
}

// width returns how many characters the terminal can show on a line.
func (b *Bar) width() int {
	if f, ok := b.w.(*os.File); ok {
		return cmp.Or(widthOf(f), 80) - 1
	}
	return 79
}

// line returns the bar as text, after what is transferred, if the transfer has taken so long until now.
func (b *Bar) line(took time.Duration) string {
	done, total := b.done-b.base, b.total-b.base
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	if b.bytes {
		number = Bytes
	}
	rate := int64(float64(done) / took.Seconds())
	if b.total < 0 {
		return fmt.Sprintf(" %s, %s/s", number(done), number(rate))
	}
	left := ""
	if rate > 0 && done < total {
		left = ", " + (time.Duration((total-done)/rate) * time.Second).String() + " left"
	}
	percent := int(100 * min(done, total) / max(total, 1))
	const width = 10
	full := width * percent / 100
	return fmt.Sprintf(" %3d%% |%s%s| (%s of %s, %s/s%s)", percent, strings.Repeat("█", full), strings.Repeat(" ", width-full), number(done), number(total), number(rate), left)
}

// Clear makes room for a line of output. The next set shows the bar again.
func (b *Bar) Clear() {
	if b != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !b.drawn.IsZero() {
			_, _ = io.WriteString(b.w, "\r\x1b[K")
		}
	}
}

// Write shows that the bytes of p are transferred, too.
func (b *Bar) Write(p []byte) (int, error) {
	if b != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.to(b.done + int64(len(p)))
	}
	return len(p), nil
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
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.resumes {
		b.resumes, b.base, b.began = false, n, time.Now()
	}
	b.to(n)
}

// End removes the bar.
func (b *Bar) End() { b.Clear() }

// Steps returns a function that shows on a terminal what doctor looks at. A step that took a
// second or more leaves a line. An empty text is the end. In a pipe the function shows nothing.
func (p *Printer) Steps() func(what string) {
	if p.progress() == nil {
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
	if p.progress() == nil {
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
