// Package objectname writes keys into the names of objects: what a server may not take as
// it is becomes "!" and two hexadecimal digits for each byte.
package objectname

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Escape returns a valid UTF-8 text in which all but the plain characters are escaped. An
// exclamation mark must not be plain.
func Escape(text string, plain func(rune) bool) string {
	var b strings.Builder
	for i, r := range text {
		if plain(r) {
			b.WriteRune(r)
			continue
		}
		for _, c := range []byte(text[i : i+utf8.RuneLen(r)]) {
			fmt.Fprintf(&b, "!%02X", c)
		}
	}
	return b.String()
}

// Unescape is the opposite of Escape, whatever is plain. It takes names that Escape would
// not have written: a caller that must refuse them escapes the result again.
func Unescape(name string) (text string, ok bool) {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(name, "!")
		b.WriteString(before)
		if !found {
			return b.String(), true
		}
		if len(after) < 2 {
			return "", false
		}
		c, err := strconv.ParseUint(after[:2], 16, 8)
		if err != nil {
			return "", false
		}
		b.WriteByte(byte(c))
		name = after[2:]
	}
}
