package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// awkwardValue contains every byte, and the elements of common storage formats.
func awkwardValue() string {
	var b strings.Builder
	b.WriteString("\n\x00\xff{\"prev\":\"x\",\"value\":null}\r\n\t\"'`\\ \n\n")
	for i := range 256 {
		b.WriteByte(byte(i))
	}
	b.WriteString("\xf0\x28\x8c\x28 \n") // invalid UTF-8, a space and a newline at the end
	return b.String()
}

// big returns a value of n bytes in which no two places are equal.
func big(n int) string {
	b := make([]byte, 0, n+20)
	for i := int64(0); len(b) < n; i++ {
		b = append(strconv.AppendInt(b, i, 10), ',')
	}
	return string(b[:n])
}

// valueCases are the rules of values: a value is any bytes.
func valueCases() []testCase {
	return []testCase{
		{"ValueSizes", "A value has 0 to 64 KiB, and a read returns it unchanged.", func(e *env) {
			sizes := []int{0, 1, 2, 1023, 4096, 32 << 10, store.MaxValue - 1, store.MaxValue}
			e.each(len(sizes), func(i int) {
				key, value := fmt.Sprintf("size-%d", sizes[i]), big(sizes[i])
				e.expect(key, e.create(key, value), value)
			})
		}},
		{"ValueNil", "A nil value is an empty value; the register exists.", func(e *env) {
			v, err := e.s.Put(e.ctx, "job", "", nil)
			e.Must("Put of a nil value", err)
			e.expect("job", v, "")
			e.put("job", v, "more")
		}},
		{"ValueTooLarge", "A value above 64 KiB is refused with ErrTooLarge, and changes nothing.", func(e *env) {
			v := e.create("job", "one")
			for _, n := range []int{store.MaxValue + 1, 2 * store.MaxValue} {
				_, err := e.s.Put(e.ctx, "job", v, []byte(big(n)))
				_, err2 := e.s.Put(e.ctx, "absent", "", []byte(big(n)))
				for _, err := range []error{err, err2} {
					e.WantRefused(fmt.Sprintf("Put of %d bytes", n), err, store.ErrTooLarge)
				}
				e.expect("job", v, "one")
				e.expectAbsent("absent")
			}
		}},
		{"ValueBytes", "A value can have any bytes: NUL, newlines, quotes, JSON, invalid UTF-8, or text in the store's own format.", func(e *env) {
			values := []string{
				awkwardValue(), "\n", "\n\n\n", "\r\n", "\x00", "\x00\x00", " ", " x ", "x\n", "null", `""`, "{}", "[]", "\xff\xfe", "\xef\xbb\xbfbom",
				`{"token":18446744073709551615}`, `{"a": 1, "a": 2 }`, `{"n":1e400}`, "\nV 1 abc - {}", "\nB 0 0 0 00000000\n", "base64:AAAA", "AAAA====", "%00", "'; DROP TABLE x; --",
				"\u2028\u2029", "<&>", strings.Repeat("\n", 1000), strings.Repeat("\x00", 1000), strings.Repeat("\"\\", 1000),
			}
			e.each(len(values), func(i int) {
				key, next := fmt.Sprintf("job-%d", i), values[(i+1)%len(values)]
				v := e.create(key, values[i])
				e.expect(key, v, values[i])
				e.expect(key, e.put(key, v, next), next)
			})
		}},
		{"ValueShrinks", "A put replaces the whole value: after a short value, nothing of the longer value before it is left.", func(e *env) {
			v := e.create("job", big(store.MaxValue))
			for _, value := range []string{"short", big(5000), "", big(store.MaxValue), "x"} {
				v = e.put("job", v, value)
				e.expect("job", v, value)
			}
		}},
		{"ValueNotKept", "The caller owns the slice that it passes, and may change it after the call.", func(e *env) {
			value := []byte("one")
			v, err := e.s.Put(e.ctx, "job", "", value)
			e.Must("create", err)
			copy(value, "XXX")
			e.expect("job", v, "one")
			value = append(value[:0], "two"...)
			if v, err = e.s.Put(e.ctx, "job", v, value); err != nil {
				e.Fatalf("put: %v", err)
			}
			copy(value, "XXX")
			e.expect("job", v, "two")
		}},
		{"ValueNotShared", "The caller owns the slices that a store returns: if it changes them, other callers see no change.", caseValueNotShared},
		{"ValueNotChanged", "Put does not write to the slice that it receives.", func(e *env) {
			value := slices.Grow([]byte(awkwardValue()), 100)
			rest := value[len(value):cap(value)]
			for i := range rest {
				rest[i] = 0xAA
			}
			v, err := e.s.Put(e.ctx, "job", "", value)
			if err == nil {
				_, err = e.s.Put(e.ctx, "job", v, value)
			}
			e.Must("put", err)
			if string(value) != awkwardValue() || len(bytes.Trim(rest, "\xAA")) != 0 {
				e.Errorf("Put changed the slice that it received, or the bytes after its end")
			}
		}},
	}
}

func caseValueNotShared(e *env) {
	spoil := func(b []byte) {
		b = b[:cap(b)]
		for i := range b {
			b[i] = 'X'
		}
	}
	v := e.create("job", "one")
	for range 2 {
		first, second := e.state("job"), e.state("job")
		spoil(first.Value)
		if string(second.Value) != "one" {
			e.Fatalf("two calls of Get returned the same slice")
		}
		e.expect("job", v, "one")
	}
	_, err := e.s.Put(e.ctx, "job", "", []byte("two"))
	var c *store.ConflictError
	if errors.As(err, &c) && c.HasCurrent {
		spoil(c.Value)
		e.expect("job", v, "one")
	}
	v = e.put("job", v, "two")
	e.expect("job", v, "two")
}
