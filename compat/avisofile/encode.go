package avisofile

import (
	"encoding/hex"
	"strconv"
)

// encode returns the bytes of the state file. They are those that the format's own
// program writes for these entries, except that encode sorts the keys.
func encode(s state) []byte {
	const around, each = 80, 160
	b := make([]byte, 0, around+each*len(s))
	b = append(b, "{\n  \"version\": 1,\n  \"key_format_version\": 1,\n  \"checkpoints\": {"...)
	for i, e := range s {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, "\n    \""...)
		b = hex.AppendEncode(b, e.key[:])
		b = append(b, "\": {\n      \"last_committed_sequence\": "...)
		b = strconv.AppendUint(b, e.sequence, 10)
		b = append(b, ",\n      \"last_event_id\": "...)
		if e.named {
			b = appendString(b, e.event)
		} else {
			b = append(b, "null"...)
		}
		b = append(b, "\n    }"...)
	}
	if len(s) > 0 {
		b = append(b, "\n  "...)
	}
	return append(b, "}\n}"...)
}

// appendString appends a JSON string with only the escapes that JSON demands, like the
// format's own program. s is valid UTF-8.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	plain := 0
	for i := range len(s) {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[plain:i]...)
		plain = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0')
			b = hex.AppendEncode(b, []byte{c})
		}
	}
	b = append(b, s[plain:]...)
	return append(b, '"')
}
