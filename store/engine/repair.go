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

// A RawReader is a driver that can read a damaged register, whose content is not an envelope. It
// can also write on the condition that this content has not changed; see [Store.Repair].
type RawReader interface {
	// ReadRaw returns what is stored under a key, for people. It also returns the state that Repair
	// must pass to [Driver.Write] to replace exactly this content. If no condition can name the
	// content, the Nonce of this state is empty. Otherwise it is not empty. If the server gives no
	// tags, the server compares the ID of this state. As with Read, the error can match
	// [store.ErrNotFound] or [store.ErrTooLarge].
	ReadRaw(ctx context.Context, key string) (body []byte, on Stored, err error)
}

// Repair writes a tombstone over a register that cannot be read, so that the key is absent. Before
// that it calls the function passed as keep twice. The first call passes the stored bytes and their
// version, so that the function can copy them. The second call passes an empty version: when this
// call returns, the copy must be durable. If a call returns an error, Repair makes no further call,
// writes nothing, and returns the error.
//
// Repair writes the tombstone only if the register has not changed since the copy, so no
// later write is lost. If the register can be read, the error matches [store.ErrInvalid].
// If the register has changed during the call, the error matches [store.ErrConflict]. If no
// condition can name what is stored, the error matches [errors.ErrUnsupported]. In that
// case it is not safe to change the register while programs use the key.
func (s *Store) Repair(ctx context.Context, key string, keep func(version string, body []byte) error) error {
	err := store.CheckKey(key)
	if err == nil {
		err = s.repair(ctx, key, keep)
	}
	return s.opError("repair", key, err)
}

func (s *Store) repair(ctx context.Context, key string, keep func(version string, body []byte) error) error {
	const byHand = "end all programs that use the key, copy the stored object, and remove the object with the tools of the storage system"
	salvager, ok := s.driver.(RawReader)
	if !ok {
		return fmt.Errorf("%w: this store cannot replace a register that it cannot read; %s", errors.ErrUnsupported, byHand)
	}
	if err := s.Verify(ctx); err != nil {
		return err // without conditions the tombstone could replace a good register
	}
	switch _, err := s.read(ctx, key, ""); {
	case err == nil:
		return fmt.Errorf("%w: the register can be read, so it needs no repair", store.ErrInvalid)
	case !errors.Is(err, store.ErrCorrupt):
		return err
	}
	body, on, err := salvager.ReadRaw(ctx, key)
	if err != nil {
		return store.MarkNotApplied(err)
	}
	if made := madeByNewer(body); made > format {
		return store.MarkNotApplied(fmt.Errorf("%w: the register has format %d, this program reads format %d; use a newer program", store.ErrInvalid, made, format))
	}
	if on.Absent() {
		return store.MarkNotApplied(fmt.Errorf("%w: the stored object has no version, so no condition can name the object; %s", errors.ErrUnsupported, byHand))
	}
	err = keep(on.ID()+string(on.Tag), body)
	if err == nil {
		err = keep("", nil)
	}
	if err != nil {
		return store.MarkNotApplied(err)
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
	// The reply was lost. The current state shows whether the write was applied.
	if now, readErr := s.read(ctx, key, ""); readErr == nil && (now.Nonce == e.Nonce || slices.Contains(now.Predecessors, e.Nonce)) {
		return store.MarkUnknown(s.durable(ctx, store.ResolutionApplied))
	}
	return store.MarkUnknown(err)
}

// madeByNewer returns the format that a body states; 0 if it states none.
func madeByNewer(body []byte) int {
	var f struct {
		Holdfast int `json:"holdfast"`
	}
	_ = json.Unmarshal(body, &f) // a damaged body states none
	return f.Holdfast
}
