package doctor

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// words are the results as people read them.
var words = map[Result]string{OK: "ok", Warning: "warning", Unsafe: "UNSAFE", NotTested: "not tested"}

// WriteText writes the report for people: a table, what is to be done elsewhere, and
// the verdict in the last line.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	wide := 0
	for _, c := range r.Checks {
		wide = max(wide, utf8.RuneCountInString(c.What))
	}
	fmt.Fprintf(&b, "%s\n\n", line(r.Store))
	for _, c := range r.Checks {
		pad := strings.Repeat(" ", wide-utf8.RuneCountInString(c.What))
		fmt.Fprintf(&b, "%s%s  %-10s  %s\n", c.What, pad, words[c.Result], line(c.Found))
		if c.Means != "" {
			fmt.Fprintf(&b, "%*s  -> %s\n", wide+12, "", line(c.Means))
		}
	}
	for _, a := range r.Advice {
		fmt.Fprintf(&b, "\n%s\n%s\n", a.What, a.Text)
	}
	if len(r.Left) > 0 {
		b.WriteString("\nCould not be removed:\n")
		for _, left := range r.Left {
			fmt.Fprintf(&b, "  %s\n", line(left))
		}
	}
	fmt.Fprintf(&b, "\n%s\n", r.Summary)
	_, err := io.WriteString(w, b.String())
	return err
}

// line keeps what a server said on one line, without what a terminal would obey.
func line(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return ' '
		case r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0:
			return -1
		}
		return r
	}, s)
}
