package certstore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// format is the version of the format of a register.
const format = 1

// record is the content of a register.
type record struct {
	header
	fields map[string]json.RawMessage // of the header, with those of later releases
	value  []byte
}

type header struct {
	Format   int       `json:"certstore"`
	Key      string    `json:"key"`
	Modified time.Time `json:"modified"`
	Lock     string    `json:"lock,omitempty"`
	Token    uint64    `json:"token,omitempty"`
}

// parse reads the content of the register with a name; see [nameOf].
func parse(name string, data []byte) (r record, err error) {
	line, value, ok := bytes.Cut(data, []byte("\n"))
	if err = json.Unmarshal(line, &r.header); err == nil {
		err = json.Unmarshal(line, &r.fields)
	}
	r.value = value
	switch {
	case !ok || err != nil || r.Format < 1:
		return r, fmt.Errorf("%w: it does not begin with a header of certstore", store.ErrCorrupt)
	case r.Format > format:
		return r, fmt.Errorf("%w: %w: it has version %d of the format of certstore", store.ErrCorrupt, lease.ErrNewerFormat, r.Format)
	}
	if of, _ := nameOf(r.Key); of != name {
		return r, fmt.Errorf("%w: it is the register of the key %q", store.ErrCorrupt, r.Key)
	}
	return r, nil
}

// replaced returns the content of the register after a write of a value under a lock, or under none. It keeps the
// fields of the present content that it does not know.
func (r record) replaced(key string, value []byte, lock string, token uint64) ([]byte, error) {
	h := header{Format: format, Key: key, Modified: time.Now().UTC(), Lock: lock, Token: token}
	if token == 0 {
		h.Lock, h.Token = r.Lock, r.Token
	}
	known, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(known, &r.fields); err != nil {
		return nil, err
	}
	line, err := json.Marshal(r.fields)
	if err != nil {
		return nil, err
	}
	data := slices.Concat(line, []byte("\n"), value)
	if len(data) > store.MaxValue {
		return nil, fmt.Errorf("%w: it has %d bytes, and at most %d are allowed", store.ErrTooLarge, len(value), store.MaxValue-len(line)-1)
	}
	return data, nil
}
