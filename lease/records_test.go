package lease_test

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// stored returns what a store has under a key.
func stored(t *testing.T, st store.Store, key string) ([]byte, store.Version) {
	t.Helper()
	value, v, err := st.Get(t.Context(), key)
	must(t, err)
	return value, v
}

// put writes the record of a lock, past all clients.
func put(t *testing.T, st store.Store, name string, value []byte) {
	t.Helper()
	tamper(t, st, "lock/"+name, func([]byte) []byte { return value })
}

// remove removes what is under a key, past all clients.
func remove(t *testing.T, st store.Store, key string) {
	t.Helper()
	_, v := stored(t, st, key)
	must(t, st.Delete(t.Context(), key, v))
}

// tamper changes the value under a key, past all clients.
func tamper(t *testing.T, st store.Store, key string, change func(value []byte) []byte) {
	t.Helper()
	must(t, errOf(store.Update(t.Context(), st, key, func(value []byte) ([]byte, error) { return change(value), nil })))
}

// replace replaces a text in the value under a key, past all clients.
func replace(t *testing.T, st store.Store, key, old, with string) {
	t.Helper()
	tamper(t, st, key, func(value []byte) []byte { return []byte(strings.Replace(string(value), old, with, 1)) })
}

// record reads the record of a lock.
func record(t *testing.T, st store.Store, name string) lease.Record {
	t.Helper()
	value, _ := stored(t, st, "lock/"+name)
	rec, err := lease.Decode(name, value)
	must(t, err)
	return *rec
}

// edit changes the record of a lock, past all clients.
func edit(t *testing.T, st store.Store, name string, change func(*lease.Record)) {
	t.Helper()
	tamper(t, st, "lock/"+name, func(value []byte) []byte {
		rec, err := lease.Decode(name, value)
		must(t, err)
		change(rec)
		value, err = lease.Encode(rec)
		must(t, err)
		return value
	})
}
