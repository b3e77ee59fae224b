package checkpoint

import "time"

// ResolvingIn returns options with which a keeper resolves in-doubt writes for so long.
func ResolvingIn(d time.Duration) *Options { return &Options{resolveTimeout: d} }

// DecodeHistory reads the field of a record.
var DecodeHistory = decodeHistory
