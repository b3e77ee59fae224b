package sqltable

import (
	"context"
	"database/sql"
	"encoding/hex"
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

// postgres passes every argument as a text, and casts it.
type postgres struct{}

func (postgres) placeholder(n int) string { return "$" + strconv.Itoa(n) }

func (postgres) quote(name string) string { return quote(name) }

func (postgres) quotes() string { return `'"` }

func (postgres) upsert() bool { return true }

func (postgres) text(argument string) string { return argument + "::text" }

func (postgres) null(c *column) string { return "NULL::" + c.kind }

func (postgres) cell(c *column) string {
	text := quote(c.name) + "::text"
	if c.class == classBytes {
		text = "encode(" + quote(c.name) + ", 'hex')"
	}
	// The length of what stands for a value that is too long depends on the row, although it is
	// always the same: PostgreSQL computes a constant for each plan, here 6 MiB for each column.
	return fmt.Sprintf(`(CASE WHEN octet_length(%[1]s) > %[2]d THEN repeat('x', %[2]d + least(octet_length(%[1]s), 2)) ELSE %[1]s END) COLLATE "C"`, text, maxCell)
}

func (postgres) value(c *column, argument string) string {
	argument += "::text"
	switch {
	case postgresClass(c.kind) == classText || strings.HasPrefix(c.kind, "character("):
		return argument // a cast to varchar(n) would cut it
	case c.class == classBytes:
		return "decode(" + argument + ", 'hex')"
	case postgresClass(c.kind) == classNumber && strings.HasPrefix(c.kind, "numeric"):
		return argument + "::numeric"
	}
	return argument + "::" + c.kind
}

func postgresClass(kind string) class {
	name, _, _ := strings.Cut(kind, "(")
	if strings.HasSuffix(kind, "]") {
		return classOther // an array
	}
	switch name {
	case "text", "character varying":
		return classText
	case "smallint", "integer", "bigint", "numeric", "real", "double precision":
		return classNumber
	case "boolean":
		return classBool
	case "bytea":
		return classBytes
	}
	return classOther
}

func (postgres) param(c *column, v any) (any, error) {
	switch c.class {
	case classNumber:
		n, err := canonical(v)
		if err == nil {
			err = postgresNumber(n, c.kind)
		}
		return string(n), err
	case classBool:
		b, err := typed[bool](v, "a bool")
		return strconv.FormatBool(b), err
	case classBytes:
		b, err := typed[[]byte](v, "bytes")
		return hex.EncodeToString(b), err
	}
	text, err := typed[string](v, "a text")
	switch {
	case err != nil:
		return nil, err
	case strings.ContainsRune(text, 0):
		return nil, errors.New("PostgreSQL cannot store a zero character in a text")
	case strings.HasPrefix(c.kind, "character(") && strings.HasSuffix(text, " "):
		return nil, errors.New("PostgreSQL would cut the spaces at the end of the text")
	case strings.HasPrefix(c.kind, "character varying(") && utf8.RuneCountInString(text) > length(c.kind):
		return nil, errors.New("the text is too long for the column") // of such a text, spaces at the end would be cut
	case c.class == classOther && cuts(c.kind):
		return nil, errors.New("PostgreSQL would cut a long text in such a column without an error")
	}
	return text, nil
}

// cuts reports whether a cast to the type cuts a text without an error.
func cuts(kind string) bool {
	for _, harmless := range []string{"character(", "timestamp", "time", "interval"} {
		if strings.HasPrefix(kind, harmless) {
			return false
		}
	}
	return strings.Contains(kind, "(") || strings.HasPrefix(kind, "bit") || strings.HasPrefix(kind, "name") || strings.HasPrefix(kind, `"char"`)
}

// postgresNumber reports that a column of this type would not keep the number as it is.
func postgresNumber(n largeitem.Number, kind string) error {
	bits := map[string]int{"smallint": 16, "integer": 32, "bigint": 64}[kind]
	switch {
	case bits > 0:
		if _, err := strconv.ParseInt(string(n), 10, bits); err != nil {
			return fmt.Errorf("%s is not an integer of %d bits", n, bits)
		}
	case kind == "real" || kind == "double precision":
		if _, exact := exactFloat(n, map[bool]int{true: 32, false: 64}[kind == "real"]); !exact {
			return fmt.Errorf("the column cannot store all digits of %s", n)
		}
	case strings.HasPrefix(kind, "numeric("):
		_, scale, _ := strings.Cut(strings.TrimSuffix(kind, ")"), ",")
		most, err := strconv.Atoi(strings.TrimSpace(scale))
		if err != nil {
			return fmt.Errorf("the number type of the column is unknown")
		}
		if decimals(n) > most {
			return fmt.Errorf("%s has more than %d decimal places", n, most)
		}
	}
	return nil
}

// decimals returns how many digits of a canonical number are after the point.
func decimals(n largeitem.Number) int {
	mantissa, exponent, _ := strings.Cut(string(n), "E")
	_, fraction, _ := strings.Cut(mantissa, ".")
	e, _ := strconv.Atoi(exponent)
	return len(fraction) - e
}

func (postgres) read(c *column, text string) (any, error) {
	switch c.class {
	case classNumber:
		return largeitem.Number(text).Canonical()
	case classBool:
		return strconv.ParseBool(text)
	case classBytes:
		return hex.DecodeString(text)
	}
	return text, nil
}

func (postgres) create(table string, keys []largeitem.KeyAttribute, json, comment string) []string {
	return []string{
		"CREATE TABLE " + quote(table) + " (" + newColumns(postgres{}, keys, `text COLLATE "C"`, "numeric", quote(json)+" text") + ")",
		"COMMENT ON TABLE " + quote(table) + " IS '" + comment + "'",
	}
}

func (postgres) describe(ctx context.Context, db *sql.DB, table, name string) (found description, err error) {
	var id sql.NullString
	err = db.QueryRowContext(ctx, `SELECT to_regclass($1::text)::oid::text`, quote(table)).Scan(&id)
	if err != nil || !id.Valid {
		return found, err
	}
	// What newer servers have more is taken from the rows as JSON. A domain is the type
	// below it.
	err = each(ctx, db, `SELECT a.attname::text,
			CASE WHEN ty.typtype = 'd' THEN format_type(ty.typbasetype, ty.typtypmod) ELSE format_type(a.atttypid, a.atttypmod) END,
			COALESCE((SELECT to_jsonb(c) ->> 'collisdeterministic' FROM pg_collation c WHERE c.oid = a.attcollation), 'true') = 'false'
		FROM pg_attribute a JOIN pg_type ty ON ty.oid = a.atttypid WHERE a.attrelid = $1::text::oid AND a.attnum > 0 AND NOT a.attisdropped
			AND COALESCE(to_jsonb(a) ->> 'attgenerated', '') = '' AND COALESCE(to_jsonb(a) ->> 'attidentity', '') <> 'a'
		ORDER BY a.attnum`, []any{id.String}, func(scan func(...any) error) error {
		c := &column{}
		err := scan(&c.name, &c.kind, &c.caseless)
		c.class = postgresClass(c.kind)
		found.columns = append(found.columns, c)
		return err
	})
	if err != nil {
		return found, err
	}
	unique := map[string][]string{}
	err = each(ctx, db, `SELECT i.indexrelid::text, a.attname::text
		FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
		WHERE i.indrelid = $1::text::oid AND i.indisunique AND i.indimmediate AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL`,
		[]any{id.String}, func(scan func(...any) error) error {
			var index, name string
			err := scan(&index, &name)
			unique[index] = append(unique[index], name)
			return err
		})
	if err != nil {
		return found, err
	}
	found.unique = slices.Collect(maps.Values(unique))
	var database string
	err = db.QueryRowContext(ctx, `SELECT COALESCE(left(obj_description($1::text::oid, 'pg_class'), 1000), ''),
			(SELECT oid::text FROM pg_database WHERE datname = current_database())`, id.String).Scan(&found.comment, &database)
	if err != nil {
		return found, err
	}
	var server string
	err = db.QueryRowContext(ctx, `SELECT system_identifier::text FROM pg_control_system()`).Scan(&server)
	if err != nil {
		rules, _ := sqldialect.Of("postgresql")
		if is := rules.Classify(err); is != store.ErrDenied && is != store.ErrMisconfigured {
			return found, err
		}
		server = name // a relative of PostgreSQL that has no such number is known by its address
	}
	found.place = strings.Join([]string{"postgresql", server, database, id.String}, ":")
	return found, nil
}
