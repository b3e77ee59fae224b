// Package printable keeps what others wrote (names, holders, messages of servers) from
// controlling the terminal or the log that it is printed to.
package printable

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// controls reports what changes how the rest of a line is shown, or ends the line:
// control characters of both ranges, and those that set the direction of text or
// separate lines and paragraphs. None of them is above U+FFFF.
func controls(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}

// Text returns s with such characters, line ends and tabs among them, written as escapes:
// \n, \x1b, \u202e. A byte that is not UTF-8 becomes U+FFFD.
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

// OneLine joins the lines of s with "; ". What else it contains stays.
func OneLine(s string) string {
	var parts []string
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			parts = append(parts, line)
		}
	}
	return strings.Join(parts, "; ")
}

// Line is [Text] for what may have several lines: they become one.
func Line(s string) string { return Text(OneLine(s)) }

// JSON returns an encoder that writes such characters as the escapes of JSON. Each
// document ends with a newline.
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
