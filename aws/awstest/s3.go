package awstest

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// S3Broken lists faults of a server. Each fault was found in a real server, or can come from a
// proxy.
type S3Broken struct {
	IgnoreIfNoneMatch bool // ignores If-None-Match of a PUT
	IgnoreIfMatch     bool // ignores If-Match of a PUT
	IgnoreIfMatchGone bool // a PUT with If-Match succeeds if there is no object, and creates it
	IgnoreOnDelete    bool
	IgnoreDeleteGone  bool // a DELETE with If-Match succeeds if there is no object
	IgnoreOnCopy      bool // ignores the conditions on the destination of a copy
	IgnoreCopySource  bool // ignores the conditions on the source of a copy

	// CopyHeader is the name of a header of a copy that has the meaning of If-None-Match: *.
	// CopyRefused is the status of the answer if the destination exists.
	CopyHeader       string
	CopyRefused      int
	IgnoreOnComplete bool // ignores the conditions of an upload in parts
	RefuseAndWrite   bool // answers 412 to a PUT, and writes the object
	MarkerExists     bool // a delete marker counts as an object for If-None-Match
	EqualETags       bool // an ETag depends only on the size
	StaleList        bool // a listing does not show the newest write
	NoConditions     bool // answers 501 to every condition of a write
	MixedReads       bool // the first GET after a write returns the earlier ETag
	BrokenOff        bool // every other GET breaks off in the middle of its body
	Cached           bool // answers have an Age header
	NoDate           bool // answers have no Date header
	UploadsOfKey     bool // a listing of uploads treats a non-empty prefix as a whole key

	// Skew is the difference between the clock of the server and the clock of this machine.
	// LastModifiedSkew is an additional difference in Last-Modified.
	Skew             time.Duration
	LastModifiedSkew time.Duration
}

// S3 is a stand-in for Amazon S3: an [http.RoundTripper]. It finds the bucket in the path or in
// the host name. Set its fields before the first request.
type S3 struct {
	server
	Broken S3Broken

	// Versioning is "Enabled" or "Suspended". It is "" if versioning was never enabled. While
	// versioning is enabled, the buckets keep versions and delete markers.
	Versioning string

	// ULIDs says that the ids of versions sort by their creation time.
	ULIDs bool

	// ObjectLock says that the buckets have Object Lock.
	ObjectLock bool

	// Lifecycle is the XML of the buckets' lifecycle rules, such as [ExpireOld].
	Lifecycle string

	// ListNothing selects listings of versions that get an empty answer, as a server may answer
	// while it removes versions. AnyBody picks requests for a single version that get the body of
	// the newest version.
	ListNothing, AnyBody func(Request) bool

	// PageSize bounds the pages of listings; 0 means 1,000.
	PageSize int

	// MinPart is the smallest size of a part of an upload, except the last part, in bytes; 0 means
	// 5 MiB.
	MinPart int

	// MaxCopy is the largest object that one request copies, in bytes; 0 means 5 GiB.
	MaxCopy int

	mu      sync.Mutex
	buckets map[string]*s3Bucket
	ids     int
	gets    int
	stale   []string // the keys of the last listing but one write
}

type s3Bucket struct {
	objects map[string][]*s3Object // the versions of each key in their order, oldest first
	uploads map[string]*s3Upload
}

// s3Object is one version of an object; the only one without versioning.
type s3Object struct {
	body     []byte
	etag     string
	modified time.Time
	header   http.Header // content type and metadata
	marker   bool
	id       string
	hidden   bool
	before   string // the ETag of the state before, until it was answered once
}

type s3Upload struct {
	key     string
	header  http.Header
	started time.Time
	parts   map[int]s3Part
}

type s3Part struct {
	body     []byte
	modified time.Time
}

// s3Host is the endpoint of the stand-in; a bucket may also stand before it.
const s3Host = "s3.test"

// NewS3 returns a server with these buckets.
func NewS3(buckets ...string) *S3 {
	s := &S3{buckets: make(map[string]*s3Bucket)}
	for _, name := range buckets {
		s.buckets[name] = &s3Bucket{objects: make(map[string][]*s3Object), uploads: make(map[string]*s3Upload)}
	}
	return s
}

// Client returns a client of the SDK that sends all requests to s.
func (s *S3) Client(opts ...func(*s3.Options)) *s3.Client {
	return s3.New(s3.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String("http://" + s3Host),
		UsePathStyle: true,
		Credentials:  credentials.NewStaticCredentialsProvider("TESTACCESSKEY", "test-secret-key", ""),
		HTTPClient:   &http.Client{Transport: s},
	}, opts...)
}

// Body returns the body of an object, or nil if there is no object.
func (s *S3) Body(bucket, key string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.buckets[bucket].current(key); o != nil {
		return bytes.Clone(o.body)
	}
	return nil
}

// Put puts an object, as another program would.
func (s *S3) Put(bucket, key string, body []byte) { s.PutMeta(bucket, key, body, nil) }

// Keys returns the keys of all objects of a bucket.
func (s *S3) Keys(bucket string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buckets[bucket].keys()
}

// Uploads returns the number of uploads in parts that are neither completed nor aborted.
func (s *S3) Uploads(bucket string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.buckets[bucket].uploads)
}

// newest returns the newest version that is visible; nil if there is none.
func (b *s3Bucket) newest(key string) *s3Object {
	for _, o := range slices.Backward(b.objects[key]) {
		if !o.hidden {
			return o
		}
	}
	return nil
}

// current is newest, if that is no delete marker.
func (b *s3Bucket) current(key string) *s3Object {
	if o := b.newest(key); o != nil && !o.marker {
		return o
	}
	return nil
}

func (b *s3Bucket) keys() []string {
	var keys []string
	for key := range b.objects {
		if b.current(key) != nil {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// s3Request is a request taken apart.
type s3Request struct {
	*http.Request
	op, bucket, key string
	query           url.Values
}

func parseS3(r *http.Request) s3Request {
	q := s3Request{Request: r, query: r.URL.Query()}
	path := strings.TrimPrefix(r.URL.Path, "/")
	if bucket, found := strings.CutSuffix(r.URL.Host, "."+s3Host); found {
		path = bucket + "/" + path
	}
	q.bucket, q.key, _ = strings.Cut(path, "/")
	q.op = q.name()
	return q
}

func (r s3Request) name() string {
	has := r.query.Has
	if r.key == "" {
		if r.Method == http.MethodHead {
			return "HeadBucket"
		}
		for _, of := range []struct{ parameter, op string }{
			{"versioning", "GetBucketVersioning"}, {"object-lock", "GetObjectLockConfiguration"}, {"lifecycle", "GetBucketLifecycleConfiguration"},
			{"uploads", "ListMultipartUploads"}, {"versions", "ListObjectVersions"}, {"delete", "DeleteObjects"},
		} {
			if has(of.parameter) {
				return of.op
			}
		}
		return "ListObjectsV2"
	}
	copied := r.Header.Get("X-Amz-Copy-Source") != ""
	switch {
	case r.Method == http.MethodPost && has("uploads"):
		return "CreateMultipartUpload"
	case r.Method == http.MethodPost:
		return "CompleteMultipartUpload"
	case r.Method == http.MethodPut && has("partNumber") && copied:
		return "UploadPartCopy"
	case r.Method == http.MethodPut && has("partNumber"):
		return "UploadPart"
	case r.Method == http.MethodPut && copied:
		return "CopyObject"
	case r.Method == http.MethodPut:
		return "PutObject"
	case r.Method == http.MethodGet && has("uploadId"):
		return "ListParts"
	case r.Method == http.MethodDelete && has("uploadId"):
		return "AbortMultipartUpload"
	case r.Method == http.MethodDelete:
		return "DeleteObject"
	case r.Method == http.MethodHead:
		return "HeadObject"
	}
	return "GetObject"
}

// RoundTrip implements [http.RoundTripper].
func (s *S3) RoundTrip(r *http.Request) (*http.Response, error) {
	q := parseS3(r)
	serve := func(body []byte, hide bool) (*http.Response, func()) { return s.serve(q, body, hide) }
	fail := func(status int, code string) *http.Response { return s.fail(q, status, code) }
	resp, err := s.carry(r, Request{Op: q.op, Key: q.key}, service{serve, fail})
	if err != nil {
		return nil, err
	}
	if s.Broken.Cached {
		resp.Header.Set("Age", "7")
	}
	resp.Header.Set("Date", s.now().UTC().Format(http.TimeFormat))
	if s.Broken.NoDate {
		resp.Header.Del("Date")
	}
	if r.Method == http.MethodHead {
		resp.Body = http.NoBody
	}
	return resp, nil
}

func (s *S3) now() time.Time { return time.Now().Add(s.Broken.Skew) }

func (s *S3) fail(r s3Request, status int, code string) *http.Response {
	return s.failWith(r, status, code, "this is a test: "+code)
}

func (s *S3) failWith(r s3Request, status int, code, message string) *http.Response {
	h := http.Header{"Content-Type": {"application/xml"}, "X-Test-Code": {code}}
	if r.Method == http.MethodHead || status == http.StatusNotModified {
		return respond(status, h, nil)
	}
	body, _ := xml.Marshal(struct {
		XMLName   xml.Name `xml:"Error"`
		Code      string
		Message   string
		RequestID string `xml:"RequestId"`
	}{Code: code, Message: message, RequestID: "TEST"})
	return respond(status, h, body)
}

// answerXML returns a good answer.
func answerXML(v any) *http.Response {
	body, _ := xml.Marshal(v) // structs: it cannot fail
	return respond(http.StatusOK, http.Header{"Content-Type": {"application/xml"}}, body)
}

// serve applies a request. With hide, the version that it puts is hidden until show is
// called.
func (s *S3) serve(r s3Request, body []byte, hide bool) (resp *http.Response, show func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.ids
	resp = s.apply(r, body)
	if !hide || r.op != "PutObject" || s.ids == before {
		return resp, nil
	}
	versions := s.buckets[r.bucket].objects[r.key]
	put := versions[len(versions)-1]
	put.hidden = true
	return resp, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		put.hidden = false
	}
}

func (s *S3) apply(r s3Request, body []byte) *http.Response {
	b := s.buckets[r.bucket]
	if b == nil {
		return s.fail(r, http.StatusNotFound, "NoSuchBucket")
	}
	switch r.op {
	case "HeadBucket":
		return respond(http.StatusOK, nil, nil)
	case "GetBucketVersioning", "GetObjectLockConfiguration", "GetBucketLifecycleConfiguration":
		return s.configuration(r)
	case "ListObjectsV2":
		return s.list(r, b)
	case "ListMultipartUploads":
		return s.listUploads(r, b)
	case "ListObjectVersions":
		return s.listVersions(r, b)
	case "GetObject", "HeadObject":
		return s.get(r, b)
	case "DeleteObject":
		return s.delete(r, b)
	case "DeleteObjects":
		return s.deleteVersions(r, b, body)
	case "PutObject":
		return s.put(r, b, body)
	case "CopyObject":
		return s.copy(r, b)
	}
	return s.multipart(r, b, body)
}

// condition returns the failure of a write's condition, or nil.
func (s *S3) condition(r s3Request, b *s3Bucket, key string, ignoreMatch, ignoreNoneMatch bool) *http.Response {
	match, noneMatch := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	if s.Broken.NoConditions && match+noneMatch != "" {
		return s.fail(r, http.StatusNotImplemented, "NotImplemented")
	}
	current := b.current(key)
	exists := current != nil || s.Broken.MarkerExists && b.newest(key) != nil
	switch {
	case noneMatch != "" && !ignoreNoneMatch && exists:
		return s.fail(r, http.StatusPreconditionFailed, "PreconditionFailed")
	case match == "" || ignoreMatch:
	case current == nil:
		if !s.Broken.IgnoreIfMatchGone {
			return s.fail(r, http.StatusNotFound, "NoSuchKey")
		}
	case current.etag != match:
		return s.fail(r, http.StatusPreconditionFailed, "PreconditionFailed")
	}
	return nil
}

func (s *S3) put(r s3Request, b *s3Bucket, body []byte) *http.Response {
	if resp := s.condition(r, b, r.key, s.Broken.IgnoreIfMatch, s.Broken.IgnoreIfNoneMatch); resp != nil {
		if s.Broken.RefuseAndWrite {
			s.store(b, r.key, body, objectHeader(r.Header))
		}
		return resp
	}
	o := s.store(b, r.key, body, objectHeader(r.Header))
	h := http.Header{"Etag": {o.etag}}
	if s.Versioning == "Enabled" {
		h.Set("X-Amz-Version-Id", o.id)
	}
	return respond(http.StatusOK, h, nil)
}

func (s *S3) store(b *s3Bucket, key string, body []byte, header http.Header) *s3Object {
	etag := etagOf(body)
	if s.Broken.EqualETags {
		etag = fmt.Sprintf(`"%032x"`, len(body))
	}
	return s.storeAs(b, key, body, header, etag)
}

func (s *S3) storeAs(b *s3Bucket, key string, body []byte, header http.Header, etag string) *s3Object {
	o := &s3Object{body: bytes.Clone(body), etag: etag, header: header}
	if before := b.current(key); before != nil {
		o.before = before.etag
	}
	s.place(b, key, o)
	return o
}

var keptHeaders = []string{"Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language"}

// objectHeader is what is kept of the header of a request.
func objectHeader(h http.Header) http.Header {
	kept := http.Header{"Content-Type": {cmp.Or(h.Get("Content-Type"), "binary/octet-stream")}}
	for name, values := range h {
		switch {
		case name == "Content-Encoding" && values[0] == "aws-chunked": // of the request alone
		case slices.Contains(keptHeaders, name), strings.HasPrefix(name, "X-Amz-Meta-"):
			kept[name] = values
		}
	}
	return kept
}

func (s *S3) delete(r s3Request, b *s3Bucket) *http.Response {
	if b.current(r.key) == nil && r.Header.Get("If-Match") != "" && !s.Broken.NoConditions {
		if s.Broken.IgnoreDeleteGone {
			return respond(http.StatusNoContent, nil, nil)
		}
		return s.fail(r, http.StatusNotFound, "NoSuchKey")
	}
	if resp := s.condition(r, b, r.key, s.Broken.IgnoreOnDelete, true); resp != nil {
		return resp
	}
	switch id := r.query.Get("versionId"); {
	case id != "":
		b.remove(r.key, id)
	case s.Versioning == "":
		s.stale = b.keys()
		b.remove(r.key, nullVersion)
	default:
		s.place(b, r.key, &s3Object{marker: true})
	}
	return respond(http.StatusNoContent, nil, nil)
}

func (s *S3) get(r s3Request, b *s3Bucket) *http.Response {
	o := b.current(r.key)
	if id := r.query.Get("versionId"); id != "" && (s.AnyBody == nil || !s.AnyBody(Request{Op: r.op, Key: r.key, URL: r.URL})) {
		if o = b.version(r.key, id); o == nil || o.marker {
			return s.fail(r, http.StatusNotFound, "NoSuchVersion")
		}
	}
	if o == nil {
		resp := s.fail(r, http.StatusNotFound, "NoSuchKey")
		if newest := b.newest(r.key); newest != nil && newest.marker {
			resp.Header.Set("X-Amz-Delete-Marker", "true")
		}
		return resp
	}
	if match := r.Header.Get("If-Match"); match != "" && match != o.etag {
		return s.fail(r, http.StatusPreconditionFailed, "PreconditionFailed")
	}
	h := o.header.Clone()
	if h == nil {
		h = make(http.Header)
	}
	h.Set("Etag", o.etag)
	if s.Versioning != "" {
		h.Set("X-Amz-Version-Id", o.id)
	}
	if s.Broken.MixedReads && r.op == "GetObject" && o.before != "" {
		h.Set("Etag", o.before)
		o.before = ""
	}
	h.Set("Last-Modified", o.modified.UTC().Format(http.TimeFormat))
	if r.Header.Get("If-None-Match") == o.etag {
		return respond(http.StatusNotModified, h, nil)
	}
	from, to, ok := parseRange(r.Header.Get("Range"), int64(len(o.body)))
	if !ok {
		return s.fail(r, http.StatusRequestedRangeNotSatisfiable, "InvalidRange")
	}
	status := http.StatusOK
	if r.Header.Get("Range") != "" {
		status = http.StatusPartialContent
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, len(o.body)))
	}
	h.Set("Content-Length", strconv.FormatInt(to-from, 10))
	resp := respond(status, h, o.body[from:to])
	if s.gets++; s.Broken.BrokenOff && s.gets%2 == 1 && r.op == "GetObject" {
		resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(o.body[from:(from+to)/2]), brokenOff{}))
	}
	return resp
}

// brokenOff is the end of a body whose connection broke.
type brokenOff struct{}

func (brokenOff) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// parseRange returns the bytes that a Range header asks for, the end excluded.
func parseRange(header string, size int64) (from, to int64, ok bool) {
	spec, found := strings.CutPrefix(header, "bytes=")
	if !found {
		return 0, size, true
	}
	first, last, _ := strings.Cut(spec, "-")
	from, err := strconv.ParseInt(first, 10, 64)
	if err != nil || from >= size {
		return 0, 0, false
	}
	to = size
	if n, err := strconv.ParseInt(last, 10, 64); err == nil {
		to = min(n+1, size)
	}
	return from, to, true
}
