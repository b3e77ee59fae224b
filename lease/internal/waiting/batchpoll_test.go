package waiting

import (
	"testing"
	"time"
)

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

// A read that was answered late, with a state from before the last listing, does not make the client take
// the listings for wrong.
func TestBatchPollIgnoresAnOvertakenRead(t *testing.T) {
	q := &Queues{batchPolls: &batchPolls{reads: map[string]*lastRead{"job": {}}, stale: map[string]string{}}}
	s := q.batchPolls
	slow := q.ReadBegins()
	s.tags = map[string]tagRun{"job": {"new tag", s.event()}} // the record was changed in the meantime
	q.ReadAnswered("job", q.ReadBegins(), time.Now(), "new")
	q.ReadAnswered("job", slow, time.Now(), "old")
	if len(s.stale) > 0 || s.reads["job"].version != "new" {
		t.Errorf("the last read has shown %q; these tags count as wrong: %v", s.reads["job"].version, s.stale)
	}
}
