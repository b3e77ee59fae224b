package reservation

import (
	"fmt"
	"strings"
)

// escaped are the printable ASCII characters that object_store encodes in a segment of a
// path.
const escaped = "%*?#~\\{^}[]\"<>|`"

// Key returns the S3 key that object_store uses for a path (Path::from). Key removes empty
// segments. Within a segment, control characters, bytes outside of ASCII and some other bytes
// become %XX. Key also encodes the segments "." and "..". Do not call Key with a result of Key,
// because it would encode the percent signs again.
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
