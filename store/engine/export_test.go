package engine

// SetTries sets how many times a write is sent while its outcome is not known.
func SetTries(o *Options, tries int) { o.tries = tries }
