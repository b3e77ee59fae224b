package avisofile

// Rewrite decodes a state file and encodes it again.
func Rewrite(b []byte) ([]byte, error) {
	s, err := decode(b)
	if err != nil {
		return nil, err
	}
	return encode(s), nil
}

// RewriteFences decodes a fence file and encodes it again.
func RewriteFences(b []byte) ([]byte, error) {
	f, err := decodeFences("fence", b)
	if err != nil {
		return nil, err
	}
	return f.encode()
}

// Waiting returns how many calls wait for the lock.
func Waiting(s *Store) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue.Len()
}

// Waits returns how many locks the process waits for in the kernel.
func Waits() int { return len(waits) }

// MaxWaits is how many locks a process waits for in the kernel.
const MaxWaits = maxWaits

// MaxStateFile is the largest state file, in bytes.
const MaxStateFile = maxStateFile

// CommitStats describes one period in which a store held the lock.
type CommitStats = commitStats

// OnCommit returns options whose store calls f after each release of the lock.
func OnCommit(f func(CommitStats)) *Options { return &Options{onCommit: f} }
