package command

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/aws/awstest"
)

// copy-store copies to each kind of bucket, and from there to the other kind: tokens rise with each copy,
// and a second copy changes nothing.
func TestCopyStoreOfBuckets(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	plain, _ := serveS3(t, nil)
	versioned, _ := serveS3(t, func(s *awstest.S3) { s.Versioning = "Enabled" })
	versioned = strings.Replace(versioned, "s3://", "s3+versioned://", 1) + "&put_lifetime=1s"
	from := "file:" + filepath.Join(p.dir, "store")
	p.must(t, from, "checkpoint", "advance", "orders", "17", "--fence", "9")
	p.must(t, from, "run", "job", "--ttl", "30s", "--", "true")
	token := number(t, tokenOf(p.must(t, from, "show", "job", "--json")))
	for _, to := range []string{plain, versioned, "file:" + filepath.Join(p.dir, "back")} {
		p.must(t, "", "copy-store", from, to)
		if stdout, stderr, status := p.run(t, "", "copy-store", from, to); status != 0 || stdout != "" || !strings.Contains(stderr, "0 of 2 locks") {
			t.Errorf("the second copy to %s: status %d, %s%s", to, status, stdout, stderr)
		}
		if now := number(t, tokenOf(p.must(t, to, "show", "job", "--json"))); now <= token {
			t.Errorf("token %d in %s, after %d", now, to, token)
		} else {
			token = now
		}
		if got := p.must(t, to, "checkpoint", "get", "orders", "--json"); !strings.Contains(got, `"sequence": 17`) || !strings.Contains(got, `"token": 9`) {
			t.Errorf("the checkpoint in %s: %s", to, got)
		}
		from = to
	}
}
