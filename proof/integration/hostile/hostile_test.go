package hostile_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// every calls all clients with the same answer to every request but those for which
// there is a canned one.
func every(t *testing.T, ops []operation, answer func(r *http.Request) *http.Response, check func(t *testing.T, op operation, r result)) {
	t.Helper()
	for _, op := range ops {
		t.Run(op.name, func(t *testing.T) {
			r := run(t, op, func(r *http.Request) (*http.Response, error) {
				if resp := canned(r); resp != nil && !strings.HasSuffix(op.name, " Settings") {
					return resp, nil
				}
				return answer(r), nil
			})
			t.Log(describe(r))
			check(t, op, r)
		})
	}
}

// wantUnknown: no client can say the outcome of a write whose answer is damaged.
func wantUnknown(t *testing.T, op operation, r result) {
	t.Helper()
	if r.err == nil {
		t.Errorf("a damaged answer was taken for a good one")
	}
	if errors.Is(r.err, store.ErrNotFound) || errors.Is(r.err, store.ErrConflict) {
		t.Errorf("a damaged answer was believed: %v", r.err)
	}
	if r.wrote && store.OutcomeOf(r.err) != store.Unknown {
		t.Errorf("the outcome is %v, want unknown: %v", store.OutcomeOf(r.err), r.err)
	}
}

func operations() []operation { return append(s3Operations(), dynamoOperations()...) }

// slow is a body of which a byte comes every second.
type slow struct {
	ctx  context.Context
	more string
	at   int
}

func (s *slow) Read(p []byte) (int, error) {
	select {
	case <-time.After(time.Second):
	case <-s.ctx.Done():
		return 0, context.Cause(s.ctx)
	}
	if s.at == len(s.more) {
		s.at = 0
	}
	n := copy(p[:1], s.more[s.at:])
	s.at += n
	return n, nil
}

// TestDamagedAnswers: bodies without an end, too deep, too short, too long or too slow,
// with every status: no client runs out of memory or time, believes them, or says of a
// write more than is known.
func TestDamagedAnswers(t *testing.T) {
	xml := func(head, more string) func(*http.Request) *http.Response {
		return func(*http.Request) *http.Response { return answer(200, id(), &forever{head: head, more: more}) }
	}
	refusal := func(status int) func(*http.Request) *http.Response {
		return func(*http.Request) *http.Response {
			return answer(status, id(), &forever{head: "<Error><Code>PreconditionFailed</Code><Message>", more: "x"})
		}
	}
	short := func(length int64) func(*http.Request) *http.Response {
		return func(r *http.Request) *http.Response {
			header := id()
			header.Set("Etag", string(etag))
			body := "<R></R>"
			if r.Header.Get("X-Amz-Target") != "" {
				body = "{}"
			}
			resp := answer(200, header, strings.NewReader(body))
			resp.ContentLength = length
			return resp
		}
	}
	for _, c := range []struct {
		name   string
		answer func(*http.Request) *http.Response
		// objects: to a read of an object it is an object like any other.
		objects bool
	}{
		{"an endless error", refusal(400), false},
		{"an endless refusal", refusal(403), false},
		{"an endless absence", refusal(404), false},
		{"an endless conflict", refusal(412), false},
		{"an endless failure", refusal(500), false},
		{"an endless page", xml("<ListBucketResult>", "<Contents><Key>abcdefghijklmnopqrstuvwxyz</Key></Contents>"), true},
		{"endless versions", xml("<ListVersionsResult>", "<Version><Key>k!!</Key><VersionId>1</VersionId></Version>"), true},
		{"endless elements", xml("<R>", "<a/>"), true},
		{"endless depth", xml("", "<a>"), true},
		{"an endless attribute", xml("<R a='", "x"), true},
		{"an endless item", xml(`{"Item":{"key":{"S":"`, "x"), true},
		{"endless items", xml(`{"Items":[`, `{"key":{"S":"x"}},`), true},
		{"endless deep JSON", xml(`{"Item":{"value":`, `{"L":[`), true},
		{"a line without an end", xml("", "x"), true},
		{"shorter than it says", short(100), true},
		{"longer than it says", short(1), true},
		{"a byte a second", func(r *http.Request) *http.Response {
			return answer(200, id(), &slow{ctx: r.Context(), more: " "})
		}, false},
		{"an error of a byte a second", func(r *http.Request) *http.Response {
			return answer(412, id(), &slow{ctx: r.Context(), more: " "})
		}, false},
		{"a compressed answer", func(r *http.Request) *http.Response {
			header := id()
			header.Set("Content-Encoding", "gzip")
			return answer(200, header, strings.NewReader("<R/>"))
		}, true},
		{"a header of 11 MB", func(r *http.Request) *http.Response {
			return answer(412, http.Header{"X": {times(11<<20, "x")}}, strings.NewReader(""))
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, op := range operations() {
				hasNoBody := strings.HasSuffix(op.name, " Stat") || strings.HasSuffix(op.name, " Exists")
				isObject := op.name == "s3bucket Get" || op.name == "s3bucket ReadAll" || op.name == "s3store Get"
				if hasNoBody || isObject && c.objects {
					continue
				}
				every(t, []operation{op}, c.answer, wantUnknown)
			}
		})
	}
}

// TestEndlessListings: pages that lead to themselves, round in circles, to nothing, or
// to ever more keys come to an end.
func TestEndlessListings(t *testing.T) {
	var n atomic.Int64
	for _, c := range []struct {
		name string
		slow time.Duration
		many bool
		page func(n int64) (keys []string, token string)
	}{
		{"one token", 0, false, func(int64) ([]string, string) { return []string{"a"}, "again" }},
		{"a circle of 1000", 0, false, func(n int64) ([]string, string) { return []string{"a"}, fmt.Sprint(n % 1000) }},
		{"no token", 0, false, func(int64) ([]string, string) { return []string{"a"}, "" }},
		{"keys for ever", 100 * time.Millisecond, true, func(n int64) ([]string, string) {
			var keys []string
			for i := range 1000 {
				keys = append(keys, fmt.Sprintf("%06d-%03d-%s", n, i, times(180, "x")))
			}
			return keys, fmt.Sprint(n)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, op := range operations() {
				if !strings.HasSuffix(op.name, " List") {
					continue
				}
				if c.many && op.name != "s3store List" && op.name != "dynamostore List" {
					continue // the same code, and many pages; and a stream of objects need not be kept
				}
				n.Store(0)
				every(t, []operation{op}, func(r *http.Request) *http.Response {
					// Enough for a bound to be met, and to spare no time for pages without one.
					time.Sleep(c.slow)
					keys, token := c.page(n.Add(1))
					return answer(200, id(), strings.NewReader(page(r, keys, token)))
				}, func(t *testing.T, op operation, r result) {
					if r.err == nil || r.err.Error() == "the listing had no end" || c.slow > 0 && op.name == "s3store List" && !strings.Contains(r.err.Error(), "the names take more than") {
						t.Errorf("got %v", r.err)
					}
				})
			}
		})
	}
}

// page is a page of a listing, as the service shows it that r asks.
func page(r *http.Request, keys []string, token string) string {
	var b strings.Builder
	switch {
	case r.Header.Get("X-Amz-Target") != "":
		b.WriteString(`{"Items":[`)
		for i, key := range keys {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `{"key":{"S":%q}}`, key)
		}
		fmt.Fprintf(&b, `],"LastEvaluatedKey":{"part":{"S":"0"},"key":{"S":%q}}}`, token)
	case r.URL.Query().Has("versions"):
		fmt.Fprintf(&b, "<R><IsTruncated>true</IsTruncated><NextKeyMarker>%s</NextKeyMarker><NextVersionIdMarker>%[1]s</NextVersionIdMarker>", token)
		for _, key := range keys {
			fmt.Fprintf(&b, "<DeleteMarker><Key>%s!!</Key><VersionId>1</VersionId></DeleteMarker><Version><Key>%[1]s!!</Key><VersionId>null</VersionId></Version>", key)
		}
		b.WriteString("</R>")
	case r.URL.Query().Has("list-type"):
		fmt.Fprintf(&b, "<R><IsTruncated>true</IsTruncated><NextContinuationToken>%s</NextContinuationToken>", token)
		for _, key := range keys {
			fmt.Fprintf(&b, "<Contents><Key>%s.json</Key><Size>1000</Size></Contents>", key)
		}
		b.WriteString("</R>")
	}
	return b.String()
}

// TestEndlessVersions: an object with more versions than can be read is reported.
func TestEndlessVersions(t *testing.T) {
	n := 0
	for _, op := range s3Operations() {
		if op.name != "s3verstore Get" && op.name != "s3verstore List" {
			continue
		}
		n = 0
		every(t, []operation{op}, func(r *http.Request) *http.Response {
			var b strings.Builder
			n++
			fmt.Fprintf(&b, "<R><IsTruncated>true</IsTruncated><NextKeyMarker>k!!</NextKeyMarker><NextVersionIdMarker>%d</NextVersionIdMarker>", n)
			for i := range 1000 {
				fmt.Fprintf(&b, "<Version><Key>k!!</Key><VersionId>%d-%d-%s</VersionId></Version>", n, i, times(1000, "v"))
			}
			return answer(200, id(), strings.NewReader(b.String()+"</R>"))
		}, func(t *testing.T, op operation, r result) {
			if !errors.Is(r.err, store.ErrUnsafe) {
				t.Errorf("got %v, want that there are too many versions", r.err)
			}
		})
	}
}

// TestHostileNames: names in a listing that no program of ours made are passed over,
// and never come to the caller raw.
func TestHostileNames(t *testing.T) {
	names := []string{"../../etc/passwd", "/etc/passwd", "a//b", "a\x1b[31m", "%1b%5b31m", "%00", "%zz", "..", ".", "", "a\nb", "\u202eevil", times(3000, "x")}
	for _, op := range operations() {
		if !strings.HasPrefix(op.name, "s3") || !strings.HasSuffix(op.name, "store List") && !strings.HasSuffix(op.name, "bucket List") {
			continue
		}
		for _, name := range names {
			r := run(t, op, func(r *http.Request) (*http.Response, error) {
				if resp := canned(r); resp != nil {
					return resp, nil
				}
				body := strings.Replace(page(r, []string{"NAME"}, ""), "<IsTruncated>true</IsTruncated>", "<IsTruncated>false</IsTruncated><EncodingType>url</EncodingType>", 1)
				escaped := strings.NewReplacer("&", "&amp;", "<", "&lt;", "\x1b", "&#27;").Replace(name)
				return answer(200, id(), strings.NewReader(strings.ReplaceAll(body, "NAME", escaped))), nil
			})
			if r.err != nil && strings.ContainsAny(r.err.Error(), "\x1b\n\x00\u202e") {
				t.Errorf("%s: %q came raw in %q", op.name, name, r.err)
			}
		}
	}
}

var _ io.Reader = (*slow)(nil)
