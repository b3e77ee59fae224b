package object

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

const (
	// maxPrevious is how many writes before it a [WriteInfo] names.
	maxPrevious = 8

	// MaxClientMetadata is the largest metadata that a [Client] accepts from its caller: the
	// lengths of all names and values together, in bytes. The rest of [MaxMetadata] is for the
	// [WriteInfo].
	MaxClientMetadata = MaxMetadata - maxWriteInfo

	// ReservedMetadata is the prefix of the metadata names that a [Client] uses itself.
	ReservedMetadata = "holdfast-"

	maxWriteInfo = 1 << 10
	maxFolded    = 150
)

// WriteInfo is what a [Client] stores in the metadata of each object that it writes. With this data
// the client recognises its own writes, and refuses the writes of earlier holders.
type WriteInfo struct {
	// ID is the random id of the write that created this state. All attempts of one write have
	// the same id. It is empty if no client wrote the object.
	ID string

	// Previous has the ids of up to eight earlier writes, the newest first. Each of these writes
	// replaced the state that the next one in the list had made. Previous is shorter if the object
	// is new, or if a writer replaced the object without knowledge of its state.
	Previous []string

	// Fence is the lock of the object's writers, and the highest token that they have used. It is
	// nil if the object has no fence. See [WriteOptions].
	Fence *Fence

	// Deleted says that this is a tombstone: the object was deleted under a fence.
	Deleted bool

	// From is the state of the object from which this object was copied; nil if it is no copy.
	From *Origin

	// own has what other parts of this package keep with an object, by the name without the
	// prefix.
	own map[string]string

	known   bool // it was read, or written, and not only left out
	damaged bool // the fence cannot be read
}

// Origin names the state of an object that was copied. If a key or a version is long, the Origin
// contains only its hash. So use the method Is to compare.
type Origin struct {
	Key     string
	Version Version
	WriteID string // [WriteInfo].ID of that state

	// RenameID names the intent of the [Client.Rename] that made the copy. It is empty for a
	// [Client.Copy].
	RenameID string
}

// The method Is reports whether o names the given state of the object with the given key.
func (o *Origin) Is(key string, state Info) bool {
	return o != nil && o.Key == folded(key) && o.Version == Version(folded(string(state.Version))) && o.WriteID == state.WriteInfo.ID
}

// Fence is a fencing token: the name of a lock, and the token that the writer got with the lock.
type Fence struct {
	Lock  string // not empty
	Token uint64 // at least 1; higher with every grant of the lock
}

func (f *Fence) check() error {
	if f != nil && (f.Lock == "" || f.Token == 0) {
		return fmt.Errorf("%w: a Fence needs the name of a Lock and a Token of at least 1", ErrInvalid)
	}
	return nil
}

// The names of the metadata, without ReservedMetadata.
const (
	nameWrite       = "write"
	nameBefore      = "writes"
	nameLock        = "lock"
	nameToken       = "token"
	nameDeleted     = "deleted"
	nameFrom        = "from"
	nameFromVersion = "from-version"
	nameFromWrite   = "from-write"
	nameFromRename  = "from-rename"
)

// idsForNext returns Previous of a write that replaces the state s.
func (s WriteInfo) idsForNext() []string {
	if s.ID == "" {
		return nil
	}
	ids := append([]string{s.ID}, s.Previous...)
	return ids[:min(len(ids), maxPrevious)]
}

// metadata returns the caller's metadata with the write info added.
func (s WriteInfo) metadata(users map[string]string) map[string]string {
	m := make(map[string]string, len(users)+4)
	maps.Copy(m, users)
	set := func(name, value string) {
		if value != "" {
			m[ReservedMetadata+name] = value
		}
	}
	for name, value := range s.own {
		set(name, value)
	}
	set(nameWrite, s.ID)
	set(nameBefore, strings.Join(s.Previous, "."))
	if s.Fence != nil {
		set(nameLock, folded(s.Fence.Lock))
		set(nameToken, strconv.FormatUint(s.Fence.Token, 10))
	}
	if s.Deleted {
		set(nameDeleted, "1")
	}
	if s.From != nil {
		set(nameFrom, s.From.Key)
		set(nameFromVersion, string(s.From.Version))
		set(nameFromWrite, s.From.WriteID)
		set(nameFromRename, s.From.RenameID)
	}
	return m
}

// withWriteInfo returns info, as a bucket described a state, with the write info taken out of
// the metadata.
func withWriteInfo(info Info) Info {
	if info.WriteInfo.known {
		return info
	}
	users, own := make(map[string]string), make(map[string]string)
	for name, value := range info.Metadata {
		if rest, ok := strings.CutPrefix(name, ReservedMetadata); ok {
			own[rest] = value
		} else {
			users[name] = value
		}
	}
	info.Metadata, info.WriteInfo = users, parseWriteInfo(own)
	return info
}

// recalled returns a state as a caller has kept it, with its write info as far as it is
// there. In a copy that went through JSON the write info is not complete, and so not known.
func recalled(info Info) Info {
	for name := range info.Metadata {
		if strings.HasPrefix(name, ReservedMetadata) {
			return withWriteInfo(info)
		}
	}
	return info
}

// parseWriteInfo reads a write info. Other programs can change metadata. An id that does not
// have the form that a client writes is ignored. A fence that does not have it marks the
// write info as damaged.
func parseWriteInfo(own map[string]string) WriteInfo {
	s := WriteInfo{known: true}
	take := func(name string) string {
		value := own[name]
		delete(own, name)
		return value
	}
	if id := take(nameWrite); isID(id) {
		s.ID = id
	}
	if before := take(nameBefore); before != "" {
		ids := strings.Split(before, ".")
		if len(ids) <= maxPrevious && !slices.ContainsFunc(ids, func(id string) bool { return !isID(id) }) {
			s.Previous = ids
		}
	}
	lock, token := take(nameLock), take(nameToken)
	if lock != "" || token != "" {
		n, err := strconv.ParseUint(token, 10, 64)
		name, ok := unfolded(lock)
		s.damaged = err != nil || n == 0 || !ok || lock == ""
		s.Fence = &Fence{Lock: name, Token: n}
	}
	s.Deleted = take(nameDeleted) != ""
	from := Origin{Key: take(nameFrom), Version: Version(take(nameFromVersion)), WriteID: take(nameFromWrite), RenameID: take(nameFromRename)}
	if from.Key != "" {
		s.From = &from
	}
	if len(own) > 0 {
		s.own = own
	}
	return s
}

// allows reports why a write with this fence, or none, may not replace the state s of the
// object at key.
func (s WriteInfo) allows(key string, fence *Fence) error {
	switch {
	case s.damaged:
		return store.MarkNotApplied(fmt.Errorf("%w: the fence of %q cannot be read", store.ErrCorrupt, key))
	case s.Fence == nil:
		return nil
	case fence != nil && folded(fence.Lock) == folded(s.Fence.Lock) && fence.Token >= s.Fence.Token:
		return nil
	}
	return &FencedError{Key: key, Fence: *s.Fence, Write: fence}
}

// newID returns the id of a write.
func newID() string { return rand.Text() }

// idSize is the length of an id.
const idSize = 26

func isID(id string) bool {
	return len(id) == idSize && strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// folded returns text in the form that metadata can have: escaped, or as a hash if that is
// too long.
func folded(text string) string {
	if isFoldedHash(text) {
		return text
	}
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c > '~' || c == '%' || i == 0 && c == '#' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	if b.Len() <= maxFolded {
		return b.String()
	}
	sum := sha256.Sum256([]byte(text))
	return "#" + hex.EncodeToString(sum[:])
}

func isFoldedHash(text string) bool {
	return len(text) == 1+2*sha256.Size && text[0] == '#' && strings.Trim(text[1:], "0123456789abcdef") == ""
}

// unfolded returns the text of what folded returned; a hash stays one.
func unfolded(text string) (string, bool) {
	if isFoldedHash(text) {
		return text, true
	}
	plain, err := url.PathUnescape(text)
	return plain, err == nil
}
