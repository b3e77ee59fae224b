package lockrec

import (
	"crypto/rand"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// TestPack: a packed record is the same when it is unpacked, and a record that differs from the pattern
// in another field is not packed.
func TestPack(t *testing.T) {
	record := func(name string) *Record {
		now := time.Now().Round(0)
		return &Record{Name: name, State: Held, Grant: "session." + name, Token: uint64(len(name)), Nonce: rand.Text(), Granted: now, Renewed: now, Session: "session", TTL: time.Second, Data: []byte("data")}
	}
	pattern, r := record("pattern"), record("job")
	p, ok := Pack("1", r, pattern)
	if _, got := Unpack(p, pattern, r.Name, r.Grant, r.Token); !ok || !reflect.DeepEqual(got, r) {
		t.Errorf("%v, %+v, want %+v", ok, got, r)
	}
	own := map[string]bool{"Name": true, "Grant": true, "Token": true, "Nonce": true}
	for i := range reflect.TypeFor[Record]().NumField() {
		field := reflect.TypeFor[Record]().Field(i)
		other := *r
		switch v := reflect.ValueOf(&other).Elem().Field(i); {
		case !field.IsExported():
			other.unknown = map[string]json.RawMessage{"later": nil}
		case v.Kind() == reflect.String:
			v.SetString("OTHEROTHEROTHEROTHEROTHERO") // of the form of a nonce
		case v.CanInt():
			v.SetInt(77)
		case v.CanUint():
			v.SetUint(77)
		case v.Kind() == reflect.Bool:
			v.SetBool(!v.Bool())
		case v.Kind() == reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		case v.Kind() == reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
		case v.Type() == reflect.TypeFor[time.Time]():
			v.Set(reflect.ValueOf(time.Unix(77, 0)))
		default:
			t.Fatalf("no other value of the field %s is known", field.Name)
		}
		if p, ok := Pack("1", &other, pattern); ok != own[field.Name] || ok && !reflect.DeepEqual(unpacked(p, pattern, &other), &other) {
			t.Errorf("with another %s: packed %v", field.Name, ok)
		}
	}
	random := rand.Text()
	for _, version := range []store.Version{"", "7", store.Version(random), store.Version("12." + random), store.Version("12." + strings.ToLower(random)), store.Version(random[:25])} {
		p, ok := Pack(version, r, pattern)
		got, rec := Unpack(p, pattern, r.Name, r.Grant, r.Token)
		if !ok || got != version || !reflect.DeepEqual(rec, r) {
			t.Errorf("packed %q, unpacked %q, %v", version, got, ok)
		}
	}
}

func unpacked(packed string, pattern, r *Record) *Record {
	_, rec := Unpack(packed, pattern, r.Name, r.Grant, r.Token)
	return rec
}
