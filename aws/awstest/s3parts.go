package awstest

import (
	"bytes"
	"cmp"
	"crypto/md5"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// multipart serves the requests of uploads in parts.
func (s *S3) multipart(r s3Request, b *s3Bucket, body []byte) *http.Response {
	if r.op == "CreateMultipartUpload" {
		s.ids++
		id := fmt.Sprintf("upload-%d", s.ids)
		b.uploads[id] = &s3Upload{key: r.key, header: objectHeader(r.Header), started: s.now(), parts: make(map[int]s3Part)}
		return respond(http.StatusOK, nil, fmt.Appendf(nil,
			"<InitiateMultipartUploadResult><Bucket>%s</Bucket><Key>x</Key><UploadId>%s</UploadId></InitiateMultipartUploadResult>", r.bucket, id))
	}
	id := r.query.Get("uploadId")
	u := b.uploads[id]
	if u == nil || u.key != r.key {
		return s.fail(r, http.StatusNotFound, "NoSuchUpload")
	}
	switch r.op {
	case "AbortMultipartUpload":
		delete(b.uploads, id)
		return respond(http.StatusNoContent, nil, nil)
	case "ListParts":
		return s.listParts(r, u)
	case "UploadPart":
		return respond(http.StatusOK, http.Header{"Etag": {s.putPart(r, u, body)}}, nil)
	case "UploadPartCopy":
		from, resp := s.source(r)
		if resp != nil {
			return resp
		}
		first, end, ok := parseRange(r.Header.Get("X-Amz-Copy-Source-Range"), int64(len(from.body)))
		if !ok {
			return s.fail(r, http.StatusRequestedRangeNotSatisfiable, "InvalidRange")
		}
		part := *from
		part.etag = s.putPart(r, u, from.body[first:end])
		return respond(http.StatusOK, nil, copyResult("CopyPartResult", &part))
	}
	return s.complete(r, b, u, body)
}

// putPart keeps a part and returns its ETag.
func (s *S3) putPart(r s3Request, u *s3Upload, body []byte) string {
	n, _ := strconv.Atoi(r.query.Get("partNumber"))
	u.parts[n] = s3Part{bytes.Clone(body), s.now()}
	return etagOf(body)
}

func etagOf(body []byte) string {
	sum := md5.Sum(body)
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

func (s *S3) complete(r s3Request, b *s3Bucket, u *s3Upload, body []byte) *http.Response {
	var named struct {
		Part []struct {
			PartNumber int
			ETag       string
		}
	}
	if err := xml.Unmarshal(body, &named); err != nil || len(named.Part) == 0 {
		return s.fail(r, http.StatusBadRequest, "MalformedXML")
	}
	if resp := s.condition(r, b, u.key, s.Broken.IgnoreOnComplete, s.Broken.IgnoreOnComplete); resp != nil {
		return resp
	}
	var whole []byte
	sums := md5.New()
	for i, p := range named.Part {
		stored, ok := u.parts[p.PartNumber]
		part := stored.body
		if !ok || strings.Trim(etagOf(part), `"`) != strings.Trim(p.ETag, `"`) {
			return s.fail(r, http.StatusBadRequest, "InvalidPart")
		}
		if len(part) < cmp.Or(s.MinPart, 5<<20) && i < len(named.Part)-1 {
			return s.fail(r, http.StatusBadRequest, "EntityTooSmall")
		}
		whole = append(whole, part...)
		sum := md5.Sum(part)
		sums.Write(sum[:])
	}
	delete(b.uploads, r.query.Get("uploadId"))
	etag := fmt.Sprintf(`"%s-%d"`, hex.EncodeToString(sums.Sum(nil)), len(named.Part))
	if s.Broken.EqualETags {
		etag = fmt.Sprintf(`"%032x-%d"`, len(whole), len(named.Part))
	}
	o := s.storeAs(b, u.key, whole, u.header, etag)
	return respond(http.StatusOK, nil, fmt.Appendf(nil,
		"<CompleteMultipartUploadResult><Bucket>%s</Bucket><Key>x</Key><ETag>%s</ETag></CompleteMultipartUploadResult>", r.bucket, "&quot;"+o.etag[1:len(o.etag)-1]+"&quot;"))
}

// unchunk undoes the encoding in which the SDK sends a body with a checksum behind
// it: for each chunk its size in hexadecimal, the chunk, and in the end the trailer.
func unchunk(body []byte) []byte {
	var whole []byte
	for {
		line, rest, found := bytes.Cut(body, []byte("\r\n"))
		size, _, _ := bytes.Cut(line, []byte(";"))
		n, err := strconv.ParseInt(string(size), 16, 64)
		if !found || err != nil || n == 0 || n > int64(len(rest)) {
			return whole
		}
		whole = append(whole, rest[:n]...)
		body = bytes.TrimPrefix(rest[n:], []byte("\r\n"))
	}
}

// source returns what a copy takes its body from, or why it cannot.
func (s *S3) source(r s3Request) (*s3Object, *http.Response) {
	name, err := url.PathUnescape(strings.TrimPrefix(r.Header.Get("X-Amz-Copy-Source"), "/"))
	if err != nil {
		return nil, s.fail(r, http.StatusBadRequest, "InvalidArgument")
	}
	bucket, key, _ := strings.Cut(name, "/")
	var o *s3Object
	if b := s.buckets[bucket]; b != nil {
		o = b.current(key)
	}
	if o == nil {
		return nil, s.fail(r, http.StatusNotFound, "NoSuchKey")
	}
	if match := r.Header.Get("X-Amz-Copy-Source-If-Match"); match != "" && match != o.etag && !s.Broken.IgnoreCopySource {
		return nil, s.fail(r, http.StatusPreconditionFailed, "PreconditionFailed")
	}
	return o, nil
}

func (s *S3) copy(r s3Request, b *s3Bucket) *http.Response {
	from, resp := s.source(r)
	if resp == nil {
		resp = s.condition(r, b, r.key, s.Broken.IgnoreOnCopy, s.Broken.IgnoreOnCopy)
	}
	if h := s.Broken.CopyHeader; resp == nil && h != "" && r.Header.Get(h) != "" && b.current(r.key) != nil {
		resp = s.fail(r, s.Broken.CopyRefused, "AlreadyThere")
	}
	if resp != nil {
		return resp
	}
	if len(from.body) > cmp.Or(s.MaxCopy, 5<<30) {
		return s.failWith(r, http.StatusBadRequest, "InvalidRequest", "The specified copy source is larger than the maximum allowable size for a copy source: 5368709120")
	}
	header := from.header
	if r.Header.Get("X-Amz-Metadata-Directive") == "REPLACE" {
		header = objectHeader(r.Header)
	}
	o := s.store(b, r.key, from.body, header)
	return respond(http.StatusOK, nil, copyResult("CopyObjectResult", o))
}

func copyResult(name string, o *s3Object) []byte {
	return fmt.Appendf(nil, "<%s><ETag>%s</ETag><LastModified>%s</LastModified></%s>",
		name, strings.ReplaceAll(o.etag, `"`, "&quot;"), isoTime(o.modified), name)
}
