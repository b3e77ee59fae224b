package jsontest

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Section returns the part of the page about JSON below a heading that begins so.
func Section(t *testing.T, heading string) string {
	t.Helper()
	_, rest, found := strings.Cut(string(document(t, "docs/json.md")), "\n## "+heading)
	if !found {
		t.Fatalf("no section %q", heading)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	return rest
}

// Fields checks that a definition of the schema of locks, and the page about JSON below a heading, have each
// field of a type, and that the schema has no other. A field that is always there is required.
func Fields(t *testing.T, def string, of any, heading string) {
	t.Helper()
	s := LocksSchema(t).Defs[def]
	page := Section(t, heading)
	for field := range s.Properties {
		if !strings.Contains(page, "`"+field+"`") {
			t.Errorf("%s: docs/json.md does not have `%s` below %q", def, field, heading)
		}
	}
	var fields, always []string
	for _, f := range reflect.VisibleFields(reflect.TypeOf(of)) {
		field, omitted, _ := strings.Cut(f.Tag.Get("json"), ",")
		if field == "" || field == "-" {
			continue
		}
		fields = append(fields, field)
		if s.Properties[field] == nil {
			t.Errorf("%s: the schema does not have %s", def, field)
		}
		if omitted == "" && (def != "lock" || field != "time") { // only watch has the time
			always = append(always, field)
		}
	}
	if len(fields) != len(s.Properties) {
		t.Errorf("%s: the schema has fields that are not printed: %v has %d", def, fields, len(s.Properties))
	}
	if slices.Sort(always); !slices.Equal(always, slices.Sorted(slices.Values(s.Required))) {
		t.Errorf("%s: %v are always there, and the schema requires %v", def, always, s.Required)
	}
}
