package picture

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// TextOptions are the options of [Timeline.Text].
type TextOptions struct {
	From, To time.Time // what the picture shows, in the time zone of From
	Width    int       // columns of the terminal, at least 24
	Height   int       // lines of the terminal; 0: as many as the locks need, at most 1,000
	Color    bool      // with ANSI colours
	Title    string    // the first line
	Notes    []string  // more lines at the end
}

// palette are the ANSI colours of holders.
var palette = []int{36, 33, 32, 35, 34, 31}

// alert is the ANSI colour of signs.
const alert = 31

// maxLegend is how many lines name holders, and how many explain signs.
const maxLegend = 3

// Text draws the timeline as lines for a terminal. No line is wider than Width. If Height has room for one lock,
// there are at most Height lines.
func (t *Timeline) Text(o TextOptions) string {
	width, height := max(o.Width, 24), o.Height
	if height <= 0 {
		height = 1000
	}
	to := o.To.In(o.From.Location())
	// Above and below the rows: title, axis, labels, holders and how many more, signs, what is hidden, notes.
	room := max(1, height-5-2*maxLegend-len(o.Notes))
	v := t.view(o.From, to, room)

	label := 4
	for _, s := range v.rows {
		label = max(label, columns(clean(s.lock)))
	}
	label = min(label, width/3)
	f := &frame{view: v, bars: width - label - 2, label: label, color: o.Color}
	f.line(cut(clean(o.Title+"  "+span(o.From, to)), width))
	for _, s := range v.rows {
		f.row(s)
	}
	if len(v.rows) == 0 {
		f.line(cut("(no lock was held)", width))
	}
	f.axis()
	var holders, marks []item
	for _, b := range v.holders {
		holders = append(holders, item{cell{b.symbol(), b.color()}, b.holder})
	}
	for _, k := range v.marks {
		marks = append(marks, item{cell{signs[k].sign, alert}, signs[k].means})
	}
	f.items(holders, "holder", maxLegend, width)
	f.items(marks, "sign", maxLegend, width)
	for _, note := range slices.Concat([]string{v.hidden()}, o.Notes) {
		if note != "" {
			f.line(cut(clean(note), width))
		}
	}
	return f.String()
}

// frame is a picture in the making.
type frame struct {
	strings.Builder
	view
	bars, label int // columns
	color       bool
}

func (f *frame) line(text string) {
	f.WriteString(strings.TrimRight(text, " "))
	f.WriteByte('\n')
}

// column returns the column of a time.
func (f *frame) column(at time.Time) int {
	whole := f.to.Sub(f.from)
	if whole <= 0 {
		return 0
	}
	return min(max(0, int(float64(f.bars)*at.Sub(f.from).Seconds()/whole.Seconds())), f.bars-1)
}

// cell is one character of a row.
type cell struct {
	text  string
	color int // an ANSI colour; 0: none
}

// row draws a lock: one line for each lane.
func (f *frame) row(s shown) {
	name := cut(clean(s.lock), f.label)
	for i := range max(1, len(s.lanes)) {
		cells := make([]cell, f.bars)
		if i < len(s.lanes) {
			for _, b := range s.lanes[i] {
				f.bar(cells, b)
			}
		}
		if i == 0 {
			for _, m := range s.marks {
				at := f.column(m.at)
				if at > 0 && cells[at].text != "" && strings.Contains(letters, cells[at].text) {
					at-- // the letter of a new holder stays readable
				}
				cells[at] = cell{signs[m.kind].sign, alert}
			}
		}
		f.line(name + strings.Repeat(" ", f.label-columns(name)) + " │" + f.paint(cells))
		name = ""
	}
}

func (b *bar) color() int { return palette[b.letter%len(palette)] }

func (f *frame) bar(cells []cell, b *bar) {
	color := b.color()
	first, last := f.column(later(b.from, f.from)), f.column(b.end(f.to))
	if b.to.IsZero() {
		last++
	}
	due := last
	if b.overdue(f.to) {
		due = f.column(later(b.until, f.from)) + 1
	}
	for i := first; i < max(last, first+1); i++ {
		switch {
		case i == first:
			cells[i] = cell{b.symbol(), color}
		case i < due:
			cells[i] = cell{"━", color}
		default:
			cells[i] = cell{"╌", color}
		}
	}
}

func (f *frame) paint(cells []cell) string {
	var b strings.Builder
	color := 0
	for _, c := range cells {
		if c.text == "" {
			c = cell{text: " "}
		}
		if f.color && c.color != color {
			color = c.color
			fmt.Fprintf(&b, "\x1b[%dm", color)
		}
		b.WriteString(c.text)
	}
	if color != 0 {
		b.WriteString("\x1b[0m")
	}
	return b.String()
}

// axis draws the times below the rows.
func (f *frame) axis() {
	line, labels := []rune(strings.Repeat("─", f.bars)), []rune(strings.Repeat(" ", f.bars))
	free := 0
	for _, t := range ticks(f.from, f.to, f.bars/12) {
		at := f.column(t.at)
		if at < free || at+len(t.text) > f.bars {
			continue
		}
		line[at] = '┴'
		copy(labels[at:], []rune(t.text))
		free = at + len(t.text) + 1
	}
	f.line(strings.Repeat(" ", f.label) + " └" + string(line))
	f.line(strings.Repeat(" ", f.label) + "  " + string(labels))
}

// item is a sign with its meaning.
type item struct {
	sign cell
	text string
}

// items prints items, several on a line, on at most lines lines, and then how many more there are.
func (f *frame) items(all []item, what string, lines, width int) {
	line, used := "", 0
	flush := func() {
		if used > 0 {
			f.line(line)
			lines, line, used = lines-1, "", 0
		}
	}
	for i, it := range all {
		text := cut(clean(it.text), min(width, 60)-2)
		if used > 0 && used+3+2+columns(text) > width {
			flush()
		}
		if lines == 0 {
			f.line("and " + count(len(all)-i, "more "+what))
			return
		}
		if used > 0 {
			line, used = line+"   ", used+3
		}
		line += f.paint([]cell{it.sign}) + " " + text
		used += 2 + columns(text)
	}
	flush()
}

// clean replaces what could control a terminal, change the direction of text, or is not allowed in XML.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' || r == 0xfffe || r == 0xffff {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
}

// columns returns how many columns a text has at most. A letter from U+1100 on counts for two.
func columns(s string) (n int) {
	for _, r := range s {
		if n++; r >= 0x1100 && r != '…' {
			n++
		}
	}
	return n
}

// cut cuts a text to a width. A text that was cut ends with an ellipsis.
func cut(s string, width int) string {
	if columns(s) <= width {
		return s
	}
	used := 0
	for i, r := range s {
		n := columns(string(r))
		if used+n > width-1 {
			return s[:i] + "…"
		}
		used += n
	}
	return s
}
