package engine_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/store/engine"
)

// FuzzParseID: an envelope has only one pair of texts.
func FuzzParseID(f *testing.F) {
	f.Add("8-AAAAAAAAAAAA", "BBBBBBBBBBBB.CCCCCCCCCCCC")
	f.Add("AA-AAAAAAAAA", "")
	f.Add("08-AAAAAAAAAAAA", ".")
	f.Fuzz(func(t *testing.T, id, past string) {
		e, err := engine.ParseID(id, past)
		if err == nil && (e.ID() != id || e.PredecessorText() != past || len(e.Predecessors) > 7) {
			t.Fatalf("%q after %q is read as %+v", id, past, e)
		}
	})
}

// FuzzDecode: a text that Decode accepts, encoded again, decodes to the same envelope.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"holdfast":1,"nonce":"AAAAAAAAAAAA","value":{"a":1}}`))
	f.Add([]byte(`{"holdfast":1,"nonce":"AAAAAAAAAAAA","after":["BBBBBBBBBBBB"],"base64":"/w=="}`))
	tombstone := `{"holdfast":1,"nonce":"AAAAAAAAAAAA","deleted":true}`
	f.Add([]byte(tombstone + strings.Repeat(" ", engine.TombstoneSize-1-len(tombstone)) + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := engine.Decode(text)
		if err != nil {
			return
		}
		again, err := engine.Decode(e.Encode())
		again.Value, e.Value = append([]byte{}, again.Value...), append([]byte{}, e.Value...)
		if len(e.Predecessors) == 0 {
			e.Predecessors = nil
		}
		if err != nil || !bytes.Equal(again.Value, e.Value) || !reflect.DeepEqual(again, e) {
			t.Fatalf("%q: %+v, then %+v, %v", text, e, again, err)
		}
	})
}
