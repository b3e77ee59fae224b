package doctor

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/cmd/internal/printable"
)

// words are the results as people read them.
var words = map[Result]string{OK: "ok", Warning: "warning", Unsafe: "UNSAFE", NotTested: "not tested"}

// WriteText writes the report for people: a table of the checks, the advice, and the verdict in the last
// line.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	wide := 0
	for _, c := range r.Checks {
		wide = max(wide, utf8.RuneCountInString(c.What))
	}
	fmt.Fprintf(&b, "%s\n\n", printable.Line(r.Store))
	for _, c := range r.Checks {
		pad := strings.Repeat(" ", wide-utf8.RuneCountInString(c.What))
		fmt.Fprintf(&b, "%s%s  %-10s  %s\n", c.What, pad, words[c.Result], printable.Line(c.Found))
		if c.Means != "" {
			fmt.Fprintf(&b, "%*s  -> %s\n", wide+12, "", printable.Line(c.Means))
		}
	}
	for _, a := range r.Advice {
		fmt.Fprintf(&b, "\n%s\n", printable.Line(a.What))
		for line := range strings.SplitSeq(a.Text, "\n") {
			fmt.Fprintln(&b, printable.Text(line))
		}
	}
	if len(r.NotRemoved) > 0 {
		b.WriteString("\nCould not be removed:\n")
		for _, left := range r.NotRemoved {
			fmt.Fprintf(&b, "  %s\n", printable.Line(left))
		}
	}
	fmt.Fprintf(&b, "\n%s\n", printable.Line(r.Summary))
	_, err := io.WriteString(w, b.String())
	return err
}
