package resumekey

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/drivers/jsontext"
)

// Filter returns the canonical form of a JSON value (RFC 8785). It has no white space. Members are
// sorted by the UTF-16 code units of their names. Numbers and strings have the form of ECMAScript.
func Filter(filter []byte) ([]byte, error) {
	if !utf8.Valid(filter) {
		return nil, bad("the filter is not valid UTF-8")
	}
	var value json.RawMessage // a check of the syntax, and of its depth
	dec := json.NewDecoder(bytes.NewReader(filter))
	if err := dec.Decode(&value); errors.Is(err, io.EOF) {
		return nil, bad("the filter is empty")
	} else if err != nil {
		return nil, bad("the filter: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, bad("the filter: the text continues after the JSON value")
	}
	if i := jsontext.LoneSurrogate(value); i >= 0 { // a decoder would replace it
		return nil, bad("the filter: the escape %s is one half of a surrogate pair", value[i:i+6])
	}
	dec = json.NewDecoder(bytes.NewReader(value))
	dec.UseNumber()
	var b strings.Builder
	if err := writeValue(&b, dec); err != nil {
		return nil, bad("the filter: %w", err)
	}
	return []byte(b.String()), nil
}

// writeValue writes the value that dec reads next.
func writeValue(b *strings.Builder, dec *json.Decoder) error {
	token, err := dec.Token()
	if err != nil {
		return err
	}
	switch v := token.(type) {
	case json.Delim:
		if v == '[' {
			err = writeArray(b, dec)
		} else {
			err = writeObject(b, dec)
		}
		if err == nil {
			_, err = dec.Token() // the closing bracket
		}
		return err
	case json.Number:
		return writeNumber(b, v)
	case string:
		b.Write(jsontext.AppendString(nil, v))
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case nil:
		b.WriteString("null")
	}
	return nil
}

func writeArray(b *strings.Builder, dec *json.Decoder) error {
	b.WriteByte('[')
	for i := 0; dec.More(); i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := writeValue(b, dec); err != nil {
			return err
		}
	}
	b.WriteByte(']')
	return nil
}

func writeObject(b *strings.Builder, dec *json.Decoder) error {
	type member struct {
		name  []uint16
		value string
	}
	var members []member
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		var m strings.Builder
		name := token.(string)
		m.Write(jsontext.AppendString(nil, name))
		m.WriteByte(':')
		if err := writeValue(&m, dec); err != nil {
			return err
		}
		members = append(members, member{utf16.Encode([]rune(name)), m.String()})
	}
	slices.SortFunc(members, func(x, y member) int { return slices.Compare(x.name, y.name) })
	b.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			b.WriteByte(',')
			if slices.Equal(m.name, members[i-1].name) {
				return fmt.Errorf("the name %.80q occurs twice", string(utf16.Decode(m.name)))
			}
		}
		b.WriteString(m.value)
	}
	b.WriteByte('}')
	return nil
}

// writeNumber writes a number as ECMAScript does. An integer that a 64-bit float cannot
// represent is an error: two of them could have one key, and some programs do not round
// them.
func writeNumber(b *strings.Builder, n json.Number) error {
	f, err := n.Float64()
	if err != nil || math.IsInf(f, 0) {
		return fmt.Errorf("the number %.40s is too large", n)
	}
	text := formatNumber(f)
	if i, ok := new(big.Int).SetString(n.String(), 10); ok && i.BitLen() > 53 && text != n.String() {
		return fmt.Errorf("the integer %.40s does not fit into a 64-bit float; programs round it differently, so they would compute different keys", n)
	}
	b.WriteString(text)
	return nil
}

// formatNumber writes the shortest digits that read back as f, with an exponent below
// 1e-6 and from 1e21 on, like ECMAScript's Number::toString.
func formatNumber(f float64) string {
	abs := math.Abs(f)
	switch {
	case abs == 0:
		return "0" // -0 as well
	case abs >= 1e-6 && abs < 1e21:
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	digits, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
	return digits + "e" + exponent[:1] + strings.TrimLeft(exponent[1:], "0")
}
