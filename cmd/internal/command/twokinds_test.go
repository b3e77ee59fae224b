package command

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
)

// A lock runs in one kind of store only, if s3:// and s3+versioned:// have the same prefix: whichever kind
// is used first, and whatever doctor has found before. doctor reports the other kind. Stores with different
// prefixes are the control.
func TestTwoKindsOnOnePrefix(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		first     string
		doctor    bool // before the first use
		otherwise bool // the second store has another prefix
	}{
		{"s3", false, false}, {"s3", true, false}, {"s3+versioned", false, false}, {"s3+versioned", true, false}, {"s3+versioned", true, true},
	} {
		t.Run(fmt.Sprintf("%s first, doctor %v, another prefix %v", c.first, c.doctor, c.otherwise), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			plain, _ := serveS3(t, func(s *awstest.S3) { s.Versioning = "Enabled" })
			versioned := strings.Replace(plain, "s3://", "s3+versioned://", 1) + "&put_lifetime=1s"
			first, second := plain, versioned
			if c.first != "s3" {
				first, second = versioned, plain
			}
			if c.doctor {
				p.must(t, plain, "doctor")
			}
			if c.otherwise {
				second = strings.Replace(second, "/app?", "/other?", 1)
			}
			want := exit.Unsafe
			if c.otherwise {
				want = 0
			}
			inner := fmt.Sprintf("%s --store '%s' run -n job -- true; echo status $?", p.bin, second)
			if got := p.must(t, first, "run", "job", "--ttl", "30s", "--", "sh", "-c", inner); got != fmt.Sprintf("status %d\n", want) {
				t.Errorf("a run in the second store, while the first store has the lock: %s", got)
			}
			if c.first == "s3" || c.otherwise {
				return // doctor takes a minute on the other kind
			}
			stdout, stderr, status := p.run(t, second, "doctor")
			if status != exit.Unsafe || !strings.Contains(stdout, "s3+versioned://") || !strings.Contains(stdout, "Use the other store or another prefix") {
				t.Errorf("doctor: status %d, %s%s", status, stdout, stderr)
			}
		})
	}
}
