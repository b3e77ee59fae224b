package largeitem_test

import (
	"fmt"

	"github.com/holdfast-go/holdfast/items/largeitem"
)

func ExampleMarshalTyped() {
	item := largeitem.Attributes{"name": "Ada", "born": largeitem.Number("1815"), "tags": largeitem.StringSet{"poet", "mathematician"}}
	text, err := largeitem.MarshalTyped(item)
	fmt.Printf("%s %v\n", text, err)
	// Output: {"born":{"N":"1815"},"name":{"S":"Ada"},"tags":{"SS":["mathematician","poet"]}} <nil>
}

func ExampleUnmarshalTyped() {
	item, err := largeitem.UnmarshalTyped([]byte(`{"born":{"N":"1815"}}`))
	fmt.Println(item, err)
	// Output: map[born:1815] <nil>
}

func ExampleMarshalPlain() {
	text, err := largeitem.MarshalPlain(largeitem.Attributes{"name": "Ada", "born": largeitem.Number("1815"), "photo": []byte{1, 2}})
	fmt.Printf("%s %v\n", text, err)
	// Output: {"born":1815,"name":"Ada","photo":"AQI="} <nil>
}

func ExampleUnmarshalPlain() {
	item, err := largeitem.UnmarshalPlain([]byte(`{"name": "Ada", "born": 1815}`))
	fmt.Println(item, err)
	// Output: map[born:1815 name:Ada] <nil>
}
