package sqltable

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/items/largeitem"
)

// statement is a statement in the making, with its arguments.
type statement struct {
	d    dialect
	b    strings.Builder
	args []any
}

func (t *Table) statement(texts ...string) *statement {
	return (&statement{d: t.dialect}).add(texts...)
}

func (s *statement) text() string { return s.b.String() }

func (s *statement) add(texts ...string) *statement {
	for _, text := range texts {
		s.b.WriteString(text)
	}
	return s
}

// arg adds an argument, and returns what stands for it.
func (s *statement) arg(v any) string {
	s.args = append(s.args, v)
	return s.d.placeholder(len(s.args))
}

// value adds a value for a column, as layout.values returns it.
func (s *statement) value(c *column, v any) *statement {
	if v == nil {
		return s.add("NULL")
	}
	return s.add(s.d.value(c, s.arg(v)))
}

// key adds the condition that the row is that of a key.
func (s *statement) key(l *layout, key largeitem.Key) *statement {
	for i, v := range l.keyParams(key) {
		s.add([]string{" WHERE ", " AND "}[i], s.d.quote(l.keys[i].name), " = ").value(l.keys[i], v)
	}
	return s
}

// keyValues adds the values of a key.
func (s *statement) keyValues(l *layout, key largeitem.Key) *statement {
	for i, v := range l.keyParams(key) {
		s.add([]string{"", ", "}[i]).value(l.keys[i], v)
	}
	return s
}

// unchanged adds the condition that the row is what was read.
func (s *statement) unchanged(l *layout, r row) *statement {
	for i, c := range l.attributes {
		s.add(" AND ", s.d.cell(c))
		if r.cells[i].Valid {
			s.add(" = ", s.d.text(s.arg(r.cells[i].String)))
		} else {
			s.add(" IS NULL")
		}
	}
	return s
}

// where adds an expression, if there is one, as a condition.
func (s *statement) where(where *SQL) *statement {
	if where == nil {
		return s
	}
	return s.add(" AND (").expression(*where).add(")")
}

// expression adds an expression, which was checked.
func (s *statement) expression(e SQL) *statement {
	parts, _ := e.parts(s.d.quotes())
	for i, part := range parts {
		if i > 0 {
			s.add(s.arg(e.Args[i-1]))
		}
		s.add(part)
	}
	return s
}

// computed adds a table with the values of expressions. An UPDATE of MySQL computes the expressions one after
// the other, and a later one would see the new values of the earlier ones. LIMIT keeps the server from
// merging the two tables.
func (s *statement) computed(l *layout, key largeitem.Key, table string, set Set) *statement {
	s.add(" JOIN (SELECT ")
	next := ""
	for _, name := range slices.Sorted(maps.Keys(set)) {
		s.add(next, "(").expression(set[name]).add(") AS ", s.d.quote("computed "+name))
		next = ", "
	}
	return s.add(" FROM ", s.d.quote(table)).key(l, key).add(" LIMIT 1) AS ", s.d.quote("holdfast computed"))
}

// computedName is the value of an expression for a column, from the table that computed adds.
func computedName(name string) string {
	return mysql{}.quote("holdfast computed") + "." + mysql{}.quote("computed "+name)
}

func (e SQL) check(d dialect) error {
	parts, ok := e.parts(d.quotes())
	switch {
	case d == dialect(mysql{}) && strings.ContainsRune(e.Text, '\\'):
		return fmt.Errorf("%w: the expression %.80q contains a backslash, which means different things in different sessions; pass the text as an argument", largeitem.ErrInvalid, e.Text)
	case strings.TrimSpace(e.Text) == "" || strings.ContainsRune(e.Text, 0) || !ok:
		return fmt.Errorf("%w: %.80q is not a valid SQL expression", largeitem.ErrInvalid, e.Text)
	case len(parts)-1 != len(e.Args):
		return fmt.Errorf("%w: the expression %.80q has %d question marks, but %d arguments", largeitem.ErrInvalid, e.Text, len(parts)-1, len(e.Args))
	}
	return nil
}

// parts splits an expression at the question marks that stand for arguments. It reports
// whether all quotes are closed.
func (e SQL) parts(quotes string) (parts []string, ok bool) {
	var part strings.Builder
	var quoted byte
	for i := 0; i < len(e.Text); i++ {
		c := e.Text[i]
		switch {
		case quoted != 0:
			if c == quoted {
				quoted = 0 // two in a row end a text and begin another one
			}
		case strings.IndexByte(quotes, c) >= 0:
			quoted = c
		case c == '?' && strings.HasPrefix(e.Text[i+1:], "?"):
			i++
		case c == '?':
			parts = append(parts, part.String())
			part.Reset()
			continue
		}
		part.WriteByte(c)
	}
	return append(parts, part.String()), quoted == 0
}

// quote writes a name as the standard says.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func quoteAll(d dialect, names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = d.quote(name)
	}
	return strings.Join(quoted, ", ")
}

// newColumns returns the columns of a new table: those of the key with these types, and then the
// column for JSON.
func newColumns(d dialect, keys []largeitem.KeyAttribute, text, number, json string) string {
	var columns, names []string
	for _, key := range keys {
		kind := text
		if key.Number {
			kind = number
		}
		columns = append(columns, d.quote(key.Name)+" "+kind+" NOT NULL")
		names = append(names, key.Name)
	}
	return strings.Join(append(columns, json, "PRIMARY KEY ("+quoteAll(d, names)+")"), ", ")
}

// sameValue compares what layout.values returns.
func sameValue(a, b any) bool {
	x, isBytes := a.([]byte)
	y, areBytes := b.([]byte)
	if isBytes || areBytes {
		return isBytes && areBytes && bytes.Equal(x, y)
	}
	return a == b
}
