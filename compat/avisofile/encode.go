package avisofile

import (
	"encoding/hex"
	"strconv"

	"github.com/holdfast-go/holdfast/internal/drivers/jsontext"
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
			b = jsontext.AppendString(b, e.event)
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
