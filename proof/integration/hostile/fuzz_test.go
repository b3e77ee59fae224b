package hostile_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/aws/dynamostore"
	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/aws/s3store"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// whole makes an answer of a status, the lines of a header, and a body whose pieces are
// repeated, so that a small input makes a large answer.
func whole(status uint16, header, head, more string, repeated uint16, length int8) func(*http.Request) *http.Response {
	return func(*http.Request) *http.Response {
		lines := textproto.NewReader(bufio.NewReader(strings.NewReader(header + "\r\n\r\n")))
		h, _ := lines.ReadMIMEHeader()
		text := head
		if more != "" {
			text += times(int(repeated)%(16<<20/len(more)+1), more)
		}
		resp := answer(100+int(status%500), http.Header(h), strings.NewReader(text))
		switch {
		case length > 0:
			resp.ContentLength = int64(len(text)) + int64(length) - 64
		case length == 0:
			resp.ContentLength = int64(len(text))
		}
		if resp.ContentLength < -1 {
			resp.ContentLength = 0
		}
		return resp
	}
}

// checkAnswer: an answer, whatever it is, ends an operation in time and with little
// memory (which run checks), and a write is not said to be applied without a status
// that says so.
func checkAnswer(t *testing.T, op operation, status uint16, answer func(*http.Request) *http.Response) {
	t.Helper()
	broken := false
	r := run(t, op, func(r *http.Request) (*http.Response, error) {
		resp := answer(r)
		if n := resp.ContentLength; n >= 0 && r.Method != http.MethodHead {
			body, _ := io.ReadAll(resp.Body)
			resp.Body = io.NopCloser(bytes.NewReader(body))
			empty := resp.StatusCode == http.StatusNoContent || resp.StatusCode == http.StatusNotModified
			broken = broken || int64(len(body)) != n && !empty
		}
		return resp, nil
	})
	good := 100+int(status%500) >= 200 && 100+int(status%500) < 300
	if r.wrote && r.err == nil && (!good || broken) {
		t.Errorf("%s: it is said to be applied after an answer with status %d, broken: %v", op.name, 100+int(status%500), broken)
	}
	if r.wrote && broken && store.OutcomeOf(r.err) != store.Unknown {
		t.Errorf("%s: after an answer that is not as long as it says the outcome is %v: %v", op.name, store.OutcomeOf(r.err), r.err)
	}
}

// FuzzS3Answers answers every request of every client of S3 with one answer.
func FuzzS3Answers(f *testing.F) {
	ok := "X-Amz-Request-Id: 1\r\nETag: \"0123456789abcdef0123456789abcdef\"\r\nDate: Sat, 21 Nov 2026 10:00:00 GMT"
	for op := range uint8(len(s3Operations())) {
		f.Add(op, uint16(100), ok, "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>a</NextContinuationToken>", "<Contents><Key>a.json</Key></Contents>", uint16(60000), int8(-1))
	}
	f.Add(uint8(6), uint16(100), ok, "", "", uint16(0), int8(0))
	f.Add(uint8(6), uint16(312), ok, "<Error><Code>PreconditionFailed</Code></Error>", "", uint16(0), int8(0))
	f.Add(uint8(6), uint16(312), ok, "<Error><Code>PreconditionFailed</Code></Error>", "", uint16(0), int8(100))
	f.Add(uint8(7), uint16(100), ok, "<html>", "<a b='c'>", uint16(65535), int8(-1))
	f.Add(uint8(8), uint16(100), ok, "<CopyObjectResult><ETag>&quot;a&quot;</ETag></CopyObjectResult>", " ", uint16(65535), int8(-1))
	f.Add(uint8(0), uint16(106), ok+"\r\nContent-Range: bytes 0-1/-5", "ab", "", uint16(0), int8(0))
	f.Add(uint8(13), uint16(100), ok, "<R><IsTruncated>true</IsTruncated><NextKeyMarker>a</NextKeyMarker>", "<Version><Key>a!!</Key><VersionId>1</VersionId></Version>", uint16(9000), int8(-1))
	f.Add(uint8(5), uint16(100), ok, "<LifecycleConfiguration>", "<Rule><Status>Enabled</Status></Rule>", uint16(65535), int8(-1))
	f.Fuzz(func(t *testing.T, which uint8, status uint16, header, head, more string, repeated uint16, length int8) {
		ops := s3Operations()
		checkAnswer(t, ops[int(which)%len(ops)], status, whole(status, header, head, more, repeated, length))
	})
}

// FuzzDynamoDBAnswers answers every request of the client of DynamoDB, and those that
// set up its table, with one answer.
func FuzzDynamoDBAnswers(f *testing.F) {
	ok := "X-Amzn-Requestid: 1\r\nContent-Type: application/x-amz-json-1.0"
	for op := range uint8(len(dynamoOperations())) {
		f.Add(op, uint16(100), ok, `{"Items":[`, `{"key":{"S":"a"}},`, uint16(20000), int8(-1))
		f.Add(op, uint16(100), ok, `{"Table":{"TableStatus":"CREATING","KeySchema":[{"AttributeName":"part","KeyType":"HASH"},{"AttributeName":"key","KeyType":"RANGE"}],"AttributeDefinitions":[{"AttributeName":"part","AttributeType":"S"},{"AttributeName":"key","AttributeType":"S"}]}}`, "", uint16(0), int8(0))
		f.Add(op, uint16(300), ok, `{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","Item":{"version":{"S":"1-aaaaaaaaaaaa"},"value":{"S":"x"}}}`, "", uint16(0), int8(0))
		f.Add(op, uint16(300), ok, `{"__type":"ConditionalCheckFailedException"}`, "", uint16(0), int8(70))
		f.Add(op, uint16(100), ok+"\r\nContent-Encoding: gzip", "\x1f\x8b", "", uint16(0), int8(0))
		f.Add(op, uint16(100), ok, "", `{"L":[`, uint16(65535), int8(-1))
	}
	f.Fuzz(func(t *testing.T, which uint8, status uint16, header, head, more string, repeated uint16, length int8) {
		ops := dynamoOperations()
		checkAnswer(t, ops[int(which)%len(ops)], status, whole(status, header, head, more, repeated, length))
	})
}

// damage alters the answers to the requests it picks, as a network or a proxy might.
type damage struct {
	inner     http.RoundTripper
	on        bool
	keep      uint16 // so much of the body stays
	at        uint16 // the byte that is altered, by
	by        byte
	oldLength bool // the header gives the length from before
	drop      bool // the ETag
	n         int  // answers so far
}

func (d *damage) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := d.inner.RoundTrip(r)
	if err != nil || !d.on {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if len(body) > 0 {
		body = bytes.Clone(body)
		body[(int(d.at)+d.n)%len(body)] ^= d.by
		d.n++ // no damage comes twice in one place
		body = body[:min(int(d.keep), len(body))]
	}
	if d.drop {
		resp.Header.Del("Etag")
	}
	if !d.oldLength {
		resp.ContentLength = -1
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// FuzzDamagedWrites lets an honest server apply or refuse writes, and damages its
// answers: what is said of a write is the outcome of it, or that it is not known.
func FuzzDamagedWrites(f *testing.F) {
	for _, stale := range []bool{false, true} {
		for _, dynamo := range []bool{false, true} {
			f.Add(dynamo, stale, uint16(65535), uint16(0), byte(0), false, false)
			f.Add(dynamo, stale, uint16(65535), uint16(0), byte(0), true, true)
			f.Add(dynamo, stale, uint16(0), uint16(0), byte(0), true, false)
			f.Add(dynamo, stale, uint16(10), uint16(0), byte(0), false, false)
			f.Add(dynamo, stale, uint16(30), uint16(0), byte(0), true, false)
			for at := range uint16(40) {
				f.Add(dynamo, stale, uint16(65535), 3*at, byte(1), false, false)
			}
		}
	}
	f.Fuzz(func(t *testing.T, dynamo, stale bool, keep, at uint16, by byte, oldLength, drop bool) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			d := &damage{keep: keep, at: at, by: by, oldLength: oldLength, drop: drop}
			s := honest(t, d, dynamo)
			old, err := s.Put(ctx, "k", "", []byte("first"))
			if err != nil {
				t.Fatal(err)
			}
			prev := old
			if stale {
				if _, err := s.Put(ctx, "k", old, []byte("second")); err != nil {
					t.Fatal(err)
				}
			}
			d.on = true
			v, err := s.Put(ctx, "k", prev, []byte("mine"))
			d.on = false
			value, now, readErr := s.Get(t.Context(), "k")
			if readErr != nil {
				t.Fatal(readErr)
			}
			applied := string(value) == "mine"
			switch outcome := store.OutcomeOf(err); {
			case outcome == store.Applied && (!applied || v != now):
				t.Errorf("it is said to be applied as %q, and the register is %q, %q", v, value, now)
			case outcome == store.NotApplied && applied:
				t.Errorf("it is said not to be applied, and was: %v", err)
			case applied == stale:
				t.Errorf("applied: %v, in a test whose version is stale: %v", applied, stale)
			}
			var told *store.ConflictError
			if errors.As(err, &told) && told.HasCurrent && string(told.Value) != "second" {
				t.Errorf("the conflict has the value %q", told.Value)
			}
		})
	})
}

// honest returns a store whose requests go through d to a server that does all right.
func honest(t *testing.T, d *damage, dynamo bool) store.Store {
	t.Helper()
	if dynamo {
		server := awstest.NewDynamoDB()
		server.AddTable("table", "part", "key")
		d.inner = server
		s, err := dynamostore.New(server.Client(func(o *dynamodb.Options) { o.HTTPClient = &http.Client{Transport: d} }), "table", &dynamostore.Options{Trusted: true})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	d.inner = awstest.NewS3("bucket")
	b, err := s3bucket.New(s3Client(d), "bucket", &s3bucket.Options{AssumeAbilities: object.Abilities()})
	if err != nil {
		t.Fatal(err)
	}
	s, err := s3store.New(b, "", &s3store.Options{Trusted: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
