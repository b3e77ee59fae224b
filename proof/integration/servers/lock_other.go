//go:build !unix

package servers

// lockFile does nothing here: two processes may do the same work, and the first to
// finish wins.
func lockFile(string, func()) (unlock func(), err error) { return func() {}, nil }

// lockFileUntilExit does nothing here: two processes may build the same command.
func lockFileUntilExit(string) (bool, error) { return true, nil }
