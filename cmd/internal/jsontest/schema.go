// Package jsontest compares the JSON that commands print with golden files and with the documented
// schemas.
package jsontest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// Schema is a JSON schema with the few keywords that those in docs use.
type Schema struct {
	Defs        map[string]*Schema `json:"$defs"`
	Ref         string             `json:"$ref"`
	OneOf       []*Schema          `json:"oneOf"`
	Type        string             `json:"type"`
	Const       any                `json:"const"`
	Enum        []any              `json:"enum"`
	Items       *Schema            `json:"items"`
	Properties  map[string]*Schema `json:"properties"`
	Required    []string           `json:"required"`
	Additional  *bool              `json:"additionalProperties"`
	MinLength   *int               `json:"minLength"`
	MaxLength   *int               `json:"maxLength"`
	Minimum     *int64             `json:"minimum"`
	Maximum     *int64             `json:"maximum"`
	Format      string             `json:"format"`
	Schema      string             `json:"$schema"`
	Title       string             `json:"title"`
	Description string             `json:"description"`
	Encoding    string             `json:"contentEncoding"`
}

// ReadSchema reads a documented schema. A keyword that [Schema] does not check is an error.
func ReadSchema(t *testing.T, name string) *Schema {
	t.Helper()
	s := &Schema{}
	dec := json.NewDecoder(bytes.NewReader(document(t, "docs/"+name+".schema.json")))
	dec.DisallowUnknownFields()
	if err := dec.Decode(s); err != nil {
		t.Fatal(err)
	}
	return s
}

// LocksSchema reads the schema of locks, in which no object may have a field that is not
// documented.
func LocksSchema(t *testing.T) *Schema {
	t.Helper()
	s, no := ReadSchema(t, "locks"), false
	for _, def := range s.Defs {
		if def.Properties != nil {
			def.Additional = &no
		}
	}
	return s
}

// document reads a file of the repository. The directory of the test is two or three levels below its root.
func document(t *testing.T, name string) []byte {
	t.Helper()
	for _, up := range []string{"../../", "../../../"} {
		if text, err := os.ReadFile(up + name); err == nil {
			return text
		}
	}
	t.Fatalf("no file %s", name)
	return nil
}

// Check applies the definition of that name to a text.
func (s *Schema) Check(name string, text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return err
	}
	return s.Defs[name].apply(s.Defs, v)
}

func (s *Schema) apply(defs map[string]*Schema, v any) error {
	if s.Ref != "" {
		name := strings.TrimPrefix(s.Ref, "#/$defs/")
		if defs[name] == nil {
			return fmt.Errorf("no definition %s", s.Ref)
		}
		if err := defs[name].apply(defs, v); err != nil {
			return err
		}
	}
	if s.OneOf != nil {
		fits, why := 0, []string{}
		for _, one := range s.OneOf {
			if err := one.apply(defs, v); err != nil {
				why = append(why, err.Error())
			} else {
				fits++
			}
		}
		if fits != 1 {
			return fmt.Errorf("%d of %d forms fit: %s", fits, len(s.OneOf), strings.Join(why, "; "))
		}
	}
	if s.Const != nil && v != s.Const || s.Enum != nil && !slices.Contains(s.Enum, v) {
		return fmt.Errorf("%v is not %v%v", v, s.Const, s.Enum)
	}
	switch s.Type {
	case "":
	case "object":
		return s.object(defs, v)
	case "array":
		elements, ok := v.([]any)
		if !ok {
			return fmt.Errorf("%v is no array", v)
		}
		for i, element := range elements {
			if err := s.Items.apply(defs, element); err != nil {
				return fmt.Errorf("%d: %w", i, err)
			}
		}
	case "null":
		if v != nil {
			return fmt.Errorf("%v is not null", v)
		}
	case "string":
		text, ok := v.(string)
		switch {
		case !ok:
			return fmt.Errorf("%v is no string", v)
		case s.MinLength != nil && utf8.RuneCountInString(text) < *s.MinLength, s.MaxLength != nil && utf8.RuneCountInString(text) > *s.MaxLength:
			return fmt.Errorf("%q has a wrong length", text)
		}
		if s.Format == "date-time" {
			_, err := time.Parse(time.RFC3339, text)
			return err
		}
	case "boolean":
		if _, ok := v.(bool); !ok {
			return fmt.Errorf("%v is neither true nor false", v)
		}
	case "integer":
		number, _ := v.(json.Number)
		n, err := number.Int64()
		if err != nil || s.Minimum != nil && n < *s.Minimum || s.Maximum != nil && n > *s.Maximum {
			return fmt.Errorf("%v is no such integer", v)
		}
	default:
		return fmt.Errorf("type %s is not checked", s.Type)
	}
	return nil
}

func (s *Schema) object(defs map[string]*Schema, v any) error {
	fields, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("%v is no object", v)
	}
	for _, name := range s.Required {
		if _, ok := fields[name]; !ok {
			return fmt.Errorf("%s is missing", name)
		}
	}
	for name, field := range fields {
		switch property := s.Properties[name]; {
		case property != nil:
			if err := property.apply(defs, field); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		case s.Additional != nil && !*s.Additional:
			return fmt.Errorf("%s is not known", name)
		}
	}
	return nil
}
