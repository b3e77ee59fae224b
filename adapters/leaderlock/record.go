package leaderlock

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"

	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/holdfast-go/holdfast/store"
)

const (
	formatVersion = 1
	recordKind    = "leader"
)

// record is the value of a register; the package comment documents its JSON.
type record struct {
	Holdfast int    `json:"holdfast"`
	Kind     string `json:"kind"`
	Name     string `json:"name"`

	// Token takes the place of LeaderTransitions below, which is an int.
	Token uint64 `json:"leaderTransitions"`

	resourcelock.LeaderElectionRecord
}

// state is a record with its version. The zero state means that the register is absent.
type state struct {
	record
	fields  map[string]json.RawMessage // all fields, with those that this version of the package does not know
	version store.Version
}

// encode returns the record with the fields that this version of the package does not know.
func (s state) encode() ([]byte, error) {
	known, err := json.Marshal(s.record)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(s.fields)
	if err := json.Unmarshal(known, &all); err != nil {
		return nil, err
	}
	return json.Marshal(all)
}

// decode reads the value of a register as the record of an election. Its errors match store.ErrCorrupt.
func decode(name string, value []byte) (s state, err error) {
	if err := json.Unmarshal(value, &s.fields); err != nil {
		return state{}, fmt.Errorf("%w: the value is not the record of an election: %w: %.60q", store.ErrCorrupt, err, value)
	}
	var version int
	if err := json.Unmarshal(s.fields["holdfast"], &version); err == nil && version > formatVersion {
		return state{}, fmt.Errorf("%w: the record has format %d, but this program reads only format %d; use a newer program", store.ErrCorrupt, version, formatVersion)
	}
	err = json.Unmarshal(value, &s.record)
	if err != nil || s.Holdfast != formatVersion || s.Kind != recordKind || s.Name != name ||
		s.Token < 1 || s.Token > math.MaxInt64 || s.LeaseDurationSeconds < 1 {
		return state{}, fmt.Errorf("%w: the value is not the record of the election %q: %.60q", store.ErrCorrupt, name, value)
	}
	return s, nil
}
