package largeitem

import (
	"fmt"
	"unicode/utf8"
)

// checkJSONText reports what package encoding/json would silently replace: bytes that are
// no UTF-8, and escapes that are half of a character.
func checkJSONText(text []byte) error {
	if !utf8.Valid(text) {
		return fmt.Errorf("%w: it is not valid UTF-8", ErrInvalid)
	}
	// Backslashes stand in strings only.
	for i := 0; i+1 < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		unit, ok := escapedUnit(text[i:])
		i++
		if !ok || unit < 0xd800 || unit > 0xdfff {
			continue
		}
		i += 4
		low, ok := escapedUnit(text[i+1:])
		if unit >= 0xdc00 || !ok || low < 0xdc00 || low > 0xdfff {
			return fmt.Errorf(`%w: \u%04x is half of a character`, ErrInvalid, unit)
		}
		i += 6
	}
	return nil
}

// escapedUnit reads \uXXXX at the start of text.
func escapedUnit(text []byte) (unit uint16, ok bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	for _, c := range text[2:6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		unit = unit<<4 | uint16(c)
	}
	return unit, true
}
