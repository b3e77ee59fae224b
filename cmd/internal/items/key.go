package items

import (
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/items/largeitem"
)

// parseKey reads the key of an item as people write it: PARTITION, PARTITION/SORT where the
// table has a sort key, or JSON: an array of the values, or an object with the names of the
// key's attributes. The types are those of the table.
func parseKey(s largeitem.Schema, text string) (largeitem.Key, error) {
	if strings.HasPrefix(text, "[") || strings.HasPrefix(text, "{") {
		return parseJSONKey(s, text)
	}
	values := []string{text}
	if s.Sort.Name != "" {
		if values = strings.Split(text, "/"); len(values) != 2 {
			return largeitem.Key{}, exit.Usagef(`the key %s is not complete: the table has a partition key %s and a sort key %s; write PARTITION/SORT, or ["PARTITION","SORT"] if a value contains a slash`, printable.Text(text), s.Partition.Name, s.Sort.Name)
		}
	}
	typed := make([]any, len(values))
	for i, a := range []largeitem.KeyAttribute{s.Partition, s.Sort}[:len(values)] {
		typed[i] = values[i]
		if a.Number {
			typed[i] = largeitem.Number(values[i])
		}
	}
	return checkedKey(s, text, typed)
}

func checkedKey(s largeitem.Schema, text string, values []any) (largeitem.Key, error) {
	if text == "" {
		return largeitem.Key{}, exit.Usagef("KEY is empty: a variable of your script may not be set")
	}
	k, err := largeitem.NewKey(values[0], values[1:]...)
	return inTable(s, text, k, err)
}

// inTable checks that the table can have a key that was read without an error.
func inTable(s largeitem.Schema, text string, k largeitem.Key, err error) (largeitem.Key, error) {
	if err == nil {
		err = s.CheckKey(k)
	}
	if err != nil {
		err = exit.Usagef("the key %s: %w", printable.Text(text), err)
	}
	return k, err
}

func parseJSONKey(s largeitem.Schema, text string) (largeitem.Key, error) {
	if strings.HasPrefix(text, "[") {
		var k largeitem.Key
		err := k.UnmarshalText([]byte(text))
		return inTable(s, text, k, err)
	}
	named, err := largeitem.UnmarshalPlain([]byte(text))
	if err != nil {
		return largeitem.Key{}, exit.Usagef("the key %s: %w", printable.Text(text), err)
	}
	var values []any
	for _, a := range []largeitem.KeyAttribute{s.Partition, s.Sort} {
		if v, ok := named[a.Name]; ok && a.Name != "" {
			values = append(values, v)
			delete(named, a.Name)
		} else if a.Name != "" {
			return largeitem.Key{}, exit.Usagef("the key %s has no value for %s", printable.Text(text), printable.Text(a.Name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		return largeitem.Key{}, exit.Usagef("the key %s: %s is not a part of the key of the table", printable.Text(text), printable.Text(name))
	}
	return checkedKey(s, text, values)
}

// attributesFlag reads JSON with or without types; see --dynamodb-json.
func attributesFlag(name, text string, typed bool) (largeitem.Attributes, error) {
	read := largeitem.UnmarshalPlain
	if typed {
		read = largeitem.UnmarshalTyped
	}
	attrs, err := read([]byte(text))
	if err != nil {
		example := `{"status":200}`
		if typed {
			example = `{"status":{"N":"200"}}`
		}
		return nil, exit.Usagef("the value of --%s must be a JSON object, such as '%s': %w", name, example, err)
	}
	return attrs, nil
}
