package command

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
)

// One fault of a server is one story: run, init and doctor end with the same status and the
// same message, without the chain of what they were doing.
func TestOneFaultIsOneStory(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, dynamo bool)
		status int
		says   string
	}{
		"wrong secret": {func(w http.ResponseWriter, dynamo bool) {
			w.WriteHeader(map[bool]int{true: 400, false: 403}[dynamo])
			if dynamo {
				fmt.Fprint(w, `{"__type":"com.amazon.coral.service#UnrecognizedClientException","message":"The security token is invalid."}`)
				return
			}
			fmt.Fprint(w, `<?xml version="1.0"?><Error><Code>SignatureDoesNotMatch</Code><Message>No match</Message></Error>`)
		}, exit.Denied, "the credentials were refused"},
		"another service": {func(w http.ResponseWriter, _ bool) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(404)
			fmt.Fprint(w, "<html>Not here</html>")
		}, exit.Unsafe, "another service sent the reply; check the address of the endpoint, and whether the endpoint needs http:// or https://"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c.answer(w, strings.Contains(r.Header.Get("X-Amz-Target"), "DynamoDB"))
		}))
		defer server.Close()
		for _, store := range []string{"s3://bucket/app?region=x&path_style=true&endpoint=", "dynamodb://table/app?region=x&endpoint="} {
			scheme, _, _ := strings.Cut(store, ":")
			message := regexp.MustCompile(`^holdfast: ` + regexp.QuoteMeta(scheme) + `://\S+ at \S+: .*` + regexp.QuoteMeta(c.says))
			for _, line := range []string{"run -n x -- true", "run -w 60 x -- true", "init", "doctor", "lock -n x"} {
				stdout, stderr, status := p.run(t, store+server.URL, strings.Fields(line)...)
				lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(stderr, "\n  ", "; ")), "\n")
				if status != c.status || stdout != "" || !message.MatchString(lines[len(lines)-1]) {
					t.Errorf("%s, %s of %s: status %d, want %d: %s%s", name, line, scheme, status, c.status, stdout, stderr)
				}
			}
		}
	}
}

// A pipe gets a long name as it is.
func TestLongNamesInAPipe(t *testing.T) {
	p, store := newPlaceOfFiles(t)
	long := strings.Repeat("n", 200)
	p.must(t, store, "run", long, "--", "true")
	if out := p.must(t, store, "ls", "--all"); !strings.Contains(out, long) {
		t.Errorf("a pipe gets %s", out)
	}
}
