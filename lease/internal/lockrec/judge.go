package lockrec

// Wrote reports whether the record that was read is the written one, or one that others wrote over
// it without a change of its grant.
func Wrote(r *Record, read *Record) bool {
	return (read.Nonce == r.Nonce || read.HolderNonce == r.Nonce) && read.Grant == r.Grant && read.State == r.State
}
