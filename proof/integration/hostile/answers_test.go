package hostile_test

import (
	"io"
	"net/http"
	"strings"
)

// answers is a server in the process of the test.
type answers func(r *http.Request) (*http.Response, error)

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

// answer is an answer with this body, and with a length that the header does not tell.
func answer(status int, header http.Header, body io.Reader) *http.Response {
	if header == nil {
		header = http.Header{}
	}
	return &http.Response{StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header, Body: io.NopCloser(body), ContentLength: -1}
}

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
