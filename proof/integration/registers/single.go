package registers

import (
	"cmp"
	"testing"
	"time"
)

// RunKills runs only the test that kills the server. Use it for a second set-up of a server whose other
// tests show nothing new, such as a cluster.
func (k Kind) RunKills(t *testing.T) { kills(t, k, cmp.Or(k.TTL, 4*time.Second)) }
