package dashboard

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// changesText reports whether a character would change how the text around it is shown.
func changesText(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' || r == utf8.RuneError
}

// escape writes a character in the form that the shells bash, zsh and ksh read in $'...'.
func escape(b *strings.Builder, r rune) {
	switch {
	case r == '\n':
		b.WriteString(`\n`)
	case r == '\t':
		b.WriteString(`\t`)
	case r < 0x80:
		fmt.Fprintf(b, `\x%02x`, r)
	default:
		fmt.Fprintf(b, `\u%04x`, r)
	}
}

// visible returns a text of another program with its control characters as escapes, cut to a length
// for people.
func visible(s string) string {
	const most = 600
	var b strings.Builder
	for _, r := range s {
		if b.Len() > most {
			b.WriteString("…")
			break
		}
		if changesText(r) {
			escape(&b, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// shellWord quotes a word for a shell. The result is one line of visible characters, so that a person
// who pastes it runs only what the page shows.
func shellWord(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:+@%=,"
	switch {
	case s != "" && strings.Trim(s, plain) == "":
		return s
	case !strings.ContainsFunc(s, changesText):
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for _, r := range s {
		switch {
		case r == '\'' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case changesText(r):
			escape(&b, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteString("'")
	return b.String()
}

// command returns a command line about a lock.
func (p *Page) command(words ...string) string {
	line := "holdfast"
	if p.o.StoreURL != "" {
		line += " --store " + shellWord(p.o.StoreURL)
	}
	for _, w := range words {
		line += " " + w
	}
	return line
}

// nameArgument quotes the name of a lock as the last argument.
func nameArgument(name string) string {
	if strings.HasPrefix(name, "-") {
		return "-- " + shellWord(name)
	}
	return shellWord(name)
}

// visibleLines is visible for a text with several lines.
func visibleLines(s string) string {
	const most = 500
	var lines []string
	for line := range strings.Lines(s) {
		if len(lines) == most {
			break
		}
		lines = append(lines, visible(strings.TrimRight(line, "\r\n")))
	}
	return strings.Join(lines, "\n")
}
