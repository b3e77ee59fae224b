package s3verstore

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/objectname"
)

// The object of a key has the key's name, with everything but letters, digits, dot,
// hyphen and underscore escaped as "!" and two hexadecimal digits, and "!!" at its
// end. So
//
//   - no object is "below" another as a file would be below a file: two servers that
//     were tried keep objects in directories, where one refuses job/1 beside job, and
//     the other leaves it out of listings;
//   - a listing by the object's name shows no other object: job!! is no prefix of
//     job-2!!.
//
// A key whose name would be too long for some server is in "!long/", under its
// hash; the entries carry the key itself.

const (
	ending     = "!!"
	longFolder = "!long/"

	// Servers that keep objects as files take 255 bytes in a segment; S3 takes
	// 1,024 in all, and a prefix of the user's comes before.
	maxSegment = 200
	maxName    = 700
)

// ObjectKey returns the key of the object that has the register of a key.
func (s *Store) ObjectKey(key string) string { return s.prefix + objectName(key) }

// objectName returns the name of the object of a key, without the prefix.
func objectName(key string) string {
	name := escape(key) + ending
	long := func(segment string) bool { return len(segment) > maxSegment }
	if len(name) <= maxName && !slices.ContainsFunc(strings.Split(name, "/"), long) {
		return name
	}
	sum := sha256.Sum256([]byte(key))
	return longFolder + hex.EncodeToString(sum[:]) + ending
}

// keyOf returns the key of an object, and whether the name is that of one. For a
// long key it is empty: the entries tell.
func keyOf(name string) (key string, ok bool) {
	inner, ok := strings.CutSuffix(name, ending)
	if !ok {
		return "", false
	}
	if strings.HasPrefix(name, longFolder) {
		return "", true
	}
	key, ok = objectname.Unescape(inner)
	return key, ok && key != "" && objectName(key) == name
}

func escape(key string) string {
	return objectname.Escape(key, func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("./-_", r)
	})
}
