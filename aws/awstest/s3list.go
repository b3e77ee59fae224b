package awstest

import (
	"cmp"
	"encoding/xml"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

type s3Contents struct {
	Key          string
	LastModified string
	ETag         string
	Size         int
}

func (s *S3) list(r s3Request, b *s3Bucket) *http.Response {
	keys := b.keys()
	if s.Broken.StaleList {
		keys = s.stale
	}
	size := cmp.Or(s.PageSize, 1000)
	if n, err := strconv.Atoi(r.query.Get("max-keys")); err == nil {
		size = min(size, n)
	}
	after := cmp.Or(r.query.Get("continuation-token"), r.query.Get("start-after"))
	escape := func(key string) string { return key }
	if r.query.Get("encoding-type") == "url" {
		escape = func(key string) string { return strings.ReplaceAll(url.QueryEscape(key), "%2F", "/") }
	}
	result := struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		Name                  string
		IsTruncated           bool
		EncodingType          string `xml:",omitempty"`
		NextContinuationToken string `xml:",omitempty"`
		KeyCount              int
		Contents              []s3Contents
	}{Name: r.bucket, EncodingType: r.query.Get("encoding-type")}
	for _, key := range keys {
		if !strings.HasPrefix(key, r.query.Get("prefix")) || key <= after {
			continue
		}
		if len(result.Contents) == size {
			result.IsTruncated = true
			break
		}
		o := b.current(key)
		if o == nil {
			o = &s3Object{} // a stale listing
		}
		result.NextContinuationToken = key
		result.Contents = append(result.Contents, s3Contents{escape(key), o.modified.UTC().Format("2006-01-02T15:04:05.000Z"), o.etag, len(o.body)})
	}
	if !result.IsTruncated {
		result.NextContinuationToken = ""
	}
	result.KeyCount = len(result.Contents)
	body, _ := xml.Marshal(result)
	return respond(http.StatusOK, http.Header{"Content-Type": {"application/xml"}}, body)
}
