package fold

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

// An entry as text is one line, which people can read:
//
//	V 17 <nonce> <prev> j{"state":"held"} 1a2b3c4d
//
// kind, number, nonce, the nonce of the state before ("-" for none), the value, and the
// CRC-32C of all that in hexadecimal. The value is "j" and the value itself, if that is
// JSON without a line break; otherwise "b" and the value in base64; or "-" for no value.
// Each entry has a line break before and after it, so that a torn entry does not damage
// the next one.

// MaxNonce is the longest nonce, in bytes.
const MaxNonce = 64

// slowly is how many bytes a program sums itself before it prepares what hash/crc32 needs for
// faster sums. That takes 0.15 ms, and a program that takes one lock sums some kilobytes.
const slowly = 128 << 10

var (
	castagnoli = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })
	summed     atomic.Int64 // bytes
)

// checksum returns the CRC-32C of text.
func checksum(text []byte) uint32 {
	if summed.Load() <= slowly && summed.Add(int64(len(text))) <= slowly {
		return bySlices(text)
	}
	return crc32.Checksum(text, castagnoli())
}

// slices are the tables of the algorithm slicing-by-8: slices()[k][i] is the sum of the byte i, followed
// by k zeros.
var slices = sync.OnceValue(func() *[8]crc32.Table {
	var t [8]crc32.Table
	for i := range t[0] {
		sum := uint32(i)
		for range 8 {
			sum = sum>>1 ^ crc32.Castagnoli&-(sum&1)
		}
		t[0][i] = sum
	}
	for k := range 7 {
		for i, sum := range t[k] {
			t[k+1][i] = t[0][byte(sum)] ^ sum>>8
		}
	}
	return &t
})

// bySlices returns the CRC-32C of text, eight bytes at a time.
func bySlices(text []byte) uint32 {
	t, sum := slices(), ^uint32(0)
	for ; len(text) >= 8; text = text[8:] {
		first := sum ^ binary.LittleEndian.Uint32(text)
		sum = t[7][byte(first)] ^ t[6][byte(first>>8)] ^ t[5][byte(first>>16)] ^ t[4][first>>24] ^
			t[3][text[4]] ^ t[2][text[5]] ^ t[1][text[6]] ^ t[0][text[7]]
	}
	for _, b := range text {
		sum = t[0][byte(sum)^b] ^ sum>>8
	}
	return ^sum
}

// errLine says that a line is no entry.
var errLine = errors.New("not an entry")

// AppendLine appends e as a line of text, with a line break before and after it. A nonce consists of
// letters and digits. If it does not, AppendLine panics, because that is an error of the caller.
func AppendLine(b []byte, e Entry) []byte {
	if !validNonce(e.Nonce) || (e.Prev != "" && !validNonce(e.Prev)) {
		panic(fmt.Sprintf("fold: nonce %q or %q is not letters and digits", e.Nonce, e.Prev))
	}
	b = append(b, '\n')
	start := len(b)
	b = append(b, byte(e.Kind), ' ')
	b = strconv.AppendUint(b, e.Number, 10)
	b = append(b, ' ')
	b = append(b, e.Nonce...)
	b = append(b, ' ')
	if e.Prev == "" {
		b = append(b, '-')
	}
	b = append(b, e.Prev...)
	b = append(b, ' ')
	switch {
	case e.Deleted || e.Value == nil:
		b = append(b, '-')
	case plain(e.Value):
		b = append(b, 'j')
		b = append(b, e.Value...)
	default:
		b = append(b, 'b')
		b = base64.StdEncoding.AppendEncode(b, e.Value)
	}
	return append(appendSum(b, b[start:]), '\n')
}

// appendSum appends a space and the checksum of text.
func appendSum(b, text []byte) []byte {
	var sum [4]byte
	binary.BigEndian.PutUint32(sum[:], checksum(text))
	return hex.AppendEncode(append(b, ' '), sum[:])
}

// plain reports whether a value can stand in a line as it is.
func plain(value []byte) bool {
	return bytes.IndexByte(value, '\n') < 0 && utf8.Valid(value) && json.Valid(value)
}

func validNonce(s string) bool {
	for i := range len(s) {
		c := s[i] | 0x20
		if (s[i] < '0' || s[i] > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return s != "" && len(s) <= MaxNonce
}

// ParseLine reads an entry from a line without its line breaks. The value of the
// entry may share the memory of line.
func ParseLine(line []byte) (Entry, error) {
	const sumLen = len(" 00000000")
	if len(line) < sumLen {
		return Entry{}, errLine
	}
	text, sum := line[:len(line)-sumLen], line[len(line)-sumLen:]
	var room [sumLen]byte
	if !bytes.Equal(sum, appendSum(room[:0], text)) {
		return Entry{}, errLine
	}
	field := bytes.SplitN(text, []byte{' '}, 5)
	if len(field) != 5 || len(field[0]) != 1 || len(field[4]) == 0 {
		return Entry{}, errLine
	}
	e := Entry{Kind: Kind(field[0][0]), Nonce: string(field[2])}
	var err error
	if e.Number, err = strconv.ParseUint(string(field[1]), 10, 64); err != nil || !validNonce(e.Nonce) {
		return Entry{}, errLine
	}
	if prev := string(field[3]); prev != "-" {
		if e.Prev = prev; !validNonce(prev) {
			return Entry{}, errLine
		}
	}
	switch value := field[4]; value[0] {
	case 'j':
		e.Value = value[1:]
	case 'b':
		e.Value = make([]byte, base64.StdEncoding.DecodedLen(len(value)-1))
		n, err := base64.StdEncoding.Strict().Decode(e.Value, value[1:])
		if err != nil {
			return Entry{}, errLine
		}
		e.Value = e.Value[:n]
	case '-':
		if len(value) != 1 {
			return Entry{}, errLine
		}
		e.Deleted = e.Kind == Base || e.Kind == Value
	default:
		return Entry{}, errLine
	}
	return e, nil
}

// Scan calls f for each entry of data, in order. It returns the length of the complete lines at the start
// of data. It skips lines that are no entries. It leaves a last line without a line break for the next
// call.
func Scan(data []byte, f func(Entry)) int {
	n := 0
	for {
		end := bytes.IndexByte(data[n:], '\n')
		if end < 0 {
			return n
		}
		if line := data[n : n+end]; len(line) > 0 {
			if e, err := ParseLine(line); err == nil {
				f(e)
			}
		}
		n += end + 1
	}
}
