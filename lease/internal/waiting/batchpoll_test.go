package waiting

import "testing"

// A record is unchanged if the tag was answered before the read began, and was still the same in a
// batch poll that began after the read was answered.
func TestBatchPollProof(t *testing.T) {
	for _, c := range []struct {
		name                         string
		since, last, began, answered uint64
		proves                       bool
	}{
		{"around the read", 1, 4, 2, 3, true},
		{"the tag was answered during the read", 3, 5, 2, 4, false},
		{"the tag was answered after the read", 5, 6, 2, 3, false},
		{"the last batch poll began during the read", 1, 3, 2, 4, false},
		{"the last batch poll began before the read", 1, 2, 3, 4, false},
	} {
		s := &batchPolls{last: &batchPoll{began: c.last}, tags: map[string]tagRun{"job": {"tag", c.since}},
			reads: map[string]*lastRead{"job": {began: c.began, answered: c.answered, version: "v"}}}
		if proves := s.confirms("job", "v"); proves != c.proves {
			t.Errorf("%s: proves %v", c.name, proves)
		}
	}
}
