package s3verstore_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// bucket is a server with one versioned bucket, in the process of the test. A PUT is
// given its place in the order at one time and becomes visible at another, as its
// plan says.
type bucket struct {
	mu         sync.Mutex
	versioning string // "Enabled", "Suspended" or ""
	lock       bool
	lifecycle  string        // the XML of its rules
	latency    time.Duration // of every request
	page       int           // entries in a page; 0 means 1,000
	ids        int
	ulids      bool // ids that sort by time
	versions   []*stored
	requests   []request

	// plan decides what happens to a request; nil: nothing.
	plan func(request) plan

	// skip leaves objects out of a listing, as a server may while it removes
	// versions.
	skip func(request) bool

	// swap answers a request for a version with the newest.
	swap func(request) bool
}

// stored is one version.
type stored struct {
	key, id  string
	body     []byte
	etag     string
	meta     http.Header
	modified time.Time
	visible  bool
	gone     bool
	marker   bool
}

// request is one request.
type request struct {
	op, key, id string
	body        string
	header      http.Header
	query       map[string][]string
}

// plan is what happens to a request. A client that gives up does not stop it.
type plan struct {
	before  time.Duration // until a PUT is given its place
	hidden  time.Duration // from then until it is visible
	after   time.Duration // from then until the answer comes
	lose    bool          // the answer is lost
	drop    bool          // the request is lost
	twice   bool          // it is applied a second time
	between time.Duration // so long after the first
	early   time.Duration // the first of the two is hidden so long, in which nobody waits for it
	echo    time.Duration // so long after the answer it is applied once more
	status  int           // it is refused so
	code    string
}

// drain waits for what is still under way: a bubble must not end before.
func drain() { time.Sleep(10 * time.Minute) }

// dice is a source of random numbers for several goroutines.
type dice struct {
	mu  sync.Mutex
	src rand.Source
}

func newRand(seed, stream uint64) *rand.Rand {
	return rand.New(&dice{src: rand.NewPCG(seed, stream)})
}

func (d *dice) Uint64() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.src.Uint64()
}

func newBucket() *bucket { return &bucket{versioning: "Enabled"} }

func (b *bucket) client() *s3.Client { return b.clientBy(&http.Client{Transport: b}) }

// clientBy is a client whose requests c sends.
func (b *bucket) clientBy(c *http.Client) *s3.Client {
	return s3.New(s3.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String("http://s3.test"),
		UsePathStyle: true,
		Credentials:  credentials.NewStaticCredentialsProvider("TESTACCESSKEY", "test-secret-key", ""),
		HTTPClient:   c,
	})
}

// ops returns the operations of the requests since the last call.
func (b *bucket) ops() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ops []string
	for _, r := range b.requests {
		ops = append(ops, r.op)
	}
	b.requests = nil
	return ops
}

// setPlan changes the plan.
func (b *bucket) setPlan(f func(request) plan) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.plan = f
}

// put puts a version as another program would.
func (b *bucket) put(key, body string, meta map[string]string) *stored {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := http.Header{}
	for k, v := range meta {
		h.Set("x-amz-meta-"+k, v)
	}
	v := b.place(key, []byte(body), h)
	v.visible = true
	return v
}

// live returns the visible versions of a key, oldest first.
func (b *bucket) live(key string) (all []*stored) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, v := range b.versions {
		if v.key == key && v.visible && !v.gone {
			all = append(all, v)
		}
	}
	return all
}

func (b *bucket) remove(v *stored) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v.gone = true
}

var errReset = &net.OpError{Op: "read", Net: "tcp", Err: errors.New("connection reset by peer")}

// RoundTrip implements http.RoundTripper.
func (b *bucket) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r.Body.Close()
	}
	q := request{header: r.Header.Clone(), query: r.URL.Query(), body: string(body)}
	_, q.key, _ = strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	q.op = opOf(r.Method, q)
	q.id = r.URL.Query().Get("versionId")
	b.mu.Lock()
	b.requests = append(b.requests, q)
	var p plan
	if b.plan != nil {
		p = b.plan(q)
	}
	b.mu.Unlock()
	if p.drop {
		return nil, errReset
	}
	answer := make(chan *http.Response, 1)
	go func() {
		time.Sleep(p.before)
		var resp *http.Response
		if p.status != 0 {
			resp = failure(p.status, p.code)
		} else {
			if p.twice {
				if p.early > 0 {
					go b.serve(q, plan{hidden: p.early})
				} else {
					b.serve(q, p)
				}
				time.Sleep(p.between)
			}
			resp = b.serve(q, p)
		}
		time.Sleep(p.after + b.latency)
		answer <- resp
		if p.echo > 0 {
			time.Sleep(p.echo)
			b.serve(q, plan{})
		}
	}()
	select {
	case resp := <-answer:
		if p.lose {
			return nil, errReset
		}
		resp.Request = r
		if r.Method == http.MethodHead {
			resp.Body = http.NoBody
		}
		return resp, nil
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
}

func opOf(method string, q request) string {
	has := func(name string) bool { _, ok := q.query[name]; return ok }
	switch {
	case has("versions"):
		return "LIST"
	case has("versioning"):
		return "VERSIONING"
	case has("object-lock"):
		return "LOCK"
	case has("lifecycle"):
		return "LIFECYCLE"
	case has("delete"):
		return "DELETES"
	}
	return method
}

func (b *bucket) serve(q request, p plan) *http.Response {
	switch q.op {
	case "PUT":
		return b.servePut(q, p)
	case "GET", "HEAD":
		return b.serveGet(q)
	case "LIST":
		return b.serveList(q)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch q.op {
	case "DELETE":
		for _, v := range b.versions {
			if v.key == q.key && v.id == q.id {
				v.gone = true
			}
		}
		if q.id == "" {
			m := b.place(q.key, nil, nil)
			m.visible, m.marker = true, true
		}
		return respond(http.StatusNoContent, nil, nil)
	case "DELETES":
		return b.serveDeletes(q)
	case "VERSIONING":
		status := ""
		if b.versioning != "" {
			status = "<Status>" + b.versioning + "</Status>"
		}
		return respond(200, nil, []byte("<VersioningConfiguration>"+status+"</VersioningConfiguration>"))
	case "LOCK":
		if !b.lock {
			return failure(404, "ObjectLockConfigurationNotFoundError")
		}
		return respond(200, nil, []byte("<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>"))
	case "LIFECYCLE":
		if b.lifecycle == "" {
			return failure(404, "NoSuchLifecycleConfiguration")
		}
		return respond(200, nil, []byte("<LifecycleConfiguration>"+b.lifecycle+"</LifecycleConfiguration>"))
	}
	return failure(http.StatusNotImplemented, "NotImplemented")
}

// place gives a version its place. The caller holds the lock.
func (b *bucket) place(key string, body []byte, meta http.Header) *stored {
	b.ids++
	v := &stored{key: key, id: fmt.Sprintf("id%d", 1e6-b.ids), body: body, etag: etag(body), meta: meta, modified: time.Now()}
	if b.ulids {
		v.id = fmt.Sprintf("01ABCDEF%018d", b.ids)
	}
	if b.versioning != "Enabled" {
		v.id = "null"
		for _, old := range b.versions {
			if old.key == key && old.id == "null" {
				old.gone = true
			}
		}
	}
	b.versions = append(b.versions, v)
	return v
}

func (b *bucket) servePut(q request, p plan) *http.Response {
	b.mu.Lock()
	v := b.place(q.key, []byte(q.body), q.header)
	status := b.versioning
	b.mu.Unlock()
	time.Sleep(p.hidden)
	b.mu.Lock()
	defer b.mu.Unlock()
	v.visible = true
	h := http.Header{"Etag": {v.etag}}
	if status == "Enabled" {
		h.Set("X-Amz-Version-Id", v.id)
	}
	return respond(200, h, nil)
}

func etag(body []byte) string {
	sum := md5.Sum(body)
	return strconv.Quote(hex.EncodeToString(sum[:]))
}

func (b *bucket) serveGet(q request) *http.Response {
	b.mu.Lock()
	defer b.mu.Unlock()
	any := b.swap != nil && b.swap(q)
	for _, v := range slices.Backward(b.versions) {
		if v.key != q.key || !v.visible || v.gone || q.id != "" && v.id != q.id && !any {
			continue
		}
		if v.marker {
			break
		}
		h := http.Header{"Etag": {v.etag}, "X-Amz-Version-Id": {v.id}}
		for name, values := range v.meta {
			if strings.HasPrefix(strings.ToLower(name), "x-amz-meta-") {
				h[http.CanonicalHeaderKey(name)] = slices.Clone(values)
			}
		}
		return respond(200, h, v.body)
	}
	if q.id != "" {
		return failure(404, "NoSuchVersion")
	}
	return failure(404, "NoSuchKey")
}

type listed struct {
	XMLName      xml.Name
	Key          string
	VersionId    string
	LastModified string
	ETag         string `xml:",omitempty"`
	Size         int    `xml:",omitempty"`
}

func (b *bucket) serveList(q request) *http.Response {
	b.mu.Lock()
	defer b.mu.Unlock()
	get := func(name string) string {
		if v := q.query[name]; len(v) > 0 {
			return v[0]
		}
		return ""
	}
	limit := cmp.Or(b.page, 1000)
	if n, err := strconv.Atoi(get("max-keys")); err == nil {
		limit = min(limit, n)
	}
	marker, id := get("key-marker"), get("version-id-marker")
	after := 0 // only versions of the marker before this one
	if id != "" {
		after = slices.IndexFunc(b.versions, func(v *stored) bool { return v.key == marker && v.id == id })
	}
	rows := b.rows(func(at int, v *stored) bool {
		return strings.HasPrefix(v.key, get("prefix")) && (v.key > marker || v.key == marker && at < after)
	})
	if b.skip != nil && b.skip(q) {
		rows = nil
	}
	truncated := len(rows) > limit
	var out bytes.Buffer
	out.WriteString("<ListVersionsResult>")
	if truncated {
		rows = rows[:limit]
		last := rows[limit-1]
		fmt.Fprintf(&out, "<NextKeyMarker>%s</NextKeyMarker><NextVersionIdMarker>%s</NextVersionIdMarker>", last.Key, last.VersionId)
	}
	fmt.Fprintf(&out, "<IsTruncated>%v</IsTruncated>", truncated)
	for _, row := range rows {
		text, _ := xml.Marshal(row)
		out.Write(text)
	}
	out.WriteString("</ListVersionsResult>")
	return respond(200, nil, out.Bytes())
}

// rows returns what a listing shows: the keys in order, the newest version first.
func (b *bucket) rows(pick func(at int, v *stored) bool) (rows []listed) {
	byKey := map[string][]listed{}
	for at, v := range slices.Backward(b.versions) {
		if !v.visible || v.gone || !pick(at, v) {
			continue
		}
		l := listed{xml.Name{Local: "Version"}, v.key, v.id, v.modified.UTC().Format(time.RFC3339), v.etag, len(v.body)}
		if v.marker {
			l.XMLName.Local = "DeleteMarker"
		}
		byKey[v.key] = append(byKey[v.key], l)
	}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		rows = append(rows, byKey[key]...)
	}
	return rows
}

func (b *bucket) serveDeletes(q request) *http.Response {
	var in struct {
		Object []struct{ Key, VersionId string }
	}
	if err := xml.Unmarshal([]byte(q.body), &in); err != nil {
		return failure(400, "MalformedXML")
	}
	gone := map[[2]string]bool{}
	for _, o := range in.Object {
		gone[[2]string{o.Key, o.VersionId}] = true
	}
	for _, v := range b.versions {
		v.gone = v.gone || gone[[2]string{v.key, v.id}]
	}
	b.versions = slices.DeleteFunc(b.versions, func(v *stored) bool { return v.gone && v.visible })
	return respond(200, nil, []byte("<DeleteResult/>"))
}

func failure(status int, code string) *http.Response {
	return respond(status, http.Header{"X-Amz-Request-Id": {"1"}}, fmt.Appendf(nil, "<Error><Code>%s</Code><Message>it was planned</Message></Error>", code))
}

func respond(status int, h http.Header, body []byte) *http.Response {
	if h == nil {
		h = http.Header{}
	}
	h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	h.Set("X-Amz-Request-Id", "1")
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
}
