package lockrec

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// YieldRequest is a request to the holders of a lock to yield.
type YieldRequest struct {
	Grant         string    // grant that the request is for; empty if the lock has several holders
	Grants        []string  // if the lock has several holders, the grants that held it at the time of the request
	By            string    // Options.Holder of the requesting client, for people: at most 1,024 bytes
	Reason        string    // reason of the request, for people: at most 1,024 bytes
	At            time.Time // time of the request, by the clock of the requesting client; for people only
	OnlyIfIdle    bool      // the holder yields only if it keeps the lock without work; see [Record.Linger]
	Acknowledged  bool      // the holder has read the request
	RefusalReason string    // why the holder does not yield, at most 1,024 bytes; empty if the holder has not refused

	// unknown keeps the fields of later versions as they came.
	unknown map[string]json.RawMessage
}

// yieldRequestFields is the JSON form of a YieldRequest.
type yieldRequestFields struct {
	Grant         string    `json:"grant,omitempty"`
	Grants        []string  `json:"grants,omitempty"`
	By            string    `json:"by,omitempty"`
	Reason        string    `json:"reason,omitempty"`
	At            time.Time `json:"at,omitzero"`
	OnlyIfIdle    bool      `json:"idle,omitempty"`
	Acknowledged  bool      `json:"heard,omitempty"`
	RefusalReason string    `json:"refused,omitempty"`

	unknown map[string]json.RawMessage // no field of the form
}

var knownYieldFields = []string{"grant", "grants", "by", "reason", "at", "idle", "heard", "refused"}

const (
	// MaxReason is the largest size of each text of a YieldRequest, in bytes.
	MaxReason = 1024

	// maxLocksToCheck bounds [Record.LocksToCheck]; with more locks the record has AllLocks.
	maxLocksToCheck = 100
	AllLocks        = "*"
)

// Encode returns the JSON form of the request.
func (a YieldRequest) encode() (json.RawMessage, error) {
	a.At = a.At.UTC()
	object, err := marshal(yieldRequestFields(a))
	if err != nil {
		return nil, err
	}
	return withUnknown(object, a.unknown)
}

// decodeYieldRequest reads the JSON form of a request to yield.
func decodeYieldRequest(value json.RawMessage) (*YieldRequest, error) {
	var f yieldRequestFields
	if err := decodeObject(value, &f, &f.unknown, knownYieldFields); err != nil {
		return nil, err
	}
	a := YieldRequest(f)
	if longest := max(len(a.By), len(a.Reason), len(a.RefusalReason)); longest > MaxReason {
		return nil, fmt.Errorf("the text of the request to yield has %d bytes, which is too long", longest)
	}
	if len(a.Grants) > MaxMembers || slices.ContainsFunc(a.Grants, func(grant string) bool { return SessionOf(grant) == "" }) {
		return nil, fmt.Errorf("the request to yield has an invalid list of grants: %.60q", a.Grants)
	}
	return &a, nil
}

// bare returns the request without the texts for people and without unknown fields. It keeps the
// fact that the request was refused.
func (a *YieldRequest) bare() *YieldRequest {
	if a == nil {
		return nil
	}
	bare := &YieldRequest{Grant: a.Grant, Grants: a.Grants, OnlyIfIdle: a.OnlyIfIdle, Acknowledged: a.Acknowledged}
	if a.RefusalReason != "" {
		bare.RefusalReason = "refused"
	}
	return bare
}

// allLocksEntry replaces names by the entry for all locks, if there are any.
func allLocksEntry(names []string) []string {
	if len(names) == 0 {
		return names
	}
	return []string{AllLocks}
}

// RequestYield returns the record after r with this request to yield. If r already has a sufficient
// request, RequestYield returns nil. The same request is sufficient: its first write was applied, and
// must not reach holders that came later. [ByOther] describes the parameter age.
func RequestYield(r *Record, a YieldRequest, age time.Duration) (*Record, error) {
	switch r.State {
	case Free:
		return nil, fmt.Errorf("lock %q: %w: the lock is free (token %d)", r.Name, ErrNotHeld, r.Token)
	case Broken:
		return nil, fmt.Errorf("lock %q: %w: the lock is already broken (token %d)", r.Name, ErrNotHeld, r.Token)
	}
	a.By = shortened(a.By, MaxReason) // no reader accepts a longer text
	of := RequestedOf(r)
	if now := r.YieldRequest; len(of) > 0 && now.By == a.By && now.At.Equal(a.At) && !a.At.IsZero() {
		return nil, nil
	} else if len(of) > 0 && (a.OnlyIfIdle || !now.OnlyIfIdle) && (now.Grant != "" || !now.isNameless() && len(of) == len(r.Holders)) {
		return nil, nil
	}
	next := ByOther(r, age)
	if a.Grant = r.Grant; r.State == Shared {
		a.Grant, a.Grants, next.HolderNonce = "", grantsOf(r.Holders), "" // none of them renews the record
	}
	next.YieldRequest = &a
	// Nothing is left out to make room for the request: the record is the holder's.
	if size, err := next.maxSize(); err != nil || size > store.MaxValue {
		return nil, errors.Join(fmt.Errorf("lock %q: %w: the record has no room for a request to yield", r.Name, store.ErrTooLarge), err)
	}
	return &next, nil
}

// Notify returns the record after r, the record of a session, with the name of a lock in LocksToCheck.
// The holder of the session then reads the record of this lock. If all is true, LocksToCheck names all
// locks. If r already names the lock, or the session is over, Notify returns nil.
func Notify(r *Record, lock string, all bool, age time.Duration) *Record {
	if r == nil || r.State != Held || IsNamed(r, lock) {
		return nil
	}
	next := ByOther(r, age)
	if next.LocksToCheck = append(slices.Clone(next.LocksToCheck), lock); all || len(next.LocksToCheck) > maxLocksToCheck {
		next.LocksToCheck = []string{AllLocks}
	}
	return &next
}

// IsNamed reports whether the record of a session names this lock in LocksToCheck, so that its holder has
// to read the record of the lock.
func IsNamed(r *Record, lock string) bool {
	return slices.Contains(r.LocksToCheck, lock) || slices.Contains(r.LocksToCheck, AllLocks)
}

// RequestedOf returns the holders that the request to yield in the record is for.
func RequestedOf(r *Record) []Member {
	if r == nil || r.State == Free || r.YieldRequest == nil || Exclusive(r) && r.YieldRequest.Grant != r.Grant {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(Possessors(r)), func(m Member) bool { return !IsFor(r.YieldRequest, m.Grant) })
}

// IsFor reports whether the request is for this grant, which holds the lock.
func IsFor(a *YieldRequest, grant string) bool {
	return a.Grant == grant || a.isNameless() || a.Grant == "" && slices.Contains(a.Grants, grant)
}

// isNameless reports whether an earlier program has written the request, for several holders
// without their names. Such a request is for all holders of the lock. That changes when a program
// that names them writes the next holder into the record, or requests again: it names those that
// held the lock before.
func (a *YieldRequest) isNameless() bool { return a.Grant == "" && len(a.Grants) == 0 }

func grantsOf(members []Member) (all []string) {
	for _, m := range members {
		all = append(all, m.Grant)
	}
	return all
}
