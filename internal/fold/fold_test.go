package fold_test

import (
	"bytes"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/fold"
)

// TestSumsAgree: a program goes over from slow sums to fast ones while it runs.
func TestSumsAgree(t *testing.T) {
	for n := range 300 {
		var text []byte
		for i := range n {
			text = append(text, byte(i*i+n))
		}
		if slow, fast := fold.Sums(text); slow != fast {
			t.Fatalf("%d bytes: %08x and %08x", len(text), slow, fast)
		}
	}
}

func TestApply(t *testing.T) {
	base := fold.Entry{Kind: fold.Base, Number: 4, Nonce: "b", Value: []byte("4")}
	v := func(n uint64, nonce, prev string) fold.Entry {
		return fold.Entry{Kind: fold.Value, Number: n, Nonce: nonce, Prev: prev, Value: []byte(nonce)}
	}
	seal := func(prev string) fold.Entry {
		return fold.Entry{Kind: fold.Seal, Number: 9, Nonce: "s", Prev: prev}
	}
	tests := []struct {
		name    string
		entries []fold.Entry
		counts  string // y or n for each
		nonce   string
		sealed  bool
	}{
		{"chain", []fold.Entry{base, v(5, "c", "b"), v(6, "d", "c")}, "yyy", "d", false},
		{"nothing before the base", []fold.Entry{v(1, "c", ""), seal(""), base}, "nny", "b", false},
		{"one base", []fold.Entry{base, {Kind: fold.Base, Nonce: "x"}}, "yn", "b", false},
		{"the earlier of two wins", []fold.Entry{base, v(5, "c", "b"), v(5, "d", "b")}, "yyn", "c", false},
		{"a loser never counts", []fold.Entry{base, v(5, "c", "b"), v(5, "d", "b"), v(6, "e", "d")}, "yynn", "c", false},
		{"the number goes up by one", []fold.Entry{base, v(6, "c", "b"), v(4, "d", "b")}, "ynn", "b", false},
		{"nothing after the seal", []fold.Entry{base, seal("b"), v(5, "c", "b"), seal("b")}, "yynn", "b", true},
		{"a seal names the state", []fold.Entry{base, v(5, "c", "b"), seal("b"), v(6, "d", "c")}, "yyny", "d", false},
		{"others are void", []fold.Entry{base, {Kind: 'X', Number: 5, Nonce: "x", Prev: "b"}}, "yn", "b", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var s fold.State
			for i, e := range test.entries {
				if got, want := s.Apply(e), test.counts[i] == 'y'; got != want {
					t.Errorf("entry %d counts: got %v, want %v", i, got, want)
				}
			}
			if s.Nonce != test.nonce || s.Sealed != test.sealed {
				t.Errorf("got %+v, want nonce %q, sealed %v", s, test.nonce, test.sealed)
			}
		})
	}
}

func TestRebaseContinues(t *testing.T) {
	var s, next fold.State
	s.Apply(fold.Entry{Kind: fold.Base, Number: 1, Nonce: "a", Value: []byte("1")})
	s.Apply(s.Next("b", nil, true))
	if !next.Apply(s.Rebase()) {
		t.Fatal("the base does not count")
	}
	if next.Number != 2 || next.Nonce != "b" || !next.Deleted || next.Base != "b" {
		t.Errorf("got %+v", next)
	}
	if !next.Apply(s.Next("c", []byte("3"), false)) {
		t.Error("an entry that names the state before the seal does not count after the base")
	}
}

// entries is one of each kind, with values of each form.
func entries() []fold.Entry {
	return []fold.Entry{
		{Kind: 'K', Number: 1, Nonce: "0", Value: []byte(`"lock/nightly"`)},
		{Kind: fold.Base, Number: 1, Nonce: "ABC234", Value: []byte(`{"state":"held","token":7}`)},
		{Kind: fold.Value, Number: 2, Nonce: "DEF567", Prev: "ABC234", Value: []byte("{\n}")},
		{Kind: fold.Value, Number: 3, Nonce: "GHI", Prev: "DEF567", Value: []byte{}},
		{Kind: fold.Value, Number: 4, Nonce: "JKL", Prev: "GHI", Value: []byte("\x00\xff text ")},
		{Kind: fold.Value, Number: 5, Nonce: "MNO", Prev: "JKL", Value: []byte(`" 12 34 "`)},
		{Kind: fold.Value, Number: 6, Nonce: "PQR", Prev: "MNO", Deleted: true},
		{Kind: fold.Seal, Number: 6, Nonce: "STU", Prev: "PQR"},
	}
}

func text(entries ...fold.Entry) []byte {
	var b []byte
	for _, e := range entries {
		b = fold.AppendLine(b, e)
	}
	return b
}

func scan(data []byte) (entries []fold.Entry, n int) {
	n = fold.Scan(data, func(e fold.Entry) { entries = append(entries, e) })
	return entries, n
}

// TestGolden proves that files written by the first release still read the same.
func TestGolden(t *testing.T) {
	const file = "testdata/golden.log"
	want := text(entries()...)
	if os.Getenv("HOLDFAST_GOLDEN") != "" {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(data, want) {
		t.Errorf("the format changed: got\n%s\nwant\n%s", want, data)
	}
	if got, n := scan(data); !reflect.DeepEqual(got, entries()) || n != len(data) {
		t.Errorf("got %d bytes, %+v", n, got)
	}
}

// TestTorn: a line that was cut anywhere is void and spoils nothing after it.
func TestTorn(t *testing.T) {
	first, second := entries()[1], entries()[2]
	whole := text(first)
	for cut := range len(whole) - 1 {
		got, n := scan(append(bytes.Clone(whole[:cut]), text(second)...))
		if len(got) != 1 || got[0].Nonce != second.Nonce {
			t.Fatalf("cut at %d: got %+v", cut, got)
		}
		if n != cut+len(text(second)) {
			t.Errorf("cut at %d: %d bytes were read", cut, n)
		}
	}
	// Without its last line break an entry is complete as soon as another follows.
	got, _ := scan(append(bytes.Clone(whole[:len(whole)-1]), text(second)...))
	if len(got) != 2 {
		t.Errorf("cut before the line break: got %+v", got)
	}
}

// TestFlipped: no changed byte goes unnoticed.
func TestFlipped(t *testing.T) {
	e := entries()[1]
	whole := text(e)
	for i := 1; i < len(whole)-1; i++ {
		for bit := range 8 {
			b := bytes.Clone(whole)
			b[i] ^= 1 << bit
			if got, _ := scan(b); len(got) != 0 {
				t.Fatalf("byte %d, bit %d: got %+v", i, bit, got)
			}
		}
	}
}

func TestScanStopsAtAnOpenLine(t *testing.T) {
	data := text(entries()...)
	open := len(data) - 5
	got, n := scan(data[:open])
	if len(got) != len(entries())-1 {
		t.Errorf("got %d entries, want %d", len(got), len(entries())-1)
	}
	rest, _ := scan(data[n:])
	if len(rest) != 1 || rest[0].Kind != fold.Seal {
		t.Errorf("after the rest came: got %+v", rest)
	}
}

func TestAppendLineRefusesNonces(t *testing.T) {
	for _, nonce := range []string{"", "a b", "a\n", "-", "ä", strings.Repeat("x", fold.MaxNonce+1)} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("nonce %q: no panic", nonce)
				}
			}()
			fold.AppendLine(nil, fold.Entry{Kind: fold.Value, Nonce: nonce})
		}()
	}
}

func FuzzScan(f *testing.F) {
	f.Add(text(entries()...))
	f.Add([]byte("\nV 1 a - j1 00000000\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, n := scan(data)
		if n > len(data) || (n > 0 && data[n-1] != '\n') {
			t.Fatalf("%d of %d bytes", n, len(data))
		}
		for _, e := range got {
			again, _ := scan(fold.AppendLine(nil, e))
			if len(again) != 1 || !reflect.DeepEqual(again[0], e) {
				t.Fatalf("got %+v, want %+v", again, e)
			}
		}
	})
}

func FuzzLine(f *testing.F) {
	f.Add(uint64(1), "abc", "", []byte("{}"), false)
	f.Add(uint64(0), "abc", "def", []byte("x\ny"), true)
	f.Fuzz(func(t *testing.T, number uint64, nonce, prev string, value []byte, deleted bool) {
		e := fold.Entry{Kind: fold.Value, Number: number, Nonce: nonce, Prev: prev, Value: value, Deleted: deleted}
		if value == nil || deleted {
			e.Value, e.Deleted = nil, true
		}
		defer func() {
			if p := recover(); p != nil && !strings.Contains(p.(string), "letters and digits") {
				panic(p)
			}
		}()
		line := fold.AppendLine([]byte("before"), e)
		got, _ := scan(line[len("before"):])
		if len(got) != 1 || !reflect.DeepEqual(got[0], e) {
			t.Fatalf("got %+v, want %+v", got, e)
		}
	})
}
