package reserve

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// NewStoreTable returns a table that stores reservations in registers. Each key of an object has
// one register. The name of the register is "reservation/" and the SHA-256 of the key. The register
// contains the last reservation of the key as JSON, even after the holder has released that
// reservation. It also contains earlier reservations for other versions of the object, until their
// holders release them or their TTL has passed. The table never removes a register. Do not remove one
// while programs use the table: a writer who has checked the object can then miss a released row.
//
// A register has at most 8 KiB: it forgets the oldest of more than about 40 reservations that no
// holder has released. Then, if the object returns to the version of a forgotten reservation, two
// holders of this version can run their functions at the same time. The same can happen in two other
// cases: a program with an older release of this package uses the table, because that release keeps
// only the last reservation, or the clocks of two machines differ by almost [Options].TTL, an hour by
// default. If many programs write one object often, set [Options].ReleaseApplied.
//
// The first reservation of a key costs one request to the store. A later reservation costs two
// requests if the store returns the current value with a conflict (memory, files, DynamoDB);
// otherwise it costs three requests. If the register has no reservation for the version of a
// writer, the writer checks the object once more before it adds its own reservation.
func NewStoreTable(st store.Store) Table { return storeTable{st} }

type storeTable struct{ store.Store }

// record is the value of a register.
type record struct {
	Format int    `json:"reservation"` // 1
	Key    string `json:"key"`
	entry
	Kept []entry `json:"kept,omitempty"` // earlier reservations, for other versions, the last first
}

type entry struct {
	Version    string `json:"version"`
	Generation uint64 `json:"generation"`
	Timeout    int64  `json:"timeout_ms"`
	TTL        int64  `json:"ttl"`
	Nonce      string `json:"nonce"`
}

// maxRegister bounds a register that has more than one reservation, in bytes.
const maxRegister = 8 << 10

// registers is the prefix of the registers.
const registers = "reservation"

func registerOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return registers + "/" + hex.EncodeToString(sum[:])
}

// tagOf is the tag of all rows of a register. No JSON contains a zero byte.
func tagOf(value []byte, v store.Version) string { return string(value) + "\x00" + string(v) }

// encode returns the value of a register to which a row is added. The row takes the place of the one
// for its version.
func encode(row Row, before []Row) ([]byte, error) {
	r := record{Format: 1, Key: row.Key, entry: entryOf(row)}
	for _, b := range before {
		if b.Version != row.Version && b.Timeout > 0 && b.TTL > time.Now().Unix() {
			r.Kept = append(r.Kept, entryOf(b))
		}
	}
	if row.Timeout == 0 && len(r.Kept) > 0 {
		r.entry, r.Kept = r.Kept[0], r.Kept[1:] // no writer waits for a released row
	}
	for {
		value, err := json.Marshal(r)
		if len(value) <= maxRegister || len(r.Kept) == 0 {
			return value, err
		}
		r.Kept = r.Kept[:len(r.Kept)-1]
	}
}

func entryOf(r Row) entry {
	return entry{string(r.Version), r.Generation, r.Timeout.Milliseconds(), r.TTL, r.Nonce}
}

// decode returns the rows of a register, the last one first.
func decode(value []byte, v store.Version) ([]Row, error) {
	var r record
	if err := json.Unmarshal(value, &r); err != nil {
		return nil, fmt.Errorf("%w: the register is not a reservation: %v", store.ErrCorrupt, err)
	}
	if r.Format != 1 {
		return nil, fmt.Errorf("%w: the register is not a reservation, or has a format that this version of Holdfast does not know (%d)", store.ErrCorrupt, r.Format)
	}
	const most = int64(1<<63-1) / int64(time.Millisecond)
	rows, tag := make([]Row, 0, 1+len(r.Kept)), tagOf(value, v)
	for _, e := range append([]entry{r.entry}, r.Kept...) {
		if e.Timeout < 0 || e.Timeout > most {
			return nil, fmt.Errorf("%w: the timeout of the reservation is %d ms, which is out of bounds", store.ErrCorrupt, e.Timeout)
		}
		rows = append(rows, Row{
			Key: r.Key, Version: object.Version(e.Version), Generation: e.Generation,
			Timeout: time.Duration(e.Timeout) * time.Millisecond, TTL: e.TTL, Nonce: e.Nonce, Tag: tag,
		})
	}
	return rows, nil
}

// Rows implements [Lister]: one request for each register in addition to the listing.
func (t storeTable) Rows(ctx context.Context) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for name, err := range store.List(ctx, t.Store, registers) {
			rows := []Row{{}}
			if err == nil {
				var value []byte
				var v store.Version
				if value, v, err = t.Get(ctx, name); errors.Is(err, store.ErrNotFound) {
					continue
				}
				if err == nil {
					var found []Row
					if found, err = decode(value, v); err == nil {
						rows = found
					} else {
						err = fmt.Errorf("register %s: %w", name, err)
					}
				}
			}
			for _, row := range rows {
				if !yield(row, err) || err != nil && !errors.Is(err, store.ErrCorrupt) {
					return
				}
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
		found, err := t.read(ctx, seen)
		if err != nil {
			return WriteResult{}, err
		}
		seen.Tag = found.Row.Tag
		if !found.HasRow || found.Row != seen {
			return WriteResult{}, found
		}
	}
	for {
		placed, err := t.put(ctx, seen.Tag, row)
		var met *ConflictError
		if seen.Version != row.Version || !errors.As(err, &met) || met.Row.Tag == seen.Tag {
			return placed, err
		}
		// The row may still be there, although writers of other versions have changed the register.
		if seen.Tag = met.Row.Tag; met.Row != seen {
			return placed, err
		}
	}
}

// put adds a row to the register that has this tag, or to one that does not exist.
func (t storeTable) put(ctx context.Context, tag string, row Row) (WriteResult, error) {
	var before []Row
	old, prev, exists := strings.Cut(tag, "\x00")
	if exists {
		var err error
		if before, err = decode([]byte(old), store.Version(prev)); err != nil {
			return WriteResult{}, store.MarkNotApplied(err)
		}
	}
	value, err := encode(row, before)
	if err != nil {
		return WriteResult{}, store.MarkNotApplied(err)
	}
	v, err := t.Put(ctx, registerOf(row.Key), store.Version(prev), value)
	if !errors.Is(err, store.ErrConflict) || store.OutcomeOf(err) != store.NotApplied {
		return WriteResult{Tag: tagOf(value, v)}, err
	}
	var conflict *store.ConflictError
	if errors.As(err, &conflict) && conflict.HasCurrent {
		return WriteResult{}, conflictOf(row, conflict.Value, conflict.Version)
	}
	found, err := t.read(ctx, row)
	if err != nil {
		return WriteResult{}, err
	}
	return WriteResult{}, found
}

// read reads the register of a row. Its errors have the outcome NotApplied: it writes nothing.
func (t storeTable) read(ctx context.Context, row Row) (*ConflictError, error) {
	value, v, err := t.Get(ctx, registerOf(row.Key))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, store.MarkNotApplied(err)
	}
	err = conflictOf(row, value, v)
	var found *ConflictError
	if errors.As(err, &found) {
		return found, nil
	}
	return nil, err
}

// conflictOf returns the error for a register that has this value: a *ConflictError, unless
// the value is no reservation. It has the row for the version of the given one, and otherwise the
// last row.
func conflictOf(row Row, value []byte, v store.Version) error {
	if v == "" {
		return &ConflictError{}
	}
	rows, err := decode(value, v)
	if err == nil && rows[0].Key != row.Key {
		err = fmt.Errorf("%w: the register has the reservation of another key, %.80q", store.ErrCorrupt, rows[0].Key)
	}
	if err != nil {
		return store.MarkNotApplied(err)
	}
	i := slices.IndexFunc(rows, func(r Row) bool { return r.Version == row.Version })
	return &ConflictError{HasRow: true, Row: rows[max(i, 0)]}
}
