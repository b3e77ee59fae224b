package reservation

import (
	"fmt"
	"strings"
)

// escaped are the printable ASCII characters that object_store encodes in a segment of a
// path.
const escaped = "%*?#~\\{^}[]\"<>|`"

// Key returns the key of the object that callers of object_store name path (as Path::from). It
// removes empty segments. Within a segment, control characters, bytes outside of ASCII and some
// other bytes become %XX. The segments "." and ".." are encoded too. If path is a result of Key,
// Key encodes the percent signs again.
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
