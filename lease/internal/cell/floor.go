package cell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/store"
)

// floorRecord is the value of the floor's register.
type floorRecord struct {
	Holdfast int    `json:"holdfast"`
	Kind     string `json:"kind"`
	Token    uint64 `json:"token"`
}

const (
	floorKey  = ".holdfast/floor"
	floorKind = "floor"
)

// RaiseFloor makes the floor at least token.
func (c *Space) RaiseFloor(ctx context.Context, token uint64) error {
	_, err := store.Update(ctx, c.Store, floorKey, func(value []byte) ([]byte, error) {
		floor, err := decodeFloor(value)
		if err != nil {
			return nil, err
		}
		if floor >= token {
			return nil, store.ErrUnchanged
		}
		return json.Marshal(floorRecord{lockrec.PlainFormat, floorKind, token})
	})
	if err != nil {
		return fmt.Errorf("token floor: %w", err)
	}
	return nil
}

// Floor reads the floor. Its callers have read before that there is no record. The client that
// removed the record raised the floor before that.
func (c *Space) Floor(ctx context.Context) (uint64, error) {
	value, _, err := c.Store.Get(ctx, floorKey)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return 0, err
	}
	return decodeFloor(value)
}

func decodeFloor(value []byte) (uint64, error) {
	if value == nil {
		return 0, nil
	}
	var r floorRecord
	if err := json.Unmarshal(value, &r); err != nil || r.Kind != floorKind || r.Holdfast < 1 {
		return 0, fmt.Errorf("%w: the value is not a token floor: %.60q", store.ErrCorrupt, value)
	}
	if r.Holdfast > lockrec.FormatVersion {
		return 0, fmt.Errorf("%w: %w: use a newer holdfast", store.ErrCorrupt, lockrec.ErrNewerFormat)
	}
	return r.Token, nil
}
