package largeitem_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/items/largeitem"
)

// TestSweepAlteredReference: a reference that another program has altered protects its
// object as long as the attribute has the object's ID: the user can mend it.
func TestSweepAlteredReference(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef"
	key := "p/T/pk=Ä/attr=x/" + id
	for name, altered := range map[string]any{
		"in small letters":         strings.ToLower(refer(key)),
		"in capitals":              strings.ToUpper(refer(key)),
		"in another form":          strings.ReplaceAll(refer(key), "Ä", "A\u0308"),
		"below another prefix":     strings.ReplaceAll(refer(key), "p/T/", "T/"),
		"as bytes":                 []byte(refer(key)),
		"the name alone":           key,
		"percent-encoded":          strings.ReplaceAll(refer(key), "Ä", "%C3%84"),
		"wholly percent-encoded":   url.QueryEscape(refer(key)), // the ID is after the digits of a slash
		"in small letters, nested": map[string]any{"u": []any{strings.ToLower(refer(key))}},
	} {
		for _, scan := range []bool{false, true} {
			bubbles(t, name, func(t *testing.T) {
				s := newSwept(t, nil)
				s.put(key, "body")
				s.put("p/T/pk=Ä/attr=y/"+id, "control: of another attribute")
				time.Sleep(day + time.Second)
				s.table.set("Ä", "x", altered)
				want := largeitem.SweepStats{Unreadable: 1, Deleted: 1}
				if name == "as bytes" {
					want = largeitem.SweepStats{Referenced: 1, Deleted: 1}
				}
				s.expect(&largeitem.SweepOptions{Scan: scan}, want)
			})
		}
	}
}
