package locks

import (
	"cmp"
	"context"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/observe/picture"
)

// timelineOptions are the flags of watch for pictures.
type timelineOptions struct {
	draw, past bool
	toFile     bool
	svg        string
	begin      string
	since      time.Duration // from begin to now
}

// The bounds of what a picture shows, and how often it is drawn and written.
const (
	shortestSince = time.Second
	longestSince  = 366 * 24 * time.Hour
	shortest      = 30 * time.Second // a picture shows so much, also if watch has just begun
	drawSoon      = 100 * time.Millisecond
	drawEvery     = time.Second
)

// pipeWidth is the width of a picture that goes to no terminal.
const pipeWidth = 100

// mostNotes is how many problems a picture shows.
const mostNotes = 3

func (o *timelineOptions) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&o.draw, "timeline", false, "draw who holds which lock, as a picture that moves")
	flags.StringVar(&o.svg, "svg", "", "also write the picture to this SVG `file`; implies --timeline")
	flags.StringVar(&o.begin, "since", "10m", "from when on the picture shows locks: a duration such as 24h, or a time such as \"2026-11-24 02:00\"")
	flags.BoolVar(&o.past, "from-history", false, "draw the history of the locks (see \"holdfast history\"), and end; implies --timeline")
	_ = cmd.MarkFlagFilename("svg", "svg")
}

// check reports whether watch draws a picture.
func (o *timelineOptions) check(flags *pflag.FlagSet, json bool) (bool, error) {
	o.toFile = flags.Changed("svg")
	drawn := o.draw || o.past || o.toFile
	switch {
	case !drawn && flags.Changed("since"):
		return false, exit.Usagef("--since is for pictures: add --timeline")
	case !drawn:
		return false, nil
	case json:
		return false, exit.Usagef("a picture is not JSON: leave out --json, or the flags of the picture")
	case flags.Changed("renewals"):
		return false, exit.Usagef("--renewals is for lines: leave out --renewals, or the flags of the picture")
	case o.begin == "":
		return false, exit.Usagef("--since is empty")
	}
	now := time.Now()
	from, err := cmdline.Since(o.begin, now)
	o.since = now.Sub(from)
	if err == nil && (o.since < shortestSince || o.since > longestSince) {
		err = exit.Usagef("--since must be from %v to %v ago", shortestSince, longestSince)
	}
	return true, err
}

// canvas is a timeline, and where it is shown.
type canvas struct {
	picture.Timeline
	title  string
	since  time.Duration
	began  time.Time
	notes  map[string]string
	file   *cmdline.ReplacedFile // nil: no SVG file
	screen *os.File              // nil: no terminal
	color  bool
	drawn  bool // the terminal shows the picture
	any    bool // something was seen

	written time.Time // when the file was written last

	resized <-chan os.Signal // the terminal has another size
}

// timeline draws the locks below a prefix: what happens until a signal comes, or their history.
func (a *access) timeline(ctx context.Context, f *leases.Flags, prefix string, poll time.Duration, o *timelineOptions) (err error) {
	c := &canvas{since: o.since, began: time.Now(), notes: map[string]string{}}
	if screen, ok := a.Screen(); ok {
		c.screen, c.color = screen, os.Getenv("NO_COLOR") == ""
		var ignore func()
		c.resized, ignore = resizes()
		defer ignore()
	}
	if o.toFile {
		if c.file, err = cmdline.OpenReplaced("--svg", o.svg); err != nil {
			return err
		}
		defer c.file.Close()
	}
	client, st, err := a.Client(ctx, a.StoreURL, f)
	if err != nil {
		return err
	}
	defer st.Close()
	c.title = printable.Text("locks of " + st.URL)
	if prefix != "" {
		c.title = printable.Text("locks below " + prefix + " of " + st.URL)
	}
	ctx, stop := cmdline.UntilSignal(ctx)
	defer stop()
	if o.past {
		c.began = c.began.Add(-c.since)
		err = past(ctx, client, prefix, c)
	} else {
		err = a.live(ctx, client, prefix, poll, c)
	}
	if err != nil && !c.any {
		return err
	}
	// After an error, too, what was seen is worth its picture.
	_, failed := io.WriteString(a.Stdout, c.text(0))
	return cmp.Or(err, c.write(), failed)
}

// seen is what happened to a lock, or a problem with it.
type seen struct {
	lock   string
	events []picture.Event
	err    error
}

// live draws what happens, until the context ends.
func (a *access) live(ctx context.Context, client *lease.Client, prefix string, poll time.Duration, c *canvas) error {
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	news, ended := make(chan seen), make(chan error, 1)
	send := func(s seen) {
		select {
		case news <- s:
		case <-ctx.Done():
		}
	}
	wg.Go(func() {
		ended <- a.discover(ctx, client, prefix, poll, func(name string) {
			wg.Go(func() { track(ctx, client, name, send) })
		}, func(err error) { send(seen{err: err}) })
	})
	defer c.leave()
	soon, changed := true, true
	for timer := time.NewTimer(drawSoon); ; {
		select {
		case s := <-news:
			changed = c.add(s) || changed
			if !soon {
				soon = true
				timer.Reset(drawSoon)
			}
			continue
		case err := <-ended:
			return err
		case <-c.resized:
		case <-timer.C:
		}
		if err := c.draw(); err != nil {
			return err
		}
		if changed && time.Since(c.written) >= drawEvery {
			changed = false
			if err := c.write(); err != nil {
				return err
			}
		}
		soon = false
		timer.Reset(drawEvery)
	}
}

// track sends what happens to one lock.
func track(ctx context.Context, client *lease.Client, name string, send func(seen)) {
	tracker := picture.Tracker{HolderOf: func(session string) string { return leases.HolderOfSession(ctx, client, session) }}
	for info, err := range client.Watch(ctx, name) {
		if ctx.Err() != nil {
			return
		}
		s := seen{lock: name, err: err}
		if err == nil {
			s.events = tracker.See(info.Record, time.Now())
			explain(ctx, client, s.events)
		}
		send(s)
	}
}

// add adds what happened to a lock, and reports whether the picture of it differs.
func (c *canvas) add(s seen) (changed bool) {
	c.any = true
	note, had := c.notes[s.lock]
	delete(c.notes, s.lock)
	if s.err != nil {
		c.notes[s.lock] = output.OneLine(s.err)
	}
	for _, e := range s.events {
		e.Lock, e.Holder, e.By, e.Reason = printable.Text(e.Lock), printable.Text(e.Holder), printable.Text(e.By), printable.Text(e.Reason)
		c.Add(e)
		changed = changed || e.Kind != picture.Renewed
	}
	now, has := c.notes[s.lock]
	return changed || had != has || note != now
}

// span is the time that the picture shows.
func (c *canvas) span() (from, to time.Time) {
	to = time.Now()
	from = to.Add(-min(c.since, max(shortest, to.Sub(c.began))))
	c.Cut(from)
	return from, to
}

// text is the picture for at most height lines, or for as many as it needs.
func (c *canvas) text(height int) string {
	o := picture.TextOptions{Title: c.title, Width: pipeWidth, Height: height, Color: c.color}
	o.From, o.To = c.span()
	for _, lock := range slices.Sorted(maps.Keys(c.notes)) {
		if len(o.Notes) < mostNotes {
			o.Notes = append(o.Notes, c.notes[lock])
		}
	}
	if c.screen != nil {
		if width, lines, err := term.GetSize(int(c.screen.Fd())); err == nil && width > 0 {
			o.Width = width
			if height < 0 {
				o.Height = lines
			}
		}
	}
	return c.Text(o)
}

// The sequences that give the picture a screen of its own, without a cursor, and that restore the terminal.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
)

// draw shows the picture on the terminal.
func (c *canvas) draw() error {
	if c.screen == nil {
		return nil
	}
	start := "\x1b[H"
	if !c.drawn {
		c.drawn, start = true, enterScreen+start
	}
	text := strings.TrimSuffix(c.text(-1), "\n")
	_, err := c.screen.WriteString(start + strings.ReplaceAll(text, "\n", "\x1b[K\n") + "\x1b[K\x1b[J")
	return err
}

func (c *canvas) leave() {
	if c.drawn {
		_, _ = c.screen.WriteString(leaveScreen) // there is no other place for an error
	}
}

// write writes the SVG file.
func (c *canvas) write() error {
	if c.file == nil {
		return nil
	}
	c.written = time.Now()
	from, to := c.span()
	return c.file.Write(c.SVG(picture.SVGOptions{From: from, To: to, Title: c.title}))
}
