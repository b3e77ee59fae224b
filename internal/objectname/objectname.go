// Package objectname converts keys to names of objects. It replaces each byte that a server may not
// accept by "!" and two hexadecimal digits.
package objectname

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Escape escapes all characters of a valid UTF-8 text for which plain returns false. For an exclamation
// mark, plain must return false.
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

// Plain returns a function for [Escape]. The function accepts letters and digits of ASCII, the given
// punctuation, and most characters beyond ASCII. The rule is fixed: it must not change with the tables of
// Unicode.
func Plain(punctuation string) func(rune) bool {
	return func(r rune) bool {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return true
		case r < 0x80:
			return strings.ContainsRune(punctuation, r)
		}
		// Beyond ASCII, two kinds are escaped: the second set of control characters, and
		// characters that XML 1.0, the format of listings, cannot express.
		return r >= 0xa0 && r != 0xfffe && r != 0xffff
	}
}

// Unescape is the inverse of Escape, for any function plain. It also accepts names that Escape does not
// write. To refuse such names, a caller can escape the result again and compare.
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
