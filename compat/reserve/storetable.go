package reserve

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// NewStoreTable returns a table that stores reservations in registers. Each key of an object has
// one register. The name of the register is "reservation/" and the SHA-256 of the key. The register
// contains the last reservation of the key as JSON, even after the holder has released that
// reservation. The table never removes a register.
//
// The first reservation of a key costs one request to the store. A later reservation costs two
// requests if the store returns the current value with a conflict (memory, files, DynamoDB);
// otherwise it costs three requests. If the register has a reservation for another version of the
// object, the holder of that reservation may still write. So the writer checks the object once more
// before it replaces such a reservation.
func NewStoreTable(st store.Store) Table { return storeTable{st} }

type storeTable struct{ store.Store }

// record is the value of a register.
type record struct {
	Format     int    `json:"reservation"` // 1
	Key        string `json:"key"`
	Version    string `json:"version"`
	Generation uint64 `json:"generation"`
	Timeout    int64  `json:"timeout_ms"`
	TTL        int64  `json:"ttl"`
	Nonce      string `json:"nonce"`
}

// registers is the prefix of the registers.
const registers = "reservation"

func registerOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return registers + "/" + hex.EncodeToString(sum[:])
}

func encode(r Row) ([]byte, error) {
	return json.Marshal(record{1, r.Key, string(r.Version), r.Generation, r.Timeout.Milliseconds(), r.TTL, r.Nonce})
}

func decode(key string, value []byte, v store.Version) (Row, error) {
	row, err := decodeAny(value, v)
	if err == nil && row.Key != key {
		return Row{}, fmt.Errorf("%w: the register has the reservation of another key, %.80q", store.ErrCorrupt, row.Key)
	}
	return row, err
}

// decodeAny is decode of the register of any key.
func decodeAny(value []byte, v store.Version) (Row, error) {
	var r record
	if err := json.Unmarshal(value, &r); err != nil {
		return Row{}, fmt.Errorf("%w: the register is not a reservation: %v", store.ErrCorrupt, err)
	}
	const most = int64(1<<63-1) / int64(time.Millisecond)
	switch {
	case r.Format != 1:
		return Row{}, fmt.Errorf("%w: the register is not a reservation, or has a format that this version of Holdfast does not know (%d)", store.ErrCorrupt, r.Format)
	case r.Timeout < 0 || r.Timeout > most:
		return Row{}, fmt.Errorf("%w: the timeout of the reservation is %d ms, which is out of bounds", store.ErrCorrupt, r.Timeout)
	}
	return Row{
		Key: r.Key, Version: object.Version(r.Version), Generation: r.Generation,
		Timeout: time.Duration(r.Timeout) * time.Millisecond, TTL: r.TTL, Nonce: r.Nonce, Tag: string(v),
	}, nil
}

// Rows implements [Lister]: one request for each row in addition to the listing.
func (t storeTable) Rows(ctx context.Context) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for name, err := range store.List(ctx, t.Store, registers) {
			var row Row
			if err == nil {
				var value []byte
				var v store.Version
				if value, v, err = t.Get(ctx, name); errors.Is(err, store.ErrNotFound) {
					continue
				}
				if err == nil {
					if row, err = decodeAny(value, v); err != nil {
						err = fmt.Errorf("register %s: %w", name, err)
					}
				}
			}
			if !yield(row, err) || err != nil && !errors.Is(err, store.ErrCorrupt) {
				return
			}
		}
	}
}

// Insert implements [Table].
func (t storeTable) Insert(ctx context.Context, row Row) (WriteResult, error) {
	return t.put(ctx, "", row)
}

// Replace implements [Table].
func (t storeTable) Replace(ctx context.Context, seen, row Row) (WriteResult, error) {
	if seen.Tag == "" {
		// The row of a write whose reply was lost.
		found, err := t.read(ctx, seen.Key)
		if err != nil {
			return WriteResult{}, err
		}
		seen.Tag = found.Row.Tag
		if !found.HasRow || found.Row != seen {
			return WriteResult{}, found
		}
	}
	return t.put(ctx, store.Version(seen.Tag), row)
}

func (t storeTable) put(ctx context.Context, prev store.Version, row Row) (WriteResult, error) {
	value, err := encode(row)
	if err != nil {
		return WriteResult{}, store.MarkNotApplied(err)
	}
	v, err := t.Put(ctx, registerOf(row.Key), prev, value)
	if !errors.Is(err, store.ErrConflict) || store.OutcomeOf(err) != store.NotApplied {
		return WriteResult{Tag: string(v)}, err
	}
	var conflict *store.ConflictError
	if errors.As(err, &conflict) && conflict.HasCurrent {
		return WriteResult{}, conflictOf(row.Key, conflict.Value, conflict.Version)
	}
	found, err := t.read(ctx, row.Key)
	if err != nil {
		return WriteResult{}, err
	}
	return WriteResult{}, found
}

// read reads the register of a key. Its errors have the outcome NotApplied: it writes nothing.
func (t storeTable) read(ctx context.Context, key string) (*ConflictError, error) {
	value, v, err := t.Get(ctx, registerOf(key))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, store.MarkNotApplied(err)
	}
	err = conflictOf(key, value, v)
	var found *ConflictError
	if errors.As(err, &found) {
		return found, nil
	}
	return nil, err
}

// conflictOf returns the error for a register that has this value: a *ConflictError, unless
// the value is no reservation.
func conflictOf(key string, value []byte, v store.Version) error {
	if v == "" {
		return &ConflictError{}
	}
	row, err := decode(key, value, v)
	if err != nil {
		return store.MarkNotApplied(err)
	}
	return &ConflictError{HasRow: true, Row: row}
}
