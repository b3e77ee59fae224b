package dynamoexpr_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/aws/dynamoexpr"
)

// FuzzUpdate: an update that is put together again from its actions is the same update, so
// that none can hide in the text of another.
func FuzzUpdate(f *testing.F) {
	for _, text := range []string{
		"SET a = :v, #n.b[0] = if_not_exists(c, :v) + d REMOVE e, f ADD g :v DELETE h :s", "set a=(:v)-b remove c", "SET a = list_append(:v, b)",
		"SET a = :v SET b = :v", "SET SET = :v", "REMOVE a REMOVE", "ADD a b", "SET a = :v)", "SET a = ((:v)", "REMOVE a.set, b", "SET a = set", "REMOVE #n#n",
		"SET a = :v /* , */ REMOVE b", "SET a = \":v\"", "REMOVE a[99999999999999999999]", "REMOVE a.", "", " ", "SET", "SET a = b(:v)", "SET a = size(b)",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		actions, err := parse(text)
		if err != nil {
			return
		}
		parts := make(map[string][]string)
		for _, a := range actions {
			parts[a.Kind] = append(parts[a.Kind], a.Text)
		}
		var anew []string
		for _, kind := range dynamoexpr.Kinds {
			if parts[kind] != nil {
				anew = append(anew, kind+" "+strings.Join(parts[kind], ", "))
			}
		}
		again, err := parse(strings.Join(anew, " "))
		if len(text) < 4000 && (err != nil || len(again) != len(actions)) {
			t.Fatalf("%q became %q: %v", text, anew, err)
		}
		for _, a := range again {
			found := false
			for _, b := range actions {
				found = found || reflect.DeepEqual(a, b)
			}
			if !found {
				t.Errorf("%q became %q, which does %+v", text, anew, a)
			}
		}
	})
}

func parse(text string) ([]dynamoexpr.Action, error) {
	p := dynamoexpr.Parser{Names: map[string]string{"#n": "a name"}}
	return p.Update(text)
}

// FuzzCondition: a condition that is accepted is one in parentheses, too, and next to others.
func FuzzCondition(f *testing.F) {
	for _, text := range []string{
		"a = :v", "a = :v) OR (b = :v", "NOT (a <> :v AND b BETWEEN :v AND c) OR d IN (:v, e)", "attribute_exists(#n)", "size(a) >= :v", "((a = b))", "(a) = b",
		"a = :v OR", "NOT NOT a = b", "a", ":v", "attribute_exists(a) = :v", "size(a)", "contains(a, :v", "a=:v AND(b=:v)", strings.Repeat("(", 200), strings.Repeat("NOT ", 200) + "a = b",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := dynamoexpr.Parser{Names: map[string]string{"#n": "a name"}}
		n, err := p.Condition(text)
		if err != nil || len(text) > 4000 {
			return
		}
		whole, err := p.Condition("x = :y AND (" + text + ")")
		if err == nil && (whole.Op != "AND" || len(whole.Args) != 2 || !reflect.DeepEqual(whole.Args[1], n)) || err != nil && !strings.Contains(err.Error(), "deep") {
			t.Errorf("%q: %+v, %v, want %+v", text, whole, err, n)
		}
	})
}
