package tofustate

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/holdfast-go/holdfast/store"
)

const (
	recordFormat = 1

	// keptReleases is how many IDs of released locks a record keeps, so that a repeated request is recognized.
	keptReleases = 8

	maxLock = 4 << 10 // bytes of the description of a lock
	maxText = 128     // bytes of an ID or a lineage
)

// record is the register of a state.
type record struct {
	Format     int               `json:"format"`
	Generation uint64            `json:"generation"`         // each write adds 1
	Lock       json.RawMessage   `json:"lock,omitempty"`     // as its holder sent it
	Released   []string          `json:"released,omitempty"` // IDs of the last locks that were released
	Versions   []json.RawMessage `json:"versions,omitempty"` // oldest first

	holder   lockInfo  // of Lock
	versions []version // of Versions
	unknown  map[string]json.RawMessage
}

// lockInfo is the description of a lock that clients send.
type lockInfo struct {
	ID, Operation, Info, Who, Version, Path string
	Created                                 time.Time
}

// version is one version of a state.
type version struct {
	Version uint64    `json:"version"` // from 1
	Serial  uint64    `json:"serial"`  // as the client counts
	Lineage string    `json:"lineage,omitempty"`
	Size    int64     `json:"size"`
	SHA256  string    `json:"sha256,omitempty"`
	Stored  time.Time `json:"stored"` // by the clock of the server
	LockID  string    `json:"lock_id,omitempty"`
	Who     string    `json:"who,omitempty"` // of the lock
	Deleted bool      `json:"deleted,omitempty"`

	place
}

// place is where the parts of a version are.
type place struct {
	Slot  int    `json:"slot,omitempty"`
	Parts int    `json:"parts,omitempty"`
	Base  uint64 `json:"base,omitempty"` // generation in the parts
}

// refusal is an error of the client. Nothing was changed.
type refusal struct {
	status int
	text   string
	holder json.RawMessage // of the lock; nil if the lock is not the reason
	level  slog.Level
}

func (e *refusal) Error() string { return e.text }

func refused(status int, format string, args ...any) error {
	return &refusal{status: status, text: fmt.Sprintf(format, args...), level: slog.LevelWarn}
}

func notFound(text string) error {
	return &refusal{status: http.StatusNotFound, text: text, level: slog.LevelDebug}
}

func (r *record) heldByOther(status int, level slog.Level) error {
	return &refusal{status, fmt.Sprintf("%q holds the lock %q", r.holder.Who, r.holder.ID), r.Lock, level}
}

// decodeRecord reads a record; of no text, an empty one.
func decodeRecord(text []byte) (*record, error) {
	if text == nil {
		return &record{Format: recordFormat}, nil
	}
	r := &record{}
	err := json.Unmarshal(text, r)
	if err == nil && r.Format != recordFormat {
		return nil, fmt.Errorf("%w: the record has the format %d: use a newer version of Holdfast", store.ErrCorrupt, r.Format)
	}
	if r.Lock != nil {
		err = errors.Join(err, json.Unmarshal(r.Lock, &r.holder))
	}
	for _, stored := range r.Versions {
		var v version
		err = errors.Join(err, json.Unmarshal(stored, &v))
		if v.Size < 0 || v.Size > MaxState || v.Parts < 0 || v.Parts > maxParts {
			err = errors.Join(err, errors.New("a version has an impossible size"))
		}
		r.versions = append(r.versions, v)
	}
	if err = errors.Join(err, json.Unmarshal(text, &r.unknown)); err != nil {
		return nil, fmt.Errorf("%w: the record of the state: %w", store.ErrCorrupt, err)
	}
	for _, known := range []string{"format", "generation", "lock", "released", "versions"} {
		delete(r.unknown, known)
	}
	return r, nil
}

// encode returns the text of a record. If the text is too large for a register, the oldest versions are dropped.
func (r *record) encode() ([]byte, error) {
	for {
		text, err := json.Marshal(r)
		if err != nil {
			return nil, err
		}
		fields := maps.Clone(r.unknown)
		if err := json.Unmarshal(text, &fields); err != nil {
			return nil, err
		}
		text, err = json.Marshal(fields)
		if err != nil || len(text) <= store.MaxValue || len(r.Versions) < 2 {
			return text, err
		}
		r.drop(1)
	}
}

func (r *record) drop(n int) {
	r.Versions, r.versions = r.Versions[n:], r.versions[n:]
}

// current returns the newest version. Its Deleted is true if there is no state.
func (r *record) current() version {
	if len(r.versions) == 0 {
		return version{Deleted: true}
	}
	return r.versions[len(r.versions)-1]
}

// take gives the lock to a client.
func (r *record) take(text []byte, info lockInfo) error {
	switch {
	case r.Lock != nil && r.holder.ID == info.ID:
		return store.ErrUnchanged
	case r.Lock != nil:
		return r.heldByOther(http.StatusLocked, slog.LevelDebug) // the client shows the holder, and waits
	case slices.Contains(r.Released, info.ID):
		return refused(http.StatusConflict, "the lock %q was released: a new lock needs a new ID", info.ID)
	}
	r.Lock, r.holder = text, info
	return nil
}

// release frees the lock with this ID; without an ID, the present lock.
func (r *record) release(id string) error {
	switch {
	case slices.Contains(r.Released, id), r.Lock == nil && id == "":
		return store.ErrUnchanged
	case r.Lock == nil:
		return refused(http.StatusConflict, "no lock is held, and %q is none of the last locks", id)
	case id != "" && id != r.holder.ID:
		return r.heldByOther(http.StatusConflict, slog.LevelWarn)
	}
	r.Released = append(r.Released, r.holder.ID)
	r.Released = r.Released[max(0, len(r.Released)-keptReleases):]
	r.Lock, r.holder = nil, lockInfo{}
	return nil
}

// admit checks whether a version may follow the current one. The error is [store.ErrUnchanged] if there is nothing
// to change, for example because the request is repeated.
func (r *record) admit(v version) error {
	now := r.current()
	switch {
	case now.Version > 0 && now.Deleted == v.Deleted && now.SHA256 == v.SHA256 && now.LockID == v.LockID:
		return store.ErrUnchanged
	case r.Lock != nil && v.LockID != r.holder.ID:
		return r.heldByOther(http.StatusLocked, slog.LevelWarn)
	case r.Lock == nil && v.LockID != "":
		return refused(http.StatusConflict, "the lock %q is not held", cut(v.LockID))
	case now.Deleted && v.Deleted:
		return store.ErrUnchanged
	case v.Lineage != "" && v.Lineage == now.Lineage && v.Serial <= now.Serial && (v.LockID == "" || v.LockID == now.LockID):
		return refused(http.StatusConflict, "the request has the serial %d and the state has %d: the request is late, or needs the lock", v.Serial, now.Serial)
	}
	return nil
}

// add makes v the current version, and drops all but the newest versions.
func (r *record) add(v version, keep int) error {
	text, err := json.Marshal(v)
	r.Versions, r.versions = append(r.Versions, text), append(r.versions, v)
	r.drop(max(0, len(r.versions)-keep))
	return err
}

// cut returns the beginning of a text.
func cut(text string) string {
	if len(text) > maxText {
		return strings.ToValidUTF8(text[:maxText], "")
	}
	return text
}

// decodeLock reads the description of a lock. Clients print the texts of other clients' locks on terminals.
func decodeLock(text []byte) (info lockInfo, err error) {
	if len(text) > maxLock {
		return info, refused(http.StatusRequestEntityTooLarge, "the description of the lock is larger than %d bytes", maxLock)
	}
	if json.Unmarshal(text, &info) != nil {
		return info, refused(http.StatusBadRequest, "the body of the request is no description of a lock by OpenTofu or Terraform")
	}
	if info.ID == "" || len(info.ID) > maxText {
		return info, refused(http.StatusBadRequest, "the ID of the lock must have 1 to %d bytes", maxText)
	}
	for _, field := range []string{info.ID, info.Operation, info.Info, info.Who, info.Version, info.Path} {
		if strings.ContainsFunc(field, func(c rune) bool { return !unicode.IsPrint(c) }) {
			return info, refused(http.StatusBadRequest, "the description of the lock contains control characters or invisible characters")
		}
	}
	return info, nil
}
