package s3verstore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/drivers/versionlog"
	"github.com/holdfast-go/holdfast/internal/fold"
	"github.com/holdfast-go/holdfast/store"
)

// The body of a version is text: lines of package fold, each with its checksum.
//
//	H 17 <nonce> - j{"holdfast":1,"key":"lock/job","start":"<version id>","start_n":16,"token":42,"life_ms":5000} 1a2b3c4d
//	V 17 <nonce> <prev> j{"state":"held",...} 5e6f7a8b
//
// The first line is the header of every entry. A second one, of the same nonce, is
// the value that the entry writes; an entry without it is a confirmation, and its
// number is the number of the snapshot that it names. In the format, a snapshot is called
// "start".

const (
	// FormatVersion is the version of the entries that this package writes. The package refuses
	// entries with a higher version.
	FormatVersion = 1

	kindHeader fold.Kind = 'H'

	// maxBody is larger than any entry: 64 KiB in base64, and a header.
	maxBody = 128 << 10
)

// entry is the content of one version.
type entry struct {
	nonce    string
	number   uint64 // one more than that of prev; a confirmation has the number of its snapshot
	key      string // with the prefix of the store
	snapshot versionlog.Snapshot
	highest  uint64 // at least the tokens of this write and of all writes that its writer knew
	life     time.Duration

	write   bool // the entry sets or deletes the value; false: a confirmation
	prev    string
	value   []byte
	deleted bool
}

// entryID names an accepted entry. The zero value means that no entry was written yet.
type entryID struct {
	nonce  string
	number uint64
}

// header is the JSON of the first line.
type header struct {
	Holdfast  int    `json:"holdfast"`
	Key       string `json:"key"`
	Snapshot  string `json:"start,omitempty"`
	SnapshotN uint64 `json:"start_n,omitempty"`
	Token     uint64 `json:"token,omitempty"` // highest; the name is that of its first use
	Life      int64  `json:"life_ms"`
}

func (e *entry) entryID() entryID { return entryID{e.nonce, e.number} }

// made returns the version of the state that the entry makes.
func (e *entry) made() store.Version {
	if e.deleted {
		return ""
	}
	return store.Version(fmt.Sprintf("%d-%s", e.number, e.nonce))
}

// parseVersion returns the entry that a version names. An empty version names no entry.
func parseVersion(v store.Version) (entryID, error) {
	if v == "" {
		return entryID{}, nil
	}
	number, nonce, ok := strings.Cut(string(v), "-")
	var m entryID
	if _, err := fmt.Sscanf(number, "%d", &m.number); !ok || err != nil || nonce == "" || len(nonce) > fold.MaxNonce ||
		fmt.Sprint(m.number) != number || m.number == 0 {
		return entryID{}, fmt.Errorf("%w: %.80q is not a version of a register on this store", store.ErrVersion, v)
	}
	m.nonce = nonce
	return m, nil
}

// encode returns the body of the entry.
func (e *entry) encode() ([]byte, error) {
	h, err := json.Marshal(header{
		Holdfast: FormatVersion, Key: e.key, Snapshot: e.snapshot.ID, SnapshotN: e.snapshot.Number,
		Token: e.highest, Life: e.life.Milliseconds(),
	})
	if err != nil {
		return nil, err
	}
	body := fold.AppendLine(nil, fold.Entry{Kind: kindHeader, Number: e.number, Nonce: e.nonce, Value: h})
	if e.write {
		value := e.value
		if value == nil {
			value = []byte{} // nil would be a deletion
		}
		body = fold.AppendLine(body, fold.Entry{Kind: fold.Value, Number: e.number, Nonce: e.nonce, Prev: e.prev, Value: value, Deleted: e.deleted})
	}
	return body, nil
}

// logged returns the entry of a version for an evaluation of the log.
func (e *entry) logged(id string, old bool) versionlog.Entry {
	return versionlog.Entry{ID: id, Nonce: e.nonce, Number: e.number, Prev: e.prev, Write: e.write, Old: old, Snapshot: e.snapshot}
}

var (
	errForeign = errors.New("it is not an entry of a register")
	errNewer   = errors.New("a newer holdfast has written it")
)

// decode reads a body. The entry may share the memory of the body.
func decode(body []byte) (*entry, error) {
	var lines []fold.Entry
	whole := fold.Scan(body, func(l fold.Entry) { lines = append(lines, l) })
	if len(lines) == 0 || lines[0].Kind != kindHeader {
		return nil, errForeign
	}
	var h header
	if err := json.Unmarshal(lines[0].Value, &h); err != nil || h.Holdfast < 1 {
		return nil, errForeign
	}
	if h.Holdfast > FormatVersion {
		return nil, fmt.Errorf("%w: its format is %d, but this program reads only format %d; use a newer holdfast", errNewer, h.Holdfast, FormatVersion)
	}
	notEmpty := bytes.FieldsFunc(body, func(r rune) bool { return r == '\n' })
	if whole != len(body) || len(lines) != len(notEmpty) {
		return nil, errForeign
	}
	e := &entry{
		nonce: lines[0].Nonce, number: lines[0].Number, key: h.Key,
		snapshot: versionlog.Snapshot{ID: h.Snapshot, Number: h.SnapshotN}, highest: h.Token,
	}
	if h.Life < 0 || h.Life > math.MaxInt64/int64(time.Millisecond) || (h.Snapshot == "") != (h.SnapshotN == 0) {
		return nil, errForeign
	}
	e.life = time.Duration(h.Life) * time.Millisecond
	switch {
	case len(lines) == 1 && e.number == h.SnapshotN && h.SnapshotN > 0:
		return e, nil
	case len(lines) == 2 && lines[1].Kind == fold.Value && lines[1].Nonce == e.nonce && lines[1].Number == e.number && e.number > h.SnapshotN:
		e.write, e.prev, e.value, e.deleted = true, lines[1].Prev, lines[1].Value, lines[1].Deleted
		return e, nil
	}
	return nil, errForeign
}
