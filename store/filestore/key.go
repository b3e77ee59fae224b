package filestore

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// Each key is one directory. Its name is the key with these changes, chosen so that
// no two keys share a directory on a file system that folds case or normalises
// Unicode, that no name is special on any system, and that ordinary names stay
// readable:
//
//	a to z, 0 to 9, - _ = @ , .   stand for themselves
//	/                             is +
//	A to Z                        are ^a to ^z
//	all other bytes               are %xx
//	a dot at the start or the end is %2e
//	con, nul, com1, ...           have their first letter as %xx (Windows)
//
// A name that would be longer than maxName is cut. A tilde, which no other name has, and
// the SHA-256 of the key follow. The key itself is at the start of each of its log files.

// maxName is the longest name of a directory. Some encrypting file systems allow no
// more than 143 bytes.
const maxName = 140

const hexDigits = "0123456789abcdef"

// encodeKey returns the name of the directory of a valid key.
func encodeKey(key string) string {
	b := make([]byte, 0, len(key)+len(key)/4)
	for i := range len(key) {
		switch c := key[i]; {
		case c == '.' && (i == 0 || i == len(key)-1), i == 0 && reserved(key):
			b = append(b, '%', hexDigits[c>>4], hexDigits[c&15])
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("-_=@,.", c) >= 0:
			b = append(b, c)
		case c == '/':
			b = append(b, '+')
		case c >= 'A' && c <= 'Z':
			b = append(b, '^', c|0x20)
		default:
			b = append(b, '%', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	if len(b) <= maxName {
		return string(b)
	}
	sum := sha256.Sum256([]byte(key))
	b = append(b[:maxName-1-2*len(sum)], '~')
	return string(hex.AppendEncode(b, sum[:]))
}

// reserved reports whether Windows gives the name of key to a device.
func reserved(key string) bool {
	base, _, _ := strings.Cut(key, ".")
	if len(base) == 4 && base[3] >= '0' && base[3] <= '9' {
		return base[:3] == "com" || base[:3] == "lpt"
	}
	return slices.Contains([]string{"con", "prn", "aux", "nul"}, base)
}

// decodeKey is the opposite of encodeKey. It reports false for names that are no
// key's, and for those that were cut. Of the latter it returns the start of the key.
func decodeKey(name string) (key string, whole bool) {
	start, _, short := strings.Cut(name, "~")
	b := make([]byte, 0, len(start))
	for i := 0; i < len(start); i++ {
		switch c := start[i]; {
		case c == '+':
			b = append(b, '/')
		case c == '^' && i+1 < len(start):
			i++
			b = append(b, start[i]&^0x20)
		case c == '%' && i+2 < len(start):
			n, _ := strconv.ParseUint(start[i+1:i+3], 16, 8)
			b = append(b, byte(n))
			i += 2
		default:
			b = append(b, c)
		}
	}
	if short {
		return string(b[:max(0, len(b)-2)]), false // the last two can be a part of an escape
	}
	return string(b), store.CheckKey(string(b)) == nil && encodeKey(string(b)) == name
}

// cut reports whether name is that of a key too long to stand in it.
func cut(name string) bool { return len(name) == maxName && strings.Contains(name, "~") }

// segmentName returns the name of the file of a segment.
func segmentName(number uint64) string { return fmt.Sprintf("%012d", number) }

// segmentNumber is the opposite of segmentName; it returns 0 for other names.
func segmentNumber(name string) uint64 {
	n, err := strconv.ParseUint(name, 10, 64)
	if err != nil || segmentName(n) != name {
		return 0
	}
	return n
}
