// Package fold turns an ordered sequence of entries into the state of one
// register.
//
// # The rule
//
// A register can be built on any storage that puts entries into one permanent order. Examples are a
// file that is opened for appending, and the versions of an object in a bucket. Each entry names
// the state that its writer saw. The state is the fold of the entries: an entry counts if and only
// if it names the state before it. For every reader, all other entries never count. So if two
// entries name the same state, the earlier entry wins, and all readers of the sequence agree.
//
// # Kinds
//
// A sequence starts with a [Base], which carries the state that it starts from. A [Value]
// changes the state. A [Seal] ends the sequence: nothing counts after it, and the
// register continues in another sequence, whose base repeats the state. Entries of other
// kinds do not change the state; a backend can use them for itself.
//
// The package imports nothing of Holdfast.
package fold

// Kind is what an entry does to the state.
type Kind byte

// The kinds of entries. Others are void.
const (
	Base  Kind = 'B' // starts a sequence with a state
	Value Kind = 'V' // changes the value, or deletes it
	Seal  Kind = 'S' // ends the sequence
)

// Entry is one entry of a sequence.
type Entry struct {
	Kind    Kind
	Number  uint64 // of a Value: that of the state before it, plus one
	Nonce   string // names the entry; never used twice for a register
	Prev    string // the nonce of the state that the writer saw
	Value   []byte // of a Base or a Value, unless Deleted
	Deleted bool   // the register is absent after this entry
}

// State is a fold of entries. The zero value is the state before any entry.
type State struct {
	Set     bool   // a Base was seen
	Base    string // the nonce of that Base
	Number  uint64
	Nonce   string // of the last entry that counted
	Value   []byte // shared with the entry that set it
	Deleted bool
	Sealed  bool
}

// Apply folds e into the state, and reports whether it counts.
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

// Next returns a Value entry that counts if it comes next.
func (s *State) Next(nonce string, value []byte, deleted bool) Entry {
	return Entry{Kind: Value, Number: s.Number + 1, Nonce: nonce, Prev: s.Nonce, Value: value, Deleted: deleted}
}

// Rebase returns the Base that carries the state into another sequence.
func (s *State) Rebase() Entry {
	return Entry{Kind: Base, Number: s.Number, Nonce: s.Nonce, Value: s.Value, Deleted: s.Deleted}
}
