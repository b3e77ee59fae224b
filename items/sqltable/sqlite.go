package sqltable

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/internal/localfs"
	"github.com/holdfast-go/holdfast/items/largeitem"
)

// sqlite has values with types of their own, whatever the column says. A cell is read as a
// text that begins with a letter for the type.
type sqlite struct{}

func (sqlite) placeholder(n int) string { return "?" + strconv.Itoa(n) }

func (sqlite) quote(name string) string { return quote(name) }

func (sqlite) quotes() string { return `'"` }

func (sqlite) upsert() bool { return true }

func (sqlite) text(argument string) string { return argument }

func (sqlite) null(*column) string { return "NULL" }

func (sqlite) cell(c *column) string {
	return fmt.Sprintf(`CASE typeof(%[1]s) WHEN 'null' THEN NULL WHEN 'text' THEN CASE WHEN octet_length(%[1]s) > %[2]d THEN 'x' WHEN instr(%[1]s, char(0)) THEN 'z' ELSE 't' || %[1]s END`+
		` WHEN 'blob' THEN CASE WHEN length(%[1]s) > %[2]d / 2 THEN 'x' ELSE 'b' || hex(%[1]s) END ELSE 'n' || quote(%[1]s) END`,
		quote(c.name), maxCell)
}

func (sqlite) value(_ *column, argument string) string { return argument }

// sqliteClass follows SQLite's own rules of affinity. A number in a column for dates, or in
// another one with affinity NUMERIC, would lose its form as a text.
func sqliteClass(kind string) class {
	kind = strings.ToUpper(kind)
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(kind, word) })
	}
	switch {
	case has("INT"):
		return classNumber
	case has("CHAR", "CLOB", "TEXT"):
		return classText
	case has("BLOB"):
		return classBytes
	case has("BOOL"):
		return classBool
	case has("REAL", "FLOA", "DOUB", "NUM", "DEC"):
		return classNumber
	}
	return classOther
}

// isReal reports whether a column of numbers keeps floats only.
func isReal(kind string) bool {
	kind = strings.ToUpper(kind)
	return !strings.Contains(kind, "INT") && (strings.Contains(kind, "REAL") || strings.Contains(kind, "FLOA") || strings.Contains(kind, "DOUB"))
}

func (sqlite) param(c *column, v any) (any, error) {
	switch c.class {
	case classNumber:
		n, err := canonical(v)
		if err != nil {
			return nil, err
		}
		if i, err := strconv.ParseInt(string(n), 10, 64); err == nil && !isReal(c.kind) {
			return i, nil
		}
		f, exact := exactFloat(n, 64)
		if !exact {
			return nil, fmt.Errorf("SQLite cannot store all digits of %s", n)
		}
		return f, nil
	case classBool:
		b, err := typed[bool](v, "a bool")
		if b {
			return int64(1), err
		}
		return int64(0), err
	case classBytes:
		b, err := typed[[]byte](v, "bytes")
		return append([]byte{}, b...), err
	}
	text, err := typed[string](v, "a text")
	if err != nil {
		return nil, err
	}
	if strings.ContainsRune(text, 0) {
		return nil, errZero
	}
	_, err = strconv.ParseFloat(strings.TrimSpace(text), 64) // out of range, SQLite would store infinity
	if c.class == classOther && (err == nil || errors.Is(err, strconv.ErrRange)) {
		return nil, errors.New("SQLite would store this text as a number")
	}
	return text, nil
}

var errZero = errors.New("SQLite cannot read the part of a text after a zero character")

func (sqlite) read(c *column, text string) (any, error) {
	kind, text := text[:1], text[1:]
	switch {
	case kind == "t":
		return text, nil
	case kind == "x":
		return nil, errTooLong
	case kind == "z":
		return nil, errZero
	case kind == "b":
		return hex.DecodeString(text)
	case c.class == classText || c.class == classOther || c.class == classJSON:
		return text, nil
	case c.class == classBool && (text == "0" || text == "1"):
		return text == "1", nil
	case !strings.ContainsAny(text, ".eE"):
		return largeitem.Number(text).Canonical()
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, err
	}
	return floatNumber(f, 64)
}

func (sqlite) create(table string, keys []largeitem.KeyAttribute, json, comment string) []string {
	// SQLite keeps the text of the statement, with the comment.
	return []string{"CREATE TABLE " + quote(table) + " (" + newColumns(sqlite{}, keys, "TEXT", "NUMERIC", quote(json)+" TEXT") + " /* " + comment + " */)"}
}

func (sqlite) describe(ctx context.Context, db *sql.DB, table, name string) (found description, err error) {
	unique := map[string][]string{}
	var primary []string
	integer := false
	err = each(ctx, db, `SELECT name, type, hidden, pk FROM pragma_table_xinfo(?1)`, []any{table}, func(scan func(...any) error) error {
		c := &column{}
		var hidden, pk int
		err := scan(&c.name, &c.kind, &hidden, &pk)
		c.class = sqliteClass(c.kind)
		if hidden == 0 {
			found.columns = append(found.columns, c)
		}
		if pk > 0 {
			primary = append(primary, c.name)
			integer = strings.EqualFold(c.kind, "INTEGER")
		}
		return err
	})
	if err != nil || len(found.columns) == 0 {
		return found, err
	}
	if len(primary) == 1 && integer {
		found.unique = append(found.unique, primary) // it needs no index
	}
	caseless := map[string]bool{}
	err = each(ctx, db, `SELECT l.name, COALESCE(i.name, ''), i.coll FROM pragma_index_list(?1) AS l, pragma_index_xinfo(l.name) AS i
		WHERE l."unique" AND NOT l.partial AND i.key`, []any{table}, func(scan func(...any) error) error {
		var index, name, collation string
		err := scan(&index, &name, &collation)
		caseless[name] = caseless[name] || collation != "BINARY"
		unique[index] = append(unique[index], name)
		return err
	})
	if err != nil {
		return found, err
	}
	for _, c := range found.columns {
		equates, indexed := caseless[c.name]
		if indexed && !equates {
			// An index can compare otherwise than its column, and a condition compares as the column does.
			count := `SELECT count(*) < 3 FROM (SELECT ` + quote(c.name) + ` FROM ` + quote(table) + ` WHERE 0 UNION VALUES ('a'), ('A'), ('a '))`
			if err := db.QueryRowContext(ctx, count).Scan(&equates); err != nil {
				return found, err
			}
		}
		c.caseless = equates
	}
	found.unique = slices.AppendSeq(found.unique, maps.Values(unique))
	var file string
	if err := db.QueryRowContext(ctx, `SELECT COALESCE(max(file), '') FROM pragma_database_list WHERE name = 'main'`).Scan(&file); err != nil {
		return found, err
	}
	err = db.QueryRowContext(ctx, `SELECT name, COALESCE(sql, '') FROM sqlite_master WHERE type IN ('table', 'view') AND name = ?1 COLLATE NOCASE`, table).Scan(&found.name, &found.comment)
	if err != nil {
		return found, err
	}
	where := "memory:" + name
	if info, err := os.Stat(file); err == nil {
		if where, err = localfs.Identify(file, info); err != nil {
			return found, err
		}
	} else if file != "" {
		where = "file:" + file // a driver can have files of its own
	}
	found.place = "sqlite:" + where + ":" + found.name
	return found, nil
}
