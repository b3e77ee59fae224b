package transport

import (
	"context"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// The bounds of an answer. Sizes are in bytes. Each bound is several times as large as the largest answer
// of the real services.
const (
	// MaxHeader bounds the header.
	MaxHeader = 64 << 10

	// MaxError bounds the body of an answer with a status of 300 or more. This bound is not for
	// DynamoDB, because its error of a failed condition can contain an item.
	MaxError = 256 << 10

	// MaxXML bounds an answer of S3, such as a page of a listing. A page has 1,000 keys of 1 KiB each.
	// If the server escapes every byte, the page needs 6 MiB.
	MaxXML = 8 << 20

	// MaxJSON bounds an answer of DynamoDB. A page of a query has at most 1 MiB, and an item at most 400
	// KiB. [ExpectItems] sets a larger bound for items of the user.
	MaxJSON = 2 << 20

	// MaxOther bounds all other answers, such as the answers of services that give credentials.
	MaxOther = 256 << 10

	// MaxElements bounds the number of elements of an XML document. A listing has 1,000 versions with a
	// dozen elements each.
	MaxElements = 50_000

	// MaxXMLDepth bounds the nesting depth of XML elements.
	MaxXMLDepth = 32

	// MaxTag bounds a tag with its attributes, and MaxXMLText the text between two tags.
	MaxTag     = 4 << 10
	MaxXMLText = 64 << 10

	// MaxValues bounds the number of values in a JSON document. A page of the smallest items has fewer
	// than 90,000 values.
	MaxValues = 100_000

	// MaxJSONDepth bounds the nesting depth of JSON values. An item of DynamoDB may have 32 levels, and
	// each of them is two levels in JSON.
	MaxJSONDepth = 100
)

// BoundError says that an answer is damaged. The answer is too large, has another length than its header
// says, or has a form that the client did not request.
type BoundError struct{ Found string }

func (e *BoundError) Error() string { return "the answer is damaged: " + e.Found }

func damaged(format string, args ...any) error {
	return &BoundError{fmt.Sprintf(format, args...)}
}

// kind is what is expected as the body of a good answer.
type kind int

const (
	other kind = iota
	document
	stream
)

type kindKey struct{}

// ExpectDocument returns the context of a request for a document. The successful answer is XML from S3,
// or JSON from DynamoDB.
func ExpectDocument(ctx context.Context) context.Context {
	if ctx.Value(kindKey{}) == stream {
		return ctx
	}
	return context.WithValue(ctx, kindKey{}, document)
}

// ExpectStream returns the context of a request whose successful answer is an object of the user, of any
// size. The caller must bound what it reads.
func ExpectStream(ctx context.Context) context.Context {
	return context.WithValue(ctx, kindKey{}, stream)
}

type itemsKey struct{}

// ExpectItems returns the context of a request whose answer may contain items of the user. The items
// together have at most size bytes, as DynamoDB counts them. A byte can take up to 9 bytes in JSON, and
// count as up to 2 values. For example, an empty text in a list counts as one byte, and is {"S":""} with
// a comma in JSON.
func ExpectItems(ctx context.Context, size int64) context.Context {
	return context.WithValue(ctx, itemsKey{}, size)
}

// bound bounds the answer to r.
func bound(r *http.Request, resp *http.Response) (*http.Response, error) {
	fail := func(err error) (*http.Response, error) {
		if resp.Body != nil {
			resp.Body.Close()
		}
		return nil, err
	}
	size := 0
	for name, values := range resp.Header {
		for _, v := range values {
			size += len(name) + len(v) + len(": \r\n")
		}
	}
	if size > MaxHeader {
		return fail(damaged("its header has %d bytes, at most %d are read", size, MaxHeader))
	}
	if resp.Body == nil || resp.Body == http.NoBody {
		return resp, nil
	}
	b := &body{ReadCloser: resp.Body, limit: MaxOther, length: resp.ContentLength}
	if r.Method == http.MethodHead || resp.StatusCode == http.StatusNoContent || resp.StatusCode == http.StatusNotModified {
		b.length, b.limit = -1, 0 // there is none, whatever the header says
	}
	k, _ := r.Context().Value(kindKey{}).(kind)
	good := resp.StatusCode < http.StatusMultipleChoices
	isJSON := r.Header.Get("X-Amz-Target") != ""
	switch {
	case b.limit == 0:
	case k == document && isJSON: // a refusal may hold an item
		items, _ := r.Context().Value(itemsKey{}).(int64)
		b.limit, b.scan = MaxJSON+12*items, &jsonScan{limit: MaxValues + 3*int(items)}
		if sum := resp.Header.Get("X-Amz-Crc32"); sum != "" {
			// The SDK looks at it only where there is no error.
			b.sum, b.want = crc32.NewIEEE(), sum
		}
	case !good:
		b.limit = MaxError
	case k == stream:
		b.limit = -1
	case k == document:
		b.limit, b.scan = MaxXML, new(xmlScan)
	}
	if b.limit >= 0 {
		if e := resp.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") && e != "aws-chunked" {
			return fail(damaged("it is encoded as %.20q, which the request does not allow", e))
		}
		if resp.ContentLength > b.limit && b.limit > 0 {
			return fail(damaged("it has %d bytes, at most %d are read", resp.ContentLength, b.limit))
		}
	}
	resp.Body = b
	return resp, nil
}

// body is the body of an answer with a bound.
type body struct {
	io.ReadCloser
	limit  int64 // negative: none
	length int64 // that the header gives; negative: not given
	size   int64 // read so far
	scan   interface{ scan([]byte) error }
	sum    hash.Hash32 // nil: there is none to compare
	want   string
	err    error
}

func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p)
	b.size += int64(n)
	if b.sum != nil {
		b.sum.Write(p[:n])
	}
	switch {
	case b.limit >= 0 && b.size > b.limit:
		err = damaged("it has more than %d bytes", b.limit)
	case b.length >= 0 && b.size > b.length:
		err = damaged("it is longer than the %d bytes that it announces", b.length)
	case err == io.EOF && b.length >= 0 && b.size < b.length:
		err = damaged("it ends after %d of the %d bytes that it announces", b.size, b.length)
	case err == io.EOF && b.sum != nil && strconv.FormatUint(uint64(b.sum.Sum32()), 10) != b.want:
		err = damaged("its checksum is wrong")
	case b.scan != nil:
		if wrong := b.scan.scan(p[:n]); wrong != nil {
			err = wrong
		}
	}
	if err != nil && err != io.EOF {
		b.err = err
		if _, ok := err.(*BoundError); ok {
			n = 0
		}
	}
	return n, err
}
