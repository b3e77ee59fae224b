package avisofile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/store"
)

// fenceVersion is the version of the fence file that this package writes.
const fenceVersion = 1

// guard holds the fencing token and the epoch of one key, for which the state file has no
// place.
type guard struct {
	token uint64
	epoch uint64

	// pending says that the epoch was raised for a change of the state which may not have
	// followed yet. A program that reads the mark under the lock knows that the change is
	// over, whether it was made or not. A reader without the lock cannot know, and must
	// take the lock to find out.
	pending bool

	// unknown keeps the fields of later versions unchanged.
	unknown map[string]json.RawMessage
}

// fences are the guards of all keys that ever had one. Like a state, a value of this type
// is never changed.
type fences struct {
	guards  map[digest]guard
	unknown map[string]json.RawMessage
}

// guard returns the guard of key: epoch 1 and no token where there is none yet.
func (f fences) guard(key digest) guard {
	if g, ok := f.guards[key]; ok {
		return g
	}
	return guard{epoch: 1}
}

// below returns how many keys have a lower token or epoch than in before.
func (f fences) below(before fences) (keys int) {
	for key, was := range before.guards {
		if now := f.guard(key); now.token < was.token || now.epoch < was.epoch {
			keys++
		}
	}
	return keys
}

// with returns the fences after changes.
func (f fences) with(changes map[digest]guard) fences {
	next := maps.Clone(f.guards)
	if next == nil {
		next = make(map[digest]guard, len(changes))
	}
	maps.Copy(next, changes)
	return fences{next, f.unknown}
}

// pending reports whether a Reset or Delete was in progress when the fences were written.
func (f fences) pending() bool {
	for _, g := range f.guards {
		if g.pending {
			return true
		}
	}
	return false
}

// confirmed returns the fences with nothing pending, and whether that changed them.
func (f fences) confirmed() (fences, bool) {
	if !f.pending() {
		return f, false
	}
	changes := make(map[digest]guard)
	for key, g := range f.guards {
		if g.pending {
			g.pending = false
			changes[key] = g
		}
	}
	return f.with(changes), true
}

// encode returns the bytes of the fence file; the package comment documents them.
func (f fences) encode() ([]byte, error) {
	guards := make(map[string]json.RawMessage, len(f.guards))
	for key, g := range f.guards {
		fields := maps.Collect(maps.All(g.unknown)) // never nil
		fields["epoch"] = number(g.epoch)
		if g.token != 0 {
			fields["token"] = number(g.token)
		}
		if g.pending {
			fields["pending"] = json.RawMessage("true")
		}
		raw, err := json.Marshal(fields)
		if err != nil {
			return nil, err
		}
		guards[key.String()] = raw
	}
	all := maps.Collect(maps.All(f.unknown))
	all["holdfast"] = number(fenceVersion)
	all["kind"] = json.RawMessage(`"checkpoint-fence"`)
	var err error
	if all["keys"], err = json.Marshal(guards); err != nil {
		return nil, err
	}
	return json.MarshalIndent(all, "", "  ")
}

func number(n uint64) json.RawMessage { return fmt.Appendf(nil, "%d", n) }

// decodeFences reads a fence file. Its errors match store.ErrCorrupt.
func decodeFences(path string, b []byte) (fences, error) {
	f, err := parseFences(b)
	if err != nil {
		return f, fmt.Errorf("%s: %w: %w. This file has the fencing tokens and epochs of the checkpoints. Repair the file, or remove it to continue without tokens and epochs",
			path, store.ErrCorrupt, err)
	}
	return f, nil
}

func parseFences(b []byte) (fences, error) {
	all, err := members(b)
	if err != nil {
		return fences{}, err
	}
	version, err := take(all, "holdfast", math.MaxInt32)
	if err != nil || version == 0 {
		return fences{}, cmp.Or(err, errors.New("the file has no format version"))
	}
	if version > fenceVersion {
		return fences{}, fmt.Errorf("%w: the file has format %d, but this program reads only format %d; use a newer program", checkpoint.ErrFormat, version, fenceVersion)
	}
	if kind := all["kind"]; string(kind) != `"checkpoint-fence"` {
		return fences{}, fmt.Errorf("the file has the kind %.40s, but must have the kind checkpoint-fence", kind)
	}
	keys, err := members(all["keys"])
	if err != nil {
		return fences{}, fmt.Errorf("keys: %w", err)
	}
	delete(all, "kind")
	delete(all, "keys")
	f := fences{guards: make(map[digest]guard, len(keys)), unknown: all}
	for name, raw := range keys {
		key, err := parseDigest(name)
		if err != nil {
			return fences{}, err
		}
		if _, twice := f.guards[key]; twice {
			return fences{}, fmt.Errorf("the key %s occurs in lower and in upper case", key)
		}
		if f.guards[key], err = parseGuard(raw); err != nil {
			return fences{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	return f, nil
}

func parseGuard(raw []byte) (guard, error) {
	fields, err := members(raw)
	if err != nil {
		return guard{}, err
	}
	var g guard
	// Half of the range, so that one more never wraps.
	if g.epoch, err = take(fields, "epoch", math.MaxUint64>>1); err != nil {
		return g, err
	}
	if g.epoch == 0 {
		return g, errors.New("the epoch is 0; epochs begin with 1")
	}
	if _, ok := fields["token"]; ok {
		if g.token, err = take(fields, "token", math.MaxUint64); err != nil {
			return g, err
		}
	}
	if raw, ok := fields["pending"]; ok {
		if g.pending = string(raw) == "true"; !g.pending {
			return g, fmt.Errorf("the field pending is %.40s, but can only be true", raw)
		}
		delete(fields, "pending")
	}
	if len(fields) > 0 {
		g.unknown = fields
	}
	return g, nil
}

// members returns the members of a JSON object, each once.
func members(b []byte) (map[string]json.RawMessage, error) {
	if !json.Valid(b) { // this also checks the strings that the parser skips
		return nil, errors.New("the text is not valid JSON")
	}
	all := make(map[string]json.RawMessage)
	p := &parser{b: b}
	err := p.object(func(name string) error {
		if _, twice := all[name]; twice {
			return p.fail("%q occurs twice", name)
		}
		p.space()
		start := p.i
		err := p.skip()
		all[name] = slices.Clip(bytes.TrimSpace(b[start:p.i]))
		return err
	})
	return all, err
}

// take removes a member that is an integer and returns it.
func take(all map[string]json.RawMessage, name string, limit uint64) (uint64, error) {
	raw, ok := all[name]
	if !ok {
		return 0, fmt.Errorf("%s is missing", name)
	}
	delete(all, name)
	p := &parser{b: raw}
	n, err := p.unsigned(limit)
	if err == nil && p.i < len(raw) {
		err = errors.New("the value is not an integer")
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return n, nil
}
