package reservation

import (
	"fmt"
	"strings"
)

// escaped are the printable ASCII characters that object_store encodes in a segment of a
// path.
const escaped = "%*?#~\\{^}[]\"<>|`"

// Key returns the key that object_store gives the object which its callers name path (as
// Path::from): empty segments are dropped, and within a segment control characters,
// non-ASCII bytes and some others become %XX, as do segments "." and "..". Applied to a
// key that it has returned, it encodes the percent signs again.
func Key(path string) string {
	var segments []string
	for segment := range strings.SplitSeq(path, "/") {
		if segment != "" {
			segments = append(segments, encodeSegment(segment))
		}
	}
	return strings.Join(segments, "/")
}

func encodeSegment(s string) string {
	if s == "." || s == ".." {
		return strings.ReplaceAll(s, ".", "%2E")
	}
	var b strings.Builder
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' || strings.IndexByte(escaped, c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
