package s3verstore

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// The object of a key has the key's name, with everything but letters, digits, dot,
// hyphen and underscore escaped as "!" and two hexadecimal digits, and "!!" at its
// end. So
//
//   - no object lies "below" another as a file would below a file: two servers that
//     were tried keep objects in directories, where one refuses job/1 beside job, and
//     the other leaves it out of listings;
//   - a listing by the object's name shows no other object: job!! is no prefix of
//     job-2!!.
//
// A key whose name would be too long for some server lies in "!long/", under its
// hash; the entries carry the key itself.

const (
	ending     = "!!"
	longFolder = "!long/"

	// Servers that keep objects as files take 255 bytes in a segment; S3 takes
	// 1,024 in all, and a prefix of the user's comes before.
	maxSegment = 200
	maxName    = 700
)

// objectName returns the name of the object of a key, without the prefix.
func objectName(key string) string {
	name := escape(key) + ending
	if len(name) <= maxName {
		long := false
		for segment := range strings.SplitSeq(name, "/") {
			long = long || len(segment) > maxSegment
		}
		if !long {
			return name
		}
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
	key, ok = unescape(inner)
	return key, ok && key != "" && objectName(key) == name
}

func plainByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("./-_", c) >= 0
}

func escape(key string) string {
	var b strings.Builder
	for i := range len(key) {
		if c := key[i]; plainByte(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "!%02X", c)
		}
	}
	return b.String()
}

func unescape(name string) (string, bool) {
	var b []byte
	for i := 0; i < len(name); i++ {
		if name[i] != '!' {
			b = append(b, name[i])
			continue
		}
		if i+3 > len(name) {
			return "", false
		}
		c, err := hex.DecodeString(name[i+1 : i+3])
		if err != nil {
			return "", false
		}
		b = append(b, c[0])
		i += 2
	}
	return string(b), true
}
