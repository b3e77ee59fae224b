// Package printable makes texts from other programs safe to print: names, holders, and messages of
// servers. Such a text can contain control characters, which change the terminal or forge a line of a
// log.
package printable

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// controls reports what changes how the rest of a line is shown, or ends the line:
// control characters of both ranges, and those that set the direction of text or
// separate lines and paragraphs. None of them is above U+FFFF.
func controls(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}

// Text returns s with its control characters as escapes: \n, \t, \x1b, \u202e. Bytes that are not UTF-8
// become U+FFFD.
func Text(s string) string {
	if !strings.ContainsFunc(s, controls) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !controls(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// OneLine joins the lines of s with "; ", and omits empty lines. It escapes nothing.
func OneLine(s string) string {
	var parts []string
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			parts = append(parts, line)
		}
	}
	return strings.Join(parts, "; ")
}

// Line joins the lines of s as [OneLine] does, and escapes control characters as [Text] does.
func Line(s string) string { return Text(OneLine(s)) }

// Time returns a time as JSON has it: nil, and so null or nothing, if it is not known.
func Time(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// JSON returns an encoder that writes control characters as JSON escapes. Each document ends with a
// newline.
func JSON(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(escaper{w})
	enc.SetEscapeHTML(false)
	return enc
}

// escaper escapes in whole documents of JSON, in which only strings can contain what is
// to be escaped: all but line ends and tabs, which the encoder writes between tokens
// and escapes in strings.
type escaper struct{ w io.Writer }

func (e escaper) Write(document []byte) (int, error) {
	out := make([]byte, 0, len(document))
	for _, r := range string(document) {
		if controls(r) && r != '\n' && r != '\t' {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	if _, err := e.w.Write(out); err != nil {
		return 0, err
	}
	return len(document), nil
}
