package dynamotable_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/holdfast/items/dynamotable"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/store"
)

// all are attributes of all ten types.
func all() largeitem.Attributes {
	return largeitem.Attributes{
		"s": "text", "n": largeitem.Number("-1.5"), "b": []byte{0, 255}, "bool": false, "null": nil,
		"l": []any{"x", nil, []any{}, map[string]any{}}, "m": map[string]any{"a": map[string]any{"b": true}},
		"ss": largeitem.StringSet{"a", ""}, "ns": largeitem.NumberSet{"1", "1E+100"}, "bs": largeitem.BinarySet{{}, {1}},
		"empty": "", "no bytes": []byte{}, "a.b[0] c#:": "odd name", "SIZE": "reserved",
	}
}

func TestValues(t *testing.T) {
	want := all()
	item, err := dynamotable.ToItem(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := dynamotable.FromItem(item)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v, %v\nwant %#v", got, err, want)
	}
	// Neither shares bytes with the other.
	item["b"].(*types.AttributeValueMemberB).Value[0] = 7
	got["bs"].(largeitem.BinarySet)[1][0] = 7
	if !reflect.DeepEqual(want, all()) || item["bs"].(*types.AttributeValueMemberBS).Value[1][0] != 1 {
		t.Error("what was converted changed with its copy")
	}
	number, err := dynamotable.ToValue(largeitem.Number("+007.0e1"))
	if n, ok := number.(*types.AttributeValueMemberN); err != nil || !ok || n.Value != "70" {
		t.Errorf("got %v, %v", number, err)
	}
	for name, v := range map[string]any{
		"an int": 7, "no number": largeitem.Number("x"), "an empty set": largeitem.StringSet{}, "bytes that are no text": "\xff",
		"a name that is empty": map[string]any{"": "x"}, "within": []any{map[string]any{"a": 1.5}},
	} {
		if _, err := dynamotable.ToValue(v); !errors.Is(err, largeitem.ErrInvalid) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, v := range map[string]types.AttributeValue{
		"nothing": nil, "a type of later": &types.UnknownUnionMember{Tag: "X"}, "a null that is none": &types.AttributeValueMemberNULL{},
		"within": &types.AttributeValueMemberL{Value: []types.AttributeValue{&types.AttributeValueMemberM{Value: map[string]types.AttributeValue{"a": &types.UnknownUnionMember{}}}}},
	} {
		if got, err := dynamotable.FromValue(v); !errors.Is(err, dynamotable.ErrType) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
