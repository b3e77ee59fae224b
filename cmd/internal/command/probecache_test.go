package command

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/aws/awstest"
)

// TestFirstRun: what a run costs on a server that this user has never used, the release included,
// and what the next one costs.
//
// Eight requests are the least for a new lock on a bucket without versions. Five try the
// conditions: a create, a second one, a write on a wrong version, one on the right version (it
// also shows that the refused ones wrote nothing), and one on a version of what is absent. One
// removes what was tried, and two take and free the lock. None can be spared:
//   - The lock itself cannot stand in for what is tried. A server that ignores the condition
//     would write over the record of a living holder, and the promise is that such a server
//     is refused before anything but the probe is written.
//   - A lock that is there does not prove that its server is safe: another client may have
//     reached the bucket through another endpoint, or accepted the risk.
//   - A bucket with versions costs a listing, or the locks of s3+versioned:// under the same
//     prefix would not be found, and one lock would run twice.
//   - A lock that is there costs two more: the create that is refused, and the read, since S3
//     returns no state with a refusal. A run that reads first would pay nine for each lock.
func TestFirstRun(t *testing.T) {
	t.Parallel()
	for versioning, listing := range map[string]int{"": 0, "Enabled": 1} {
		p := newPlace(t)
		store, stand := serveS3(t, func(s *awstest.S3) { s.Versioning = versioning })
		check := func(what string, most int) {
			t.Helper()
			stand.Reset()
			p.must(t, store, "run", "job", "--", "true")
			if got := stand.Ops(); len(got) > most {
				t.Errorf("versioning %q, %s: %d requests, at most %d are allowed: %s", versioning, what, len(got), most, strings.Join(got, " "))
			}
		}
		check("a new lock", 8+listing)
		check("the second run", 2)
		p = newPlace(t) // of another user
		check("a lock that is there", 10+listing)
		check("the second run", 2)
	}
}
