package lockrec

import (
	"encoding/base32"
	"encoding/binary"
	"reflect"
	"time"
)

const (
	nonceText = 26 // characters of a nonce, of 5 bits each
	nonceSize = 17

	// PackedSize is the size of a packed record.
	PackedSize = nonceSize + 8
)

// Pack returns the record r of a lock that has just been granted, in little memory. It has only what
// distinguishes the record from pattern, that of another lock of the same session. Pack returns false
// if r differs from pattern in more than the name, the grant, the token, the nonce and the time.
func Pack(r, pattern *Record) (packed string, ok bool) {
	var b [PackedSize + 3]byte // more than the nonce: base32 decodes whole groups
	n, err := base32.StdEncoding.Decode(b[:], []byte(r.Nonce+"AAAAAA"))
	if err != nil || n != nonceSize+3 {
		return "", false
	}
	binary.BigEndian.PutUint64(b[nonceSize:], uint64(r.Granted.UnixNano()))
	packed = string(b[:PackedSize])
	return packed, reflect.DeepEqual(Unpack(packed, pattern, r.Name, r.Grant, r.Token), r)
}

// Unpack returns the record again, which has that name, grant and token.
func Unpack(packed string, pattern *Record, name, grant string, token uint64) *Record {
	var b [nonceSize + 3]byte
	copy(b[:], packed[:nonceSize])
	granted := time.Unix(0, int64(binary.BigEndian.Uint64([]byte(packed[nonceSize:]))))
	r := *pattern
	r.Name, r.Grant, r.Token, r.Nonce, r.Granted, r.Renewed = name, grant, token, base32.StdEncoding.EncodeToString(b[:])[:nonceText], granted, granted
	return &r
}
