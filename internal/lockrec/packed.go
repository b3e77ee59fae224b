package lockrec

import (
	"encoding/base32"
	"encoding/binary"
	"reflect"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A random text, such as a nonce, and the end of a version of a directory, has 26 characters of 5 bits.
const (
	randomText = 26
	randomSize = 17
)

// packRandom returns a random text in randomSize bytes. It returns false if s is none.
func packRandom(s string) (packed string, ok bool) {
	var b [randomSize + 3]byte // base32 decodes whole groups
	n, err := base32.StdEncoding.Decode(b[:], []byte(s+"AAAAAA"))
	return string(b[:randomSize]), err == nil && n == len(b)
}

func unpackRandom(packed string) string {
	var b [randomSize + 3]byte
	copy(b[:], packed[:randomSize])
	return base32.StdEncoding.EncodeToString(b[:])[:randomText]
}

// Pack returns in little memory a version and its record r, of a lock that has just been granted. It
// has only what distinguishes the record from pattern, that of another lock of the same session. Pack
// returns false if r differs from pattern in more than the name, the grant, the token, the nonce and
// the time.
func Pack(version store.Version, r, pattern *Record) (packed string, ok bool) {
	b := binary.BigEndian.AppendUint64(nil, uint64(r.Granted.UnixNano()))
	nonce, ok := packRandom(r.Nonce)
	if !ok {
		return "", false
	}
	b = append(b, nonce...)
	start := max(len(version)-randomText, 0)
	if random, ok := packRandom(string(version[start:])); ok {
		b = append(append(append(b, 1), random...), version[:start]...)
	} else {
		b = append(append(b, 0), version...)
	}
	packed = string(b)
	unpacked, same := Unpack(packed, pattern, r.Name, r.Grant, r.Token)
	return packed, unpacked == version && reflect.DeepEqual(same, r)
}

// Unpack returns the version and the record again, which has that name, grant and token.
func Unpack(packed string, pattern *Record, name, grant string, token uint64) (store.Version, *Record) {
	granted := time.Unix(0, int64(binary.BigEndian.Uint64([]byte(packed[:8]))))
	nonce, version := packed[8:8+randomSize], packed[8+randomSize+1:]
	if packed[8+randomSize] == 1 {
		version = version[randomSize:] + unpackRandom(version)
	}
	r := *pattern
	r.Name, r.Grant, r.Token, r.Nonce, r.Granted, r.Renewed = name, grant, token, unpackRandom(nonce), granted, granted
	return store.Version(version), &r
}
