// Package fold computes the state of a register from an ordered sequence of entries.
//
// # The rule
//
// A register can be built on any storage that puts entries into one permanent order. Examples are a file
// that is opened for appending, and the versions of an object in a bucket. Each entry names the state
// that its writer saw. The fold reads the entries in order. An entry counts if and only if it names the
// current state; then the entry changes the state. All other entries are void for every reader. So if two
// entries name the same state, the earlier entry wins, and all readers compute the same state.
//
// # Kinds
//
// A sequence starts with a [Base], which contains the first state. A [Value] changes the state. A [Seal]
// ends the sequence: no later entry counts. The register continues in another sequence, whose base
// contains the last state. Entries of other kinds do not change the state. A backend can use them for its
// own purposes.
//
// The package imports nothing of Holdfast.
package fold

// Kind is the effect of an entry on the state.
type Kind byte

// The kinds of entries. An entry of another kind is void.
const (
	Base  Kind = 'B' // starts a sequence with a state
	Value Kind = 'V' // changes the value, or deletes it
	Seal  Kind = 'S' // ends the sequence
)

// Entry is one entry of a sequence.
type Entry struct {
	Kind    Kind
	Number  uint64 // of a Value: the number of the state before it, plus one
	Nonce   string // identifies the entry; no two entries of a register have the same nonce
	Prev    string // nonce of the state that the writer saw
	Value   []byte // new value, of a Base or a Value that is not Deleted
	Deleted bool   // the register is absent after this entry
}

// State is the state of a register after some entries. The zero value is the state before the first
// entry.
type State struct {
	Set     bool   // a Base was applied
	Base    string // the nonce of that Base
	Number  uint64
	Nonce   string // nonce of the last entry that counted
	Value   []byte // shares its memory with the entry that set it
	Deleted bool
	Sealed  bool
}

// Apply reports whether e counts. If e counts, Apply changes the state as e says.
func (s *State) Apply(e Entry) bool {
	switch {
	case e.Kind == Base && !s.Set:
		*s = State{Set: true, Base: e.Nonce, Number: e.Number, Nonce: e.Nonce, Value: e.Value, Deleted: e.Deleted}
	case e.Kind == Value && s.open(e) && e.Number == s.Number+1:
		s.Number, s.Nonce, s.Value, s.Deleted = e.Number, e.Nonce, e.Value, e.Deleted
	case e.Kind == Seal && s.open(e):
		s.Sealed = true
	default:
		return false
	}
	return true
}

// open reports whether e names the state, and the state can still change.
func (s *State) open(e Entry) bool { return s.Set && !s.Sealed && e.Prev == s.Nonce }

// Continues reports whether s is the state of the sequence after one that ended in the state before:
// that sequence is sealed, and s starts with its last state.
func (s *State) Continues(before *State) bool { return before.Sealed && s.Base == before.Nonce }

// Next returns an entry of kind Value. It counts if it is the next entry of the sequence.
func (s *State) Next(nonce string, value []byte, deleted bool) Entry {
	return Entry{Kind: Value, Number: s.Number + 1, Nonce: nonce, Prev: s.Nonce, Value: value, Deleted: deleted}
}

// Rebase returns the Base with which another sequence continues this state.
func (s *State) Rebase() Entry {
	return Entry{Kind: Base, Number: s.Number, Nonce: s.Nonce, Value: s.Value, Deleted: s.Deleted}
}
