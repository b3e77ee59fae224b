// Package jsontext finds in a JSON text what package encoding/json would silently replace.
package jsontext

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// LoneSurrogate returns the index of the first escape in text that is one half of a surrogate pair without
// the other half, and -1 if there is none. The escape has 6 bytes. The text need not be valid JSON.
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
