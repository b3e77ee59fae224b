package waiting

import "testing"

// A record is unchanged if the tag was answered before the read began, and was still the same in a
// batch poll that began after the read was answered. A tag that stays the same over a change is
// wrong.
func TestBatchPollProof(t *testing.T) {
	for _, c := range []struct {
		name                                 string
		since, last, began, answered, before uint64
		proves, wrong                        bool
	}{
		{"around the read", 1, 4, 2, 3, 0, true, false},
		{"the tag was answered during the read", 3, 5, 2, 4, 0, false, false},
		{"the tag was answered after the read", 5, 6, 2, 3, 0, false, false},
		{"the last batch poll began during the read", 1, 3, 2, 4, 0, false, false},
		{"the last batch poll began before the read", 1, 2, 3, 4, 0, false, false},
		{"the tag is newer than another version", 2, 5, 3, 4, 1, true, false},
		{"the tag is older than another version", 1, 6, 3, 4, 2, false, true},
	} {
		s := &batchPolls{last: &batchPoll{began: c.last}, tags: map[string]tagRun{"job": {"tag", c.since}}}
		proves := s.confirms("job", "v", &readTimes{began: c.began, answered: c.answered, version: "v", other: c.before})
		if proves != c.proves || s.wrong != c.wrong {
			t.Errorf("%s: proves %v, wrong %v", c.name, proves, s.wrong)
		}
	}
}
