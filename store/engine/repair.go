package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// A Salvager is a driver that can read what lies under a key although it is no envelope, and
// name it in the condition of a write; see [Store.Repair].
type RawReader interface {
	// ReadRaw returns what is stored under a key, for people, and the state that
	// [Driver.Write] has to name to write over exactly that: with a Nonce that is not empty,
	// or where the store gives no tags with an ID that is what the store compares. Its Nonce
	// is empty where what is stored has nothing that a condition could name. The error
	// matches [store.ErrNotFound] or [store.ErrTooLarge] as for a Read.
	ReadRaw(ctx context.Context, key string) (body []byte, on Stored, err error)
}

// Repair writes a tombstone over a register that cannot be read, so that the key is absent.
// It first hands what is there to keep, which takes a copy, and then calls keep with an empty
// version: the copy has to be safe when that returns. An error of keep ends it with nothing
// written.
//
// The tombstone is written only if the register is still what was kept, so no write of a
// holder that can go on is lost. The error matches [store.ErrInvalid] if the register can be
// read, [store.ErrConflict] if it has changed meanwhile, and [errors.ErrUnsupported] where no
// condition can name what is there: then nothing that changes it is safe while programs use
// the key.
func (s *Store) Repair(ctx context.Context, key string, keep func(version string, body []byte) error) error {
	err := store.CheckKey(key)
	if err == nil {
		err = s.repair(ctx, key, keep)
	}
	return s.opError("repair", key, err)
}

func (s *Store) repair(ctx context.Context, key string, keep func(version string, body []byte) error) error {
	const byHand = "end all programs that use the key, keep a copy of what is there, and remove it with the tools of the store"
	salvager, ok := s.driver.(RawReader)
	if !ok {
		return fmt.Errorf("%w: this store cannot replace what it cannot read: %s", errors.ErrUnsupported, byHand)
	}
	if err := s.Verify(ctx); err != nil {
		return err // without conditions it would write over anything
	}
	switch _, err := s.read(ctx, key, ""); {
	case err == nil:
		return fmt.Errorf("%w: it can be read", store.ErrInvalid)
	case !errors.Is(err, store.ErrCorrupt):
		return err
	}
	body, on, err := salvager.ReadRaw(ctx, key)
	if err != nil {
		return store.MarkNotApplied(err)
	}
	if made := madeByNewer(body); made > format {
		return store.MarkNotApplied(fmt.Errorf("%w: its format is %d, this program knows %d: use a newer holdfast", store.ErrInvalid, made, format))
	}
	if on.Absent() {
		return store.MarkNotApplied(fmt.Errorf("%w: what is there has no version, so that no condition can name it: %s", errors.ErrUnsupported, byHand))
	}
	for _, err := range []error{keep(on.ID()+string(on.Tag), body), keep("", nil)} {
		if err != nil {
			return store.MarkNotApplied(err)
		}
	}
	e := Envelope{Nonce: newNonce(), Deleted: true}
	if s.o.Numbered {
		number, _, _ := strings.Cut(on.ID(), "-")
		n, _ := strconv.ParseUint(number, 10, 63)
		e.Number = n + 1
	}
	_, err = s.driver.Write(ctx, key, on, e)
	if err == nil || store.OutcomeOf(err) == store.NotApplied {
		return err
	}
	// Its reply was lost. What is there now tells whether it was applied.
	if now, readErr := s.read(ctx, key, ""); readErr == nil && (now.Nonce == e.Nonce || slices.Contains(now.Predecessors, e.Nonce)) {
		return nil
	}
	return store.MarkUnknown(err)
}

// madeByNewer returns the format that a body tells; 0 if it tells none.
func madeByNewer(body []byte) int {
	var f struct {
		Holdfast int `json:"holdfast"`
	}
	_ = json.Unmarshal(body, &f) // a damaged body tells none
	return f.Holdfast
}
