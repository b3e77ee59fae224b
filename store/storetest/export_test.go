package storetest

import "github.com/holdfast-go/holdfast/store"

// Call is a call of a history written by hand.
type Call struct {
	Kind       string // get, put, delete, refused, put?, delete?
	Start, End int64
	Prev       store.Version
	Version    store.Version
	Value      string
	Known      bool
}

// HistoryOf returns a history of these calls on one key.
func HistoryOf(calls ...Call) *History {
	kinds := map[string]callKind{
		"get": callRead, "put": callPut, "delete": callDelete, "refused": callRefused, "put?": callMaybePut, "delete?": callMaybeDelete,
	}
	h := new(History)
	for _, c := range calls {
		kind := kinds[c.Kind]
		end := c.End
		if kind == callMaybePut || kind == callMaybeDelete {
			end = never
		}
		h.calls = append(h.calls, &call{
			kind: kind, key: "job", start: c.Start, end: end, prev: c.Prev, version: c.Version, value: c.Value,
			known: c.Known || kind == callRead,
		})
	}
	return h
}
