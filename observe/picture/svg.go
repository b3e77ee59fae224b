package picture

import (
	"fmt"
	"strconv"
	"strings"
)

// svg writes an SVG file. It escapes all texts.
type svg struct {
	strings.Builder
	width float64
}

// Colours of the panel, of texts, and of lines. The style has the same for dark backgrounds.
const (
	panelColor = "#ffffff"
	textColor  = "#1f2328"
	faintColor = "#59636e"
	lineColor  = "#d1d9e0"
	alertColor = "#c4302b"
)

const dark = `@media (prefers-color-scheme:dark){.p{fill:#0d1117}.t{fill:#e6edf3}.f{fill:#9198a1}.l{stroke:#30363d}.a{fill:#ff7b72}.s{stroke:#ff7b72}}`

// fills are the colours of bars. Dark text is readable on each of them.
var fills = []string{"#7cc4e8", "#f4b860", "#9bd18b", "#e8a0bf", "#b9a7ec", "#e58f7b", "#79d2c0", "#d6cf6b"}

// onFill is the colour of text on bars.
const onFill = "#14181d"

// charWidth is about the width of a letter at font size 12, as a share of the size.
const charWidth = 0.62

// newSVG begins a file: a panel with a title. The lines of the description are for people who cannot see the picture. more is added
// to the style.
func newSVG(width, height float64, title string, description []string, more string) *svg {
	s := &svg{width: width}
	fmt.Fprintf(s, `<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %[1]s %[2]s" role="img" font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" font-size="12">`+"\n", num(width), num(height))
	var lines []string
	for _, line := range description {
		lines = append(lines, escape(line))
	}
	fmt.Fprintf(s, "<title>%s</title>\n<desc>%s</desc>\n<style>%s%s</style>\n", escape(title), strings.Join(lines, "\n"), dark, more)
	fmt.Fprintf(s, `<rect class="p" width="%s" height="%s" rx="8" fill="%s"/>`+"\n", num(width), num(height), panelColor)
	return s
}

// end ends the file.
func (s *svg) end() []byte {
	s.WriteString("</svg>\n")
	return []byte(s.String())
}

// num writes a coordinate.
func num(x float64) string { return strconv.FormatFloat(x, 'f', -1, 32) }

// round rounds a coordinate to tenths, so that files are small.
func round(x float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(x, 'f', 1, 64), ".0")
}

var escapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;")

// escape makes a text safe as the content of an element or an attribute.
func escape(text string) string { return escapes.Replace(clean(text)) }

// text is one line of text. The class and the fill are those of a kind of text.
func (s *svg) text(x, y float64, class, text, attributes string) {
	fill := map[string]string{"t": textColor, "f": faintColor, "a": alertColor, "": onFill}[class]
	if class != "" {
		attributes += ` class="` + class + `"`
	}
	fmt.Fprintf(s, `<text x="%s" y="%s" fill="%s" xml:space="preserve"%s>%s</text>`+"\n", round(x), round(y), fill, attributes, escape(text))
}

// bar is a rectangle with a tooltip.
func (s *svg) bar(x, y, width, height float64, attributes, tooltip string) {
	fmt.Fprintf(s, `<rect x="%s" y="%s" width="%s" height="%s"%s><title>%s</title></rect>`+"\n", round(x), round(y), round(width), round(height), attributes, escape(tooltip))
}

// rule is a line of the grid.
func (s *svg) rule(x1, y1, x2, y2 float64) {
	fmt.Fprintf(s, `<path class="l" d="M%s %sL%s %s" stroke="%s"/>`+"\n", round(x1), round(y1), round(x2), round(y2), lineColor)
}
