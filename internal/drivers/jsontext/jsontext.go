// Package jsontext reads and writes strings of JSON texts where package encoding/json differs from other
// programs.
package jsontext

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// AppendString appends s in quotes. Like RFC 8785 and serde_json, it escapes only what JSON requires, and has
// short escapes where there are any.
func AppendString(text []byte, s string) []byte {
	text = append(text, '"')
	for _, c := range []byte(s) {
		if c >= ' ' && c != '"' && c != '\\' {
			text = append(text, c)
		} else if i := strings.IndexByte("\b\t\n\f\r\"\\", c); i >= 0 {
			text = append(text, '\\', `btnfr"\`[i])
		} else {
			text = fmt.Appendf(text, `\u%04x`, c)
		}
	}
	return append(text, '"')
}

// LoneSurrogate returns the index of the first escape in text that is one half of a surrogate pair without
// the other half, which encoding/json would replace, and -1 if there is none. The escape has 6 bytes. The
// text need not be valid JSON.
func LoneSurrogate(text []byte) int {
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' { // only strings contain backslashes
			continue
		}
		r := escaped(text[i:])
		switch {
		case !utf16.IsSurrogate(r):
			i++ // skip the escaped character: it may be another backslash
		case utf16.DecodeRune(r, escaped(text[i+6:])) == utf8.RuneError:
			return i
		default:
			i += 11
		}
	}
	return -1
}

// escaped returns the code unit of the escape with which text begins, \u and four
// hexadecimal digits, and 0 if it begins with something else.
func escaped(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0
	}
	n, _ := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(n)
}
