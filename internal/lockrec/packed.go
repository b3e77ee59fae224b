package lockrec

import (
	"reflect"
	"time"
)

// Packed is a record of a lock that has just been granted, in little memory. It has only what
// distinguishes the record from those of other locks of the same session.
type Packed struct {
	pattern *Record
	nonce   string
	granted time.Time
}

// Pack packs r. It returns false if r differs from the record pattern in more than the name, the grant,
// the token, the nonce and the time.
func Pack(r, pattern *Record) (Packed, bool) {
	p := Packed{pattern, r.Nonce, r.Granted}
	return p, reflect.DeepEqual(p.Unpack(r.Name, r.Grant, r.Token), r)
}

// Unpack returns the record again, which has that name, grant and token.
func (p Packed) Unpack(name, grant string, token uint64) *Record {
	r := *p.pattern
	r.Name, r.Grant, r.Token, r.Nonce, r.Granted, r.Renewed = name, grant, token, p.nonce, p.granted, p.granted
	return &r
}
