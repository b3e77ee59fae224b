package avisofile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/drivers/jsontext"
)

// parser reads JSON like the format's own program, which differs from encoding/json.
// Names are case-sensitive, a field that occurs twice is an error, and integers are
// exact. Unknown values are skipped at any depth without recursion, and the characters of
// their strings are not checked.
type parser struct {
	b []byte
	i int
}

// syntaxError is a fault at an offset of the input.
type syntaxError struct {
	offset int
	text   string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("offset %d: %s", e.offset, e.text) }

func (p *parser) fail(format string, args ...any) error {
	return &syntaxError{p.i, fmt.Sprintf(format, args...)}
}

// space skips white space.
func (p *parser) space() {
	for p.i < len(p.b) {
		switch p.b[p.i] {
		case ' ', '\n', '\t', '\r':
			p.i++
		default:
			return
		}
	}
}

// peek skips white space and returns the next byte, 0 at the end.
func (p *parser) peek() byte {
	p.space()
	if p.i < len(p.b) {
		return p.b[p.i]
	}
	return 0
}

func (p *parser) colon() error {
	if p.peek() != ':' {
		return p.fail("a colon is missing")
	}
	p.i++
	return nil
}

// structure parses an object with these fields, or an array of all of them. The first
// required fields must be present. It calls value at the start of each field's value.
func (p *parser) structure(fields []string, seen []bool, required int, value func(field int) error) error {
	if p.peek() == '[' {
		return p.tuple(len(fields), value)
	}
	err := p.object(func(name string) error {
		field := slices.Index(fields, name)
		if field >= 0 && seen[field] {
			return p.fail("%q occurs twice", name)
		}
		if field < 0 {
			return p.skip()
		}
		seen[field] = true
		return value(field)
	})
	if err != nil {
		return err
	}
	for i, name := range fields[:required] {
		if !seen[i] {
			p.i--
			return p.fail("%q is missing", name)
		}
	}
	return nil
}

// tuple parses an array of exactly n values.
func (p *parser) tuple(n int, value func(field int) error) error {
	p.i++
	for field := range n {
		if field > 0 {
			if p.peek() != ',' {
				return p.fail("a comma is missing")
			}
			p.i++
		}
		if err := value(field); err != nil {
			return err
		}
	}
	if p.peek() != ']' {
		return p.fail("a comma or a closing bracket is missing after %d values", n)
	}
	p.i++
	return nil
}

// object parses an object. It calls member with each name; member parses the value.
func (p *parser) object(member func(name string) error) error {
	if p.peek() != '{' {
		return p.fail("an object is missing")
	}
	p.i++
	for first := true; ; first = false {
		switch c := p.peek(); {
		case c == '}':
			p.i++
			return nil
		case first:
		case c == ',':
			p.i++
		default:
			return p.fail("a comma or the end of an object is missing")
		}
		if p.peek() != '"' {
			return p.fail("a name is missing")
		}
		name, err := p.text()
		if err == nil {
			err = p.colon()
		}
		if err == nil {
			err = member(name)
		}
		if err != nil {
			return err
		}
	}
}

// unsigned parses an integer from 0 to limit.
func (p *parser) unsigned(limit uint64) (uint64, error) {
	p.space()
	start := p.i
	if err := p.skipNumber(); err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(string(p.b[start:p.i]), 10, 64)
	if err != nil || n > limit {
		text := p.b[start:min(p.i, start+40)]
		p.i = start
		if limit == math.MaxUint64 {
			return 0, p.fail("%s is not an integer from 0 to 2^64-1", text)
		}
		return 0, p.fail("%s is not an integer from 0 to %d", text, limit)
	}
	return n, nil
}

// optionalText parses a string or null.
func (p *parser) optionalText() (s string, ok bool, err error) {
	if p.peek() == 'n' {
		return "", false, p.word("null")
	}
	s, err = p.text()
	return s, true, err
}

// text parses a string.
func (p *parser) text() (string, error) {
	if p.peek() != '"' {
		return "", p.fail("a string is missing")
	}
	start := p.i
	if err := p.skipString(); err != nil {
		return "", err
	}
	raw := p.b[start:p.i]
	if !utf8.Valid(raw) {
		for p.i = start; ; {
			r, size := utf8.DecodeRune(p.b[p.i:])
			if r == utf8.RuneError && size == 1 {
				return "", p.fail("a string is not valid UTF-8")
			}
			p.i += size
		}
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), nil
	}
	if half := jsontext.LoneSurrogate(raw); half >= 0 {
		p.i = start + half
		return "", p.fail("a string has only one half of a surrogate pair")
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err
}
