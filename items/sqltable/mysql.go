package sqltable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/drivers/sqldialect"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/store"
)

// mysql is MySQL and MariaDB, with nothing that only one of the two has. Cells are bytes, so that no
// collation takes different texts for equal. A cell is a t and the text, or an x for a text that is too long.
// Texts are passed as bytes, whatever the character set of the session is.
type mysql struct{}

func (mysql) placeholder(int) string { return "?" }

func (mysql) quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

func (mysql) quotes() string { return "'\"`" }

func (mysql) upsert() bool { return false }

func (mysql) text(argument string) string { return "CAST(" + argument + " AS BINARY)" }

func (mysql) null(*column) string { return "NULL" }

// The server returns NULL for a text above its own limit: this is no value that is missing.
func (d mysql) cell(c *column) string {
	text := "CAST(CONVERT(" + d.quote(c.name) + " USING utf8mb4) AS BINARY)"
	switch name := mysqlName(c.kind); {
	case c.class == classBytes || c.keyText:
		text = d.quote(c.name)
	case name == "float" || name == "double":
		text = "CAST(CAST(" + d.quote(c.name) + " + 0e0 AS CHAR) AS BINARY)" // with all digits
	case name == "bit":
		text = "CAST(CAST(" + d.quote(c.name) + " + 0 AS CHAR) AS BINARY)"
	}
	return fmt.Sprintf("CASE WHEN %s IS NULL THEN NULL WHEN LENGTH(%s) <= %d THEN COALESCE(CONCAT('t', %[2]s), 'x') ELSE 'x' END", d.quote(c.name), text, maxCell)
}

func (d mysql) value(c *column, argument string) string {
	switch {
	case c.class == classNumber && mysqlName(c.kind) == "decimal":
		_, scale := mysqlDecimal(c.kind)
		return fmt.Sprintf("CAST(%s AS DECIMAL(65, %d))", argument, scale)
	case c.class == classNumber || c.class == classBool:
		return argument
	case c.class == classBytes || c.keyText:
		return "CAST(" + argument + " AS BINARY)"
	}
	return "CONVERT(CAST(" + argument + " AS BINARY) USING utf8mb4)"
}

// mysqlName returns the name of a type without its length.
func mysqlName(kind string) string {
	if i := strings.IndexAny(kind, "( "); i >= 0 {
		return kind[:i]
	}
	return kind
}

func mysqlClass(kind string) class {
	switch mysqlName(kind) {
	case "varchar", "tinytext", "text", "mediumtext", "longtext":
		return classText
	case "tinyint":
		if kind == "tinyint(1)" { // what the word boolean means
			return classBool
		}
		return classNumber
	case "smallint", "mediumint", "int", "bigint", "decimal", "float", "double", "bit":
		return classNumber
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob":
		return classBytes
	}
	return classOther
}

// length returns the number in the brackets of a type; 0 if there is none.
func length(kind string) int {
	_, after, _ := strings.Cut(kind, "(")
	n, _ := strconv.Atoi(after[:max(0, strings.IndexAny(after, ",)"))])
	return n
}

// mysqlDecimal returns how many digits a decimal has before and after the point.
func mysqlDecimal(kind string) (before, after int) {
	_, scale, _ := strings.Cut(strings.TrimRight(kind[:strings.Index(kind+")", ")")], ")"), ",")
	after, _ = strconv.Atoi(scale)
	return length(kind) - after, after
}

func (mysql) param(c *column, v any) (any, error) {
	name, length := mysqlName(c.kind), length(c.kind)
	switch c.class {
	case classNumber:
		n, err := canonical(v)
		if err != nil {
			return nil, err
		}
		return mysqlNumber(n, c.kind)
	case classBool:
		b, err := typed[bool](v, "a bool")
		if b {
			return int64(1), err
		}
		return int64(0), err
	case classBytes:
		b, err := typed[[]byte](v, "bytes")
		if name == "binary" && len(b) != length {
			return nil, fmt.Errorf("the column has exactly %d bytes", length)
		}
		return append([]byte{}, b...), err
	}
	text, err := typed[string](v, "a text")
	longest := map[string]int{"tinytext": 1<<8 - 1, "text": 1<<16 - 1}[name]
	_, notNumber := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	switch {
	case err != nil:
		return nil, err
	case (name == "varchar" || name == "char") && utf8.RuneCountInString(text) > length, c.keyText && len(text) > length, longest > 0 && len(text) > longest:
		return nil, errors.New("the text is too long for the column") // of such a text, spaces at the end would be cut
	case name == "char" && strings.HasSuffix(text, " "):
		return nil, errors.New("MySQL would cut the spaces at the end of the text")
	case (name == "enum" || name == "set") && notNumber == nil && !strings.Contains(c.kind, "'"+text+"'"):
		return nil, errors.New("MySQL would take the text for the number of a member")
	case name == "year" && len(text) != len("2026"):
		return nil, errors.New("MySQL would complete the year: write four digits")
	}
	return []byte(text), nil
}

// mysqlNumber returns the argument for a number, or says why a column of this type would not keep the number as
// it is.
func mysqlNumber(n largeitem.Number, kind string) (any, error) {
	name := mysqlName(kind)
	bits := map[string]int{"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}[name]
	switch {
	case name == "bit" || bits > 0 && strings.Contains(kind, "unsigned"):
		if name == "bit" {
			bits = length(kind)
		}
		u, err := strconv.ParseUint(string(n), 10, bits)
		if err != nil {
			return nil, fmt.Errorf("%s is not a positive integer of %d bits", n, bits)
		}
		return u, nil
	case bits > 0:
		i, err := strconv.ParseInt(string(n), 10, bits)
		if err != nil {
			return nil, fmt.Errorf("%s is not an integer of %d bits", n, bits)
		}
		return i, nil
	case name == "float" || name == "double":
		f, exact := exactFloat(n, map[bool]int{true: 32, false: 64}[name == "float"])
		if !exact || strings.Contains(kind, "(") || f < 0 && strings.Contains(kind, "unsigned") {
			return nil, fmt.Errorf("the column cannot store all digits of %s", n)
		}
		return f, nil
	}
	before, after := mysqlDecimal(kind)
	if whole := digits(n) - decimals(n); decimals(n) > after || whole > before || n[0] == '-' && strings.Contains(kind, "unsigned") {
		return nil, fmt.Errorf("%s has more than %d digits before the point, or %d after it", n, before, after)
	}
	return string(n), nil
}

// digits returns how many digits the mantissa of a canonical number has.
func digits(n largeitem.Number) int {
	mantissa, _, _ := strings.Cut(string(n), "E")
	return len(strings.TrimLeft(strings.NewReplacer("-", "", ".", "").Replace(mantissa), "0"))
}

func (mysql) read(c *column, text string) (any, error) {
	kind, text := text[:1], text[1:]
	switch {
	case kind == "x":
		return nil, errTooLong
	case c.class == classNumber && (mysqlName(c.kind) == "float" || mysqlName(c.kind) == "double"):
		bits := map[bool]int{true: 32, false: 64}[mysqlName(c.kind) == "float"]
		f, err := strconv.ParseFloat(text, bits)
		if err != nil {
			return nil, err
		}
		return floatNumber(f, bits)
	case c.class == classNumber:
		return largeitem.Number(text).Canonical()
	case c.class == classBool:
		return strconv.ParseBool(text)
	case c.class == classBytes:
		return []byte(text), nil
	}
	return text, nil
}

// create makes keys with the longest values that an index can have, 3,072 bytes together.
func (d mysql) create(table string, keys []largeitem.KeyAttribute, json, comment string) []string {
	columns := newColumns(d, keys, "varbinary(2048)", "decimal(65, 30)", d.quote(json)+" longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
	if len(keys) > 1 && !keys[1].Number {
		sort := d.quote(keys[1].Name) + " varbinary("
		columns = strings.Replace(columns, sort+"2048)", sort+"1024)", 1)
	}
	return []string{"CREATE TABLE " + d.quote(table) + " (" + columns + ") ENGINE = InnoDB ROW_FORMAT = DYNAMIC COMMENT = '" + comment + "'"}
}

func (mysql) describe(ctx context.Context, db *sql.DB, table, name string) (found description, err error) {
	const here = ` WHERE table_schema = database() AND table_name = ? AND CAST(table_name AS BINARY) = CAST(? AS BINARY)`
	var database string
	// A server for which upper case is lower case has the table under another name.
	err = db.QueryRowContext(ctx, `SELECT table_name, left(coalesce(table_comment, ''), 1000), database() FROM information_schema.tables
		WHERE table_schema = database() AND table_name = ? AND (CAST(table_name AS BINARY) = CAST(? AS BINARY) OR @@lower_case_table_names > 0)`, table, table).
		Scan(&found.name, &found.comment, &database)
	if errors.Is(err, sql.ErrNoRows) {
		return description{}, nil
	}
	if err != nil {
		return found, err
	}
	at := []any{found.name, found.name}
	err = each(ctx, db, `SELECT column_name, lower(column_type), coalesce(collation_name, '') FROM information_schema.columns`+here+`
		AND coalesce(generation_expression, '') = '' ORDER BY ordinal_position`, at, func(scan func(...any) error) error {
		c := &column{}
		var collation string
		err := scan(&c.name, &c.kind, &collation)
		c.class = mysqlClass(c.kind)
		c.keyText = mysqlName(c.kind) == "varbinary"
		// Other collations ignore spaces at the end. A float can be different from the number that was written.
		c.caseless = c.class == classText && !strings.HasSuffix(collation, "_nopad_bin") && collation != "utf8mb4_0900_bin" ||
			c.class == classNumber && (mysqlName(c.kind) == "float" || mysqlName(c.kind) == "double")
		found.columns = append(found.columns, c)
		return err
	})
	if err != nil {
		return found, err
	}
	unique := map[string][]string{}
	err = each(ctx, db, `SELECT index_name, coalesce(column_name, ''), sub_part IS NOT NULL FROM information_schema.statistics`+here+` AND non_unique = 0`,
		at, func(scan func(...any) error) error {
			var index, name string
			var part bool
			err := scan(&index, &name, &part)
			if part {
				name += " (a part)" // no key of the table has this name
			}
			unique[index] = append(unique[index], name)
			return err
		})
	if err != nil {
		return found, err
	}
	found.unique = slices.Collect(maps.Values(unique))
	server := name // MariaDB has no number of its own: it is known by its address
	err = each(ctx, db, `SHOW VARIABLES WHERE Variable_name = 'server_uuid'`, nil, func(scan func(...any) error) error {
		var variable string
		return scan(&variable, &server)
	})
	found.place = strings.Join([]string{"mysql", server, database, found.name}, ":")
	return found, err
}

// replaceLocked runs a statement that replaces or deletes a row that was read, or makes a row, in a transaction.
// A DELETE compares the row itself.
func (t *Table) replaceLocked(ctx context.Context, l *layout, key largeitem.Key, r row, s *statement, where *SQL, removes bool) (largeitem.Attributes, bool, error) {
	if t.run != querier(t.db) || removes {
		return t.replaceIn(ctx, l, key, r, s, where, removes)
	}
	type result struct {
		now     largeitem.Attributes
		written bool
	}
	// A driver does not end a COMMIT with its context, and a backup of the server can delay a COMMIT for hours.
	made, err := sqldialect.Read(ctx, t.abandoned, func(ctx context.Context) (made result, err error) {
		tx, err := t.db.BeginTx(ctx, nil) // the end of the context rolls it back
		if err != nil {
			return made, t.explain(err)
		}
		defer tx.Rollback()
		made.now, made.written, err = t.InTx(tx).replaceIn(ctx, l, key, r, s, where, removes)
		if err == nil && made.written {
			err = t.explain(tx.Commit())
		}
		return made, err
	})
	return made.now, made.written, err
}

// replaceIn does the work of replaceLocked. It locks a row that is to be changed, and then compares the row with
// what was read. So it does not depend on what a driver counts. It reads the new row in the same transaction.
func (t *Table) replaceIn(ctx context.Context, l *layout, key largeitem.Key, r row, s *statement, where *SQL, removes bool) (now largeitem.Attributes, written bool, err error) {
	if r.item != nil && !removes {
		locked := false
		check := t.statement("SELECT 1 FROM ", t.dialect.quote(t.o.Table)).key(l, key).unchanged(l, r).where(where).add(" FOR UPDATE")
		err := t.query(ctx, check, 1, func([]sql.NullString) error { locked = true; return nil })
		if err != nil || !locked {
			return nil, false, err
		}
	}
	written, err = t.exec(ctx, s)
	switch {
	case errors.Is(err, store.ErrConflict) && r.item == nil:
		return nil, false, nil // there is a row with this key by now
	case errors.Is(err, store.ErrConflict):
		return nil, false, fmt.Errorf("%w: another row has this value of a unique key: %v", store.ErrInvalid, err)
	case err != nil || removes:
		return nil, written, err
	}
	after, err := t.read(ctx, l, key, nil, true)
	return after.item, true, err
}
