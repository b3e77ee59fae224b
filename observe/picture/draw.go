package picture

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"
)

// SVGOptions are the options of [Timeline.SVG].
type SVGOptions struct {
	From, To time.Time // what the picture shows, in the time zone of From
	Title    string
	Captions []Caption     // the lines of a story, below the bars: then times count from From
	Play     time.Duration // longer than 0: the picture shows From to To in this time, again and again
}

// Caption is a line that a picture shows from a moment on.
type Caption struct {
	At    time.Time
	Text  string
	Alert bool // the line is about a failure
}

// The layout of a timeline, in pixels.
const (
	pageWidth = 960
	margin    = 20
	laneRise  = 26
	barRise   = 20
	lineRise  = 18
	maxLanesS = 500 // lanes of an SVG file
	maxNames  = 30  // holders in the legend
	pause     = 5 * time.Second
)

// SVG draws the timeline as an SVG file. A timeline without Play does not move. In a timeline with Play, bars and
// captions appear in their time; viewers that cannot move, or should not, show all of them.
func (t *Timeline) SVG(o SVGOptions) []byte {
	to := o.To.In(o.From.Location())
	v := t.view(o.From, to, maxLanesS)
	label := 40.0
	for _, s := range v.rows {
		label = max(label, float64(columns(clean(s.lock)))*12*charWidth)
	}
	label = min(label, 260)
	d := &drawing{view: v, left: margin + label + 12}
	d.scale = (pageWidth - margin - d.left) / max(to.Sub(o.From).Seconds(), 0.001)

	lanes := 0
	for _, s := range v.rows {
		lanes += max(1, len(s.lanes))
	}
	names := d.names()
	top := 52.0
	bottom := top + float64(max(lanes, 1))*laneRise
	height := bottom + 34 + float64(len(names)+len(o.Captions))*lineRise
	if len(o.Captions) > 0 {
		height += 10
	}
	shown := span(o.From, to)
	marks := ticks(o.From, to, int((pageWidth-margin-d.left)/80))
	if len(o.Captions) > 0 {
		shown = ""
		marks = ticks(time.Time{}, time.Time{}.Add(to.Sub(o.From)), int((pageWidth-margin-d.left)/80))
		for i, m := range marks {
			since := m.at.Sub(time.Time{})
			marks[i] = tick{o.From.Add(since), since.String()}
		}
	}
	var description []string
	if shown != "" {
		description = []string{shown}
	}
	for _, c := range o.Captions {
		description = append(description, c.Text)
	}
	style := ""
	if o.Play > 0 {
		style = animation(o, d)
	}
	d.svg = newSVG(pageWidth, height, o.Title, description, style)
	d.text(margin, 28, "t", o.Title, ` font-size="15" font-weight="bold"`)
	d.text(pageWidth-margin, 28, "f", shown, ` text-anchor="end"`)

	for _, tick := range marks {
		x := d.x(tick.at)
		d.rule(x, top-6, x, bottom)
		anchor := ` text-anchor="middle" font-size="11"`
		if x > pageWidth-margin-30 {
			anchor = ` text-anchor="end" font-size="11"`
		}
		d.text(x, bottom+16, "f", tick.text, anchor)
	}
	y := top
	for _, s := range v.rows {
		y = d.row(s, y, label)
	}
	if len(v.rows) == 0 {
		d.text(margin, top+18, "f", "no lock was held", "")
	}
	d.rule(d.left, bottom, pageWidth-margin, bottom)
	if o.Play > 0 { // what is not yet
		fmt.Fprintf(d, `<rect class="p c" x="%s" y="%s" width="%s" height="%s" fill="%s" opacity="0"/>`+"\n",
			round(d.left), round(top-16), round(pageWidth-margin-d.left+1), round(bottom-top+15), panelColor)
	}
	y = bottom + 38
	for _, line := range names {
		d.legend(y, line)
		y += lineRise
	}
	if len(o.Captions) > 0 {
		y += 10
	}
	for i, c := range o.Captions {
		class := "t"
		if c.Alert {
			class = "a"
		}
		if o.Play > 0 {
			fmt.Fprintf(d, `<g class="k%d">`, i)
		}
		d.text(margin, y, "f", fmt.Sprintf("%6.2f s", c.At.Sub(o.From).Seconds()), "")
		d.text(margin+80, y, class, cut(clean(c.Text), 112), "")
		if o.Play > 0 {
			d.WriteString("</g>\n")
		}
		y += lineRise
	}
	return d.end()
}

// drawing is a timeline in the making.
type drawing struct {
	*svg
	view
	left, scale float64 // pixels, pixels per second
}

func (d *drawing) x(at time.Time) float64 {
	return d.left + later(earlier(at, d.to), d.from).Sub(d.from).Seconds()*d.scale
}

// row draws a lock, and returns where the next one begins.
func (d *drawing) row(s shown, y, label float64) float64 {
	d.text(margin, y+14, "t", cut(clean(s.lock), int(label/12/charWidth)), "")
	next := y + float64(max(1, len(s.lanes)))*laneRise
	for i, lane := range s.lanes {
		for _, b := range lane {
			d.grant(b, y+float64(i)*laneRise)
		}
	}
	for _, m := range s.marks {
		x := d.x(m.at)
		fmt.Fprintf(d, `<g><title>%s</title><path class="s" d="M%s %sV%s" stroke="%s" stroke-width="2"/>`, escape(at(m.at)+"  "+m.text), round(x), round(y-5), round(next-laneRise+barRise), alertColor)
		if m.kind == Noted {
			d.text(x-3, y-1, "a", m.text, ` font-size="11" text-anchor="end"`)
		} else {
			d.text(x+3, y-1, "a", signs[m.kind].sign, ` font-size="11" font-weight="bold"`)
		}
		d.WriteString("</g>\n")
	}
	return next
}

// grant draws one grant: faint from where the holder did not renew.
func (d *drawing) grant(b *bar, y float64) {
	from, to := d.x(b.from), d.x(b.end(d.to))
	due := to
	if b.overdue(d.to) {
		due = max(from, d.x(b.until))
	}
	width := max(to-from, 1.5)
	fill := fills[b.letter%len(fills)]
	tooltip := fmt.Sprintf("%s, token %d, %s, from %s", b.holder, b.token, cmp.Or(b.how, Granted), at(b.from))
	if !b.to.IsZero() {
		tooltip += " to " + at(b.to)
	}
	attributes := fmt.Sprintf(` rx="3" fill="%s"`, fill)
	if due < to {
		attributes = fmt.Sprintf(` rx="3" fill="%s" fill-opacity="0.3" stroke="%[1]s" stroke-dasharray="3 2"`, fill)
	}
	d.bar(from, y, width, barRise, attributes, tooltip)
	if due < to && due > from {
		d.bar(from, y, due-from, barRise, fmt.Sprintf(` rx="3" fill="%s"`, fill), tooltip)
	}
	name := b.symbol() + " " + clean(b.holder)
	if room := int((due - from - 8) / 12 / charWidth); room >= columns(name) {
		d.text(from+5, y+14, "", name, "")
	} else if room >= 1 {
		d.text(from+4, y+14, "", b.symbol(), "")
	}
}

// at is a moment in a tooltip.
func at(t time.Time) string { return t.Format("15:04:05.000") }

// named is an entry of the legend: a holder, or a sign.
type named struct {
	fill, sign, text string
	width            float64
}

// names returns the lines of the legend.
func (d *drawing) names() (lines [][]named) {
	var all []named
	for i, b := range d.holders {
		if i == maxNames {
			all = append(all, named{text: "and " + count(len(d.holders)-i, "more holder")})
			break
		}
		all = append(all, named{fill: fills[b.letter%len(fills)], sign: b.symbol(), text: cut(clean(b.holder), 60)})
	}
	for _, k := range d.marks {
		if k == Noted {
			continue // the picture has its word
		}
		all = append(all, named{sign: signs[k].sign, text: signs[k].means})
	}
	if hidden := d.hidden(); hidden != "" {
		all = append(all, named{text: hidden})
	}
	used := math.Inf(1)
	for _, n := range all {
		n.width = float64(columns(n.text))*12*charWidth + 22 + 18
		if used+n.width > pageWidth-2*margin {
			lines, used = append(lines, nil), 0
		}
		used += n.width
		lines[len(lines)-1] = append(lines[len(lines)-1], n)
	}
	return lines
}

func (d *drawing) legend(y float64, line []named) {
	x := float64(margin)
	for _, n := range line {
		switch {
		case n.fill != "":
			fmt.Fprintf(d, `<rect x="%s" y="%s" width="15" height="15" rx="3" fill="%s"/>`+"\n", round(x), round(y-12), n.fill)
			d.text(x+4, y, "", n.sign, "")
		case n.sign != "":
			d.text(x+4, y, "a", n.sign, ` font-weight="bold"`)
		}
		d.text(x+22, y, "f", n.text, "")
		x += n.width
	}
}

// animation is the style that shows a story again and again.
func animation(o SVGOptions, d *drawing) string {
	whole := o.Play + pause
	percent := func(at time.Time) float64 {
		done := at.Sub(o.From).Seconds() / max(o.To.Sub(o.From).Seconds(), 0.001)
		return 100 * done * o.Play.Seconds() / whole.Seconds()
	}
	var b strings.Builder
	seconds := num(whole.Seconds())
	fmt.Fprintf(&b, "\n@media (prefers-reduced-motion:no-preference){.c{transform-origin:%spx 0;animation:c %ss linear infinite}", num(pageWidth-margin+1), seconds)
	for i := range o.Captions {
		fmt.Fprintf(&b, ".k%d{animation:k%[1]d %ss linear infinite}", i, seconds)
	}
	fmt.Fprintf(&b, "}\n@keyframes c{0%%{opacity:1;transform:scaleX(1)}%s%%{opacity:1;transform:scaleX(0)}to{opacity:0;transform:scaleX(0)}}", round(percent(o.To)))
	for i, c := range o.Captions {
		p := percent(c.At)
		fmt.Fprintf(&b, "\n@keyframes k%d{0%%,%s%%{opacity:0}%s%%,to{opacity:1}}", i, round(p), round(p+0.5))
	}
	return b.String() + "\n"
}
