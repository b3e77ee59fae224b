package picture_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/observe/picture"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares a picture with its file.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is another picture (go test ./observe/picture -update writes it); got\n%s\nwant\n%s", file, got, want)
	}
}

var start = time.Date(2026, 11, 20, 2, 0, 0, 0, time.UTC)

// second returns a moment of the night.
func second(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }

// night is a night of five locks, with every kind of event.
func night() *picture.Timeline {
	t := &picture.Timeline{}
	for _, e := range []picture.Event{
		{Time: second(0), Lock: "nightly", Kind: picture.Granted, Token: 1, Holder: "ada@db1 pid 4711", Until: second(30)},
		{Time: second(10), Lock: "nightly", Kind: picture.Renewed, Token: 1, Until: second(40)},
		{Time: second(72), Lock: "nightly", Kind: picture.TakenOver, Token: 2, Holder: "bob@db2 pid 12", Reason: "the earlier holder did not renew for 30s", Until: second(140)},
		{Time: second(110), Lock: "nightly", Kind: picture.Released, Token: 2, Holder: "bob@db2 pid 12"},

		{Time: second(5), Lock: "jobs/import", Kind: picture.Granted, Token: 7, Holder: "bob@db2 pid 12"},
		{Time: second(40), Lock: "jobs/import", Kind: picture.Asked, Token: 7, By: "eve@ops"},
		{Time: second(60), Lock: "jobs/import", Kind: picture.Broken, Token: 7, By: "eve@ops", Reason: "stuck"},
		{Time: second(80), Lock: "jobs/import", Kind: picture.Granted, Token: 9, Holder: "cy@db3"},
		{Time: second(100), Lock: "jobs/import", Kind: picture.Changed, Token: 10, Holder: "dee@db4"},

		{Time: second(20), Lock: "slots", Kind: picture.Entered, Token: 1, Holder: "cy@db3"},
		{Time: second(30), Lock: "slots", Kind: picture.Entered, Token: 2, Holder: "dee@db4"},
		{Time: second(50), Lock: "slots", Kind: picture.Released, Token: 1},
		{Time: second(70), Lock: "slots", Kind: picture.Lost, Token: 2},
		{Time: second(75), Lock: "slots", Kind: picture.Missing, Count: 3},
		{Time: second(90), Lock: "slots", Kind: picture.Entered, Token: 3, Holder: "ada@db1 pid 4711"},
		{Time: second(95), Lock: "slots", Kind: picture.Refused, Token: 2, By: "dee@db4"},
		{Time: second(92), Lock: "slots", Kind: picture.Noted, Reason: "kill -9"},

		{Time: second(64), Lock: "short", Kind: picture.Granted, Token: 1, Holder: "cron@db1"},
		{Time: second(64.01), Lock: "short", Kind: picture.Released, Token: 1},
	} {
		t.Add(e)
	}
	return t
}

const title = "locks of file:/var/lib/holdfast"

func TestText(t *testing.T) {
	for name, o := range map[string]picture.TextOptions{
		"wide.txt":    {Width: 100},
		"narrow.txt":  {Width: 44},
		"low.txt":     {Width: 70, Height: 14, Notes: []string{"the store does not answer"}},
		"color.txt":   {Width: 70, Color: true},
		"longago.txt": {Width: 70, From: second(3600), To: second(3700)},
	} {
		o.Title = title
		if o.From.IsZero() {
			o.From, o.To = start, second(120)
		}
		got := night().Text(o)
		golden(t, name, []byte(got))
		for line := range strings.Lines(got) {
			plain := regexp.MustCompile(`\x1b\[\d+m`).ReplaceAllString(strings.TrimSuffix(line, "\n"), "")
			if n := utf8.RuneCountInString(plain); n > o.Width {
				t.Errorf("%s: a line has %d columns, want at most %d: %q", name, n, o.Width, plain)
			}
		}
		if lines := strings.Count(got, "\n"); o.Height > 0 && lines > o.Height {
			t.Errorf("%s has %d lines, want at most %d", name, lines, o.Height)
		}
	}
	golden(t, "empty.txt", []byte((&picture.Timeline{}).Text(picture.TextOptions{From: start, To: second(60), Width: 60, Title: title})))
}

// wellFormed checks that a picture is XML, and has nothing that acts or that loads another file.
func wellFormed(t *testing.T, svg []byte) string {
	t.Helper()
	var texts strings.Builder
	d := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return texts.String()
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		switch token := token.(type) {
		case xml.StartElement:
			switch token.Name.Local {
			case "svg", "title", "desc", "style", "rect", "text", "path", "g":
			default:
				t.Errorf("the picture has an element %s", token.Name.Local)
			}
			for _, a := range token.Attr {
				if strings.HasPrefix(a.Name.Local, "on") || strings.Contains(a.Name.Local, "href") || strings.Contains(a.Value, "url(") {
					t.Errorf("the picture has an attribute %s=%q", a.Name.Local, a.Value)
				}
			}
		case xml.CharData:
			texts.Write(token)
			texts.WriteByte('\n')
		case xml.ProcInst, xml.Directive:
			t.Errorf("the picture has %v", token)
		}
	}
}

func TestSVG(t *testing.T) {
	o := picture.SVGOptions{From: start, To: second(120), Title: title}
	svg := night().SVG(o)
	wellFormed(t, svg)
	golden(t, "night.svg", svg)
	wellFormed(t, (&picture.Timeline{}).SVG(o))

	o.Captions = []picture.Caption{{At: second(0), Text: "ada holds nightly"}, {At: second(72), Text: "bob takes over <now>", Alert: true}}
	o.Play = 10 * time.Second
	svg = night().SVG(o)
	texts := wellFormed(t, svg)
	golden(t, "story.svg", svg)
	if !strings.Contains(texts, "bob takes over <now>") {
		t.Errorf("the captions are not in %q", texts)
	}
}

// Names and holders of others do not end an element, control a terminal, or change the direction of text.
func TestHostileNames(t *testing.T) {
	hostile := "</text><script>alert(1)</script>\"'&\x1b[2J\x00\u202e\u2028\ufffe\xff]]>"
	var tl picture.Timeline
	for i, e := range []picture.Kind{picture.Granted, picture.TakenOver, picture.Asked} {
		tl.Add(picture.Event{Time: second(float64(i)), Lock: hostile, Kind: e, Token: uint64(i), Holder: hostile, By: hostile, Reason: hostile})
	}
	o := picture.SVGOptions{From: start, To: second(60), Title: hostile, Captions: []picture.Caption{{At: start, Text: hostile}}, Play: time.Second}
	for _, svg := range [][]byte{tl.SVG(o), picture.Latencies(hostile, hostile, []picture.Latency{{Operation: hostile}})} {
		if texts := wellFormed(t, svg); !strings.Contains(texts, "<script>") { // escaped, and whole
			t.Errorf("the name is not in %q", texts)
		}
		if bytes.ContainsAny(svg, "\x1b\x00\u202e\u2028\ufffe") {
			t.Errorf("control characters in\n%q", svg)
		}
	}
	text := tl.Text(picture.TextOptions{From: start, To: second(60), Width: 200, Title: hostile, Notes: []string{hostile}})
	if strings.ContainsAny(text, "\x1b\x00\u202e\u2028\ufffe") {
		t.Errorf("control characters in\n%q", text)
	}
}

// A picture of many locks and holders has a bound, and says what it leaves out.
func TestManyLocks(t *testing.T) {
	var tl picture.Timeline
	for i := range 5000 {
		tl.Add(picture.Event{Time: second(float64(i) / 1000), Lock: fmt.Sprintf("lock %04d", i), Kind: picture.Granted, Token: 1, Holder: fmt.Sprintf("holder %04d", i)})
	}
	text := tl.Text(picture.TextOptions{From: start, To: second(60), Width: 80, Height: 24})
	if n := strings.Count(text, "\n"); n > 24 || !strings.Contains(text, "not shown: 4987 more locks") || !strings.Contains(text, "lock 4999") {
		t.Errorf("%d lines:\n%s", n, text)
	}
	svg := tl.SVG(picture.SVGOptions{From: start, To: second(60)})
	if wellFormed(t, svg); len(svg) > 1<<20 || !bytes.Contains(svg, []byte("not shown: 4500 more locks")) {
		t.Errorf("%d bytes", len(svg))
	}
	// A lock that changes its holder all the time.
	var busy picture.Timeline
	for lock := range 10 {
		for i := range 1000 {
			busy.Add(picture.Event{Time: second(float64(i) / 100), Lock: fmt.Sprint(lock), Kind: picture.Changed, Token: uint64(i), Holder: fmt.Sprint("h", i%3)})
		}
	}
	svg = busy.SVG(picture.SVGOptions{From: start, To: second(60)})
	if len(svg) > 3<<20 || !bytes.Contains(svg, []byte("not shown: 5000 more grants")) {
		t.Errorf("%d bytes", len(svg))
	}
	// One lock with many holders.
	var one picture.Timeline
	for i := range 3000 {
		one.Add(picture.Event{Time: second(float64(i) / 1000), Lock: "slots", Kind: picture.Entered, Token: uint64(i), Holder: "h"})
	}
	text = one.Text(picture.TextOptions{From: start, To: second(60), Width: 80})
	if !strings.Contains(text, "not shown: 992 more grants") { // of the last 1,000
		t.Errorf("got\n%s", text)
	}
	// Long texts.
	var long picture.Timeline
	for i := range 1500 {
		text := fmt.Sprint(i, strings.Repeat("x", 60_000))
		long.Add(picture.Event{Time: second(float64(i)), Lock: "job", Kind: picture.TakenOver, Token: uint64(i), Holder: text, Reason: text})
	}
	if svg = long.SVG(picture.SVGOptions{From: start, To: second(2000)}); len(svg) > 2<<20 {
		t.Errorf("long texts make %d bytes", len(svg))
	}
	// What is over is forgotten; letters are not given twice.
	long.Cut(second(1499.5))
	long.Add(picture.Event{Time: second(1500), Lock: "job", Kind: picture.Granted, Token: 1500, Holder: "new"})
	text = long.Text(picture.TextOptions{From: second(1490), To: second(1510), Width: 80})
	if !strings.Contains(text, "s new") || strings.Contains(text, "1498") {
		t.Errorf("after Cut:\n%s", text)
	}
	one.Cut(second(100))
	if text = one.Text(picture.TextOptions{From: start, To: second(60), Width: 80}); !strings.Contains(text, "more grants") {
		t.Errorf("Cut forgot grants that are not over:\n%s", text)
	}
}

// A bad clock, a bad width or a picture of no time is no panic.
func TestBounds(t *testing.T) {
	tl := night()
	tl.Add(picture.Event{Time: second(-500), Lock: "nightly", Kind: picture.Released, Token: 2})
	tl.Add(picture.Event{Time: second(-500), Lock: "unknown", Kind: picture.Released, Token: 99})
	tl.Add(picture.Event{Lock: "", Kind: "new kind"})
	for _, to := range []time.Time{start, second(-1), second(1e-9), second(1e9), {}} {
		for _, width := range []int{-1, 0, 1, 10000} {
			tl.Text(picture.TextOptions{From: start, To: to, Width: width, Height: width})
		}
		wellFormed(t, tl.SVG(picture.SVGOptions{From: start, To: to}))
	}
	for _, years := range []int{100, 200, 300, 9000} { // a time.Duration has 292 years
		to := start.AddDate(years, 0, 0)
		tl.Text(picture.TextOptions{From: start, To: to, Width: 24})
		wellFormed(t, tl.SVG(picture.SVGOptions{From: start, To: to}))
	}
	tl.Cut(second(1e9))
	tl.Cut(second(1e9))
	wellFormed(t, picture.Latencies("", "", nil))
}

func TestLatencies(t *testing.T) {
	us := func(n float64) time.Duration { return time.Duration(n * 1000) }
	svg := picture.Latencies("holdfast bench", "file:/var/lib/holdfast, 200 measurements of each operation", []picture.Latency{
		{Operation: "conditional write", Least: us(35), Median: us(44.7), P90: us(70), P99: us(160), Most: us(900), RequestsPerOperation: 1},
		{Operation: "acquire an existing lock", Least: us(120), Median: us(144.75), P90: us(200), P99: us(460), Most: us(12000), RequestsPerOperation: 2},
	})
	wellFormed(t, svg)
	golden(t, "latencies.svg", svg)
}
