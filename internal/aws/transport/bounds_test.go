package transport_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/holdfast-go/holdfast/internal/aws/transport"
)

// forever is a text that begins with one and continues with another, without an end.
type forever struct {
	head, more string
	rest       string
}

func (f *forever) Read(p []byte) (int, error) {
	for n := 0; ; {
		n += copy(p[n:], f.head)
		f.head = f.head[min(n, len(f.head)):]
		n0 := copy(p[n:], f.rest)
		f.rest = f.rest[n0:]
		if n += n0; n == len(p) {
			return n, nil
		}
		f.rest = times(1+4096/len(f.more), f.more)
	}
}

func times(n int, text string) string { return strings.Repeat(text, n) }

// TestBounds: what is larger than any honest answer ends with an error, and what is as
// large as one can be is read.
func TestBounds(t *testing.T) {
	const kib, mib = 1 << 10, 1 << 20
	documents, streams, others := transport.ExpectDocument, transport.ExpectStream, func(ctx context.Context) context.Context { return ctx }
	items := func(ctx context.Context) context.Context { return transport.ExpectItems(documents(ctx), 400*kib) }
	long := times(1024, "&#x7F;")
	for _, c := range []struct {
		name   string
		expect func(context.Context) context.Context
		target string // of DynamoDB
		status int
		body   io.Reader
		want   string // part of the error; empty: it is read
	}{
		{"a page of the longest keys", documents, "", 200, strings.NewReader("<R>" + times(1000, "<Contents><Key>"+long+"</Key></Contents>") + "</R>"), ""},
		{"a page of the most fields", documents, "", 200, strings.NewReader("<R>" + times(1000, "<V>"+times(12, "<F a='1' b=\"2\">x</F>")+"<G/></V>") + "</R>"), ""},
		{"an endless page", documents, "", 200, &forever{head: "<R>", more: "<Key>" + times(500, "x") + "</Key>"}, "more than 8388608 bytes"},
		{"an endless tag", documents, "", 200, &forever{head: "<R>", more: "<Key "}, "tag of more than"},
		{"endless attributes", documents, "", 200, &forever{head: "<R", more: " a='>'"}, "tag of more than"},
		{"an endless text", documents, "", 200, &forever{head: "<R>", more: "x"}, "text of more than"},
		{"endless white space", documents, "", 200, &forever{more: " "}, "text of more than"},
		{"endless elements", documents, "", 200, &forever{head: "<R>", more: "<a/>"}, "more than 50000 elements"},
		{"endless depth", documents, "", 200, &forever{more: "<a>"}, "32 deep"},
		{"depth behind comments", documents, "", 200, &forever{more: "<a><!--</a>-->"}, "32 deep"},
		{"an endless declaration", documents, "", 200, &forever{head: "<!DOCTYPE a [", more: "<!ENTITY a 'b'>"}, "more than 50000 elements"},

		{"a page of the smallest items", documents, "D.Query", 200, strings.NewReader(`{"Items":[` + times(29_000, `{"key":{"S":"k"}},`) + `{}]}`), ""},
		{"an item of the largest size", documents, "D.GetItem", 200, strings.NewReader(`{"Item":{"value":{"B":"` + times(534*kib, "A") + `"}}}`), ""},
		{"a refusal with such an item", documents, "D.PutItem", 400, strings.NewReader(`{"Item":{"value":{"B":"` + times(534*kib, "A") + `"}}}`), ""},
		{"an item of texts that are empty", items, "D.GetItem", 200, strings.NewReader(`{"Item":{"v":{"L":[` + times(399*kib, `{"S":""},`) + `{"S":""}]}}}`), ""},
		{"an item of sets of an empty text", items, "D.GetItem", 200, strings.NewReader(`{"Item":{"v":{"L":[` + times(399*kib, `{"SS":[""]},`) + `{"SS":[""]}]}}}`), ""},
		{"an item of control characters", items, "D.GetItem", 200, strings.NewReader(`{"Item":{"v":{"S":"` + times(399*kib, `\u0001`) + `"}}}`), ""},
		{"an endless list of items", items, "D.Scan", 200, &forever{head: `{"Items":[`, more: "{},"}, "more than 1328800 values"},
		{"an endless item", items, "D.Scan", 200, &forever{head: `{"Items":"`, more: "x"}, "more than 7012352 bytes"},
		{"an endless list", documents, "D.Query", 200, &forever{head: `{"Items":[`, more: "{},"}, "more than 100000 values"},
		{"an endless string", documents, "D.Query", 200, &forever{head: `{"Items":"`, more: `{[\"`}, "more than 2097152 bytes"},
		{"5 million deep", documents, "D.Query", 200, strings.NewReader(times(5_000_000, "[") + times(5_000_000, "]")), "100 deep"},
		{"deep and shallow by turns", documents, "D.Query", 200, strings.NewReader(times(101, "[") + times(101, "]")), "100 deep"},
		{"a line of 300 MB", documents, "D.Query", 200, io.LimitReader(&forever{more: "x"}, 300*mib), "more than 2097152 bytes"},

		{"an endless error", documents, "", 403, &forever{head: "<Error><Code>", more: "x"}, "more than 262144 bytes"},
		{"an endless error on a stream", streams, "", 404, &forever{more: "<a>"}, "more than 262144 bytes"},
		{"a page of a proxy as error", documents, "", 502, strings.NewReader("<html>" + times(1000, "<div><br>it's") + "</html>"), ""},
		{"a large object", streams, "", 200, io.LimitReader(&forever{more: "<"}, 20*mib), ""},
		{"endless credentials", others, "", 200, &forever{more: "{"}, "more than 262144 bytes"},
		{"a body where there is none", documents, "", 204, strings.NewReader("x"), "more than 0 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			// In pieces, since a scan must not depend on where one ends.
			for _, name := range []string{"whole", "in pieces"} {
				body := c.body
				if name == "in pieces" {
					seeker, ok := c.body.(io.Seeker)
					if !ok {
						return
					}
					if _, err := seeker.Seek(0, io.SeekStart); err != nil {
						t.Fatal(err)
					}
					body = iotest.HalfReader(c.body)
				}
				client := transport.Guard(&http.Client{Transport: answers(func(*http.Request) (*http.Response, error) {
					return answer(c.status, nil, body), nil
				})}, nil)
				r, err := http.NewRequestWithContext(c.expect(t.Context()), http.MethodPost, "http://localhost", nil)
				if err != nil {
					t.Fatal(err)
				}
				if c.target != "" {
					r.Header.Set("X-Amz-Target", c.target)
				}
				resp, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				_, err = io.Copy(io.Discard, resp.Body)
				checkBound(t, name, err, c.want)
			}
		})
	}
}

func checkBound(t *testing.T, name string, err error, want string) {
	t.Helper()
	var bound *transport.BoundError
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: %v", name, err)
	case want != "" && (!errors.As(err, &bound) || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: got %v, want a bound that tells %q", name, err, want)
	}
}

// TestLengths: a body that is not as long as the header says is damaged.
func TestLengths(t *testing.T) {
	for _, c := range []struct {
		name   string
		method string
		length int64
		body   string
		want   string
	}{
		{"as it says", "GET", 4, "body", ""},
		{"it does not say", "GET", -1, "body", ""},
		{"too short", "GET", 5, "body", "ends after 4 of the 5 bytes"},
		{"too long", "GET", 3, "body", "longer than the 3 bytes"},
		{"to a HEAD", "HEAD", 5, "", ""},
	} {
		for expect, context := range map[string]func(context.Context) context.Context{"document": transport.ExpectDocument, "stream": transport.ExpectStream} {
			client := transport.Guard(&http.Client{Transport: answers(func(*http.Request) (*http.Response, error) {
				resp := answer(http.StatusOK, nil, strings.NewReader(c.body))
				resp.ContentLength = c.length
				return resp, nil
			})}, nil)
			r, err := http.NewRequestWithContext(context(t.Context()), c.method, "http://localhost", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_, err = io.Copy(io.Discard, resp.Body)
			checkBound(t, c.name+", a "+expect, err, c.want)
		}
	}
	// What is announced beyond a bound is not even begun.
	client := transport.Guard(&http.Client{Transport: answers(func(*http.Request) (*http.Response, error) {
		resp := answer(http.StatusForbidden, nil, strings.NewReader(""))
		resp.ContentLength = 1 << 40
		return resp, nil
	})}, nil)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Do(r)
	checkBound(t, "announced", err, "1099511627776 bytes")
}

// TestHeaders: the header of an answer is bounded, by the client itself where it is
// ours, and behind any other.
func TestHeaders(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for i := range 2 * transport.MaxHeader / 100 {
			w.Header().Set(fmt.Sprintf("X-%d", i), times(100, "x"))
		}
	}))
	defer server.Close()
	for name, inner := range map[string]transport.Doer{"ours": transport.New(), "another": http.DefaultClient} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := transport.Guard(inner, nil).Do(r)
		if err == nil {
			resp.Body.Close()
			t.Errorf("%s: a header of %d bytes was read", name, 2*transport.MaxHeader)
		}
	}
}
