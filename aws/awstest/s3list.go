package awstest

import (
	"cmp"
	"encoding/xml"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

type s3Contents struct {
	Key          string
	LastModified string
	ETag         string
	Size         int
}

type s3Prefix struct{ Prefix string }

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
		CommonPrefixes        []s3Prefix
	}{Name: r.bucket, EncodingType: r.query.Get("encoding-type")}
	prefix, delimiter := r.query.Get("prefix"), r.query.Get("delimiter")
	for _, key := range keys {
		if !strings.HasPrefix(key, prefix) || key <= after || delimiter != "" && strings.HasSuffix(after, delimiter) && strings.HasPrefix(key, after) {
			continue
		}
		common := ""
		if first, _, found := strings.Cut(key[len(prefix):], delimiter); found && delimiter != "" {
			common = prefix + first + delimiter
			if n := len(result.CommonPrefixes); n > 0 && result.CommonPrefixes[n-1].Prefix == escape(common) {
				continue
			}
		}
		if len(result.Contents)+len(result.CommonPrefixes) == size {
			result.IsTruncated = true
			break
		}
		if common != "" {
			result.NextContinuationToken = common
			result.CommonPrefixes = append(result.CommonPrefixes, s3Prefix{escape(common)})
			continue
		}
		o := b.current(key)
		if o == nil {
			o = &s3Object{} // a stale listing
		}
		result.NextContinuationToken = key
		result.Contents = append(result.Contents, s3Contents{escape(key), isoTime(o.modified), o.etag, len(o.body)})
	}
	if !result.IsTruncated {
		result.NextContinuationToken = ""
	}
	result.KeyCount = len(result.Contents)
	return answerXML(result)
}

// isoTime is how listings write a time.
func isoTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// listUploads answers with the uploads that are neither completed nor aborted, ordered by
// key and then by id.
func (s *S3) listUploads(r s3Request, b *s3Bucket) *http.Response {
	type upload struct{ Key, UploadId, Initiated string }
	result := struct {
		XMLName            xml.Name `xml:"ListMultipartUploadsResult"`
		IsTruncated        bool
		EncodingType       string `xml:",omitempty"`
		NextKeyMarker      string `xml:",omitempty"`
		NextUploadIdMarker string `xml:",omitempty"`
		Upload             []upload
	}{EncodingType: "url"}
	var ids []string
	for id, u := range b.uploads {
		if prefix := r.query.Get("prefix"); s.Broken.UploadsOfKey && prefix != "" && prefix != u.key {
			continue
		}
		after := [2]string{r.query.Get("key-marker"), r.query.Get("upload-id-marker")}
		if strings.HasPrefix(u.key, r.query.Get("prefix")) && (u.key > after[0] || u.key == after[0] && id > after[1]) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(x, y string) int {
		return cmp.Or(strings.Compare(b.uploads[x].key, b.uploads[y].key), strings.Compare(x, y))
	})
	if size := cmp.Or(s.PageSize, 1000); len(ids) > size {
		ids, result.IsTruncated = ids[:size], true
		result.NextKeyMarker, result.NextUploadIdMarker = url.QueryEscape(b.uploads[ids[size-1]].key), ids[size-1]
	}
	for _, id := range ids {
		result.Upload = append(result.Upload, upload{url.QueryEscape(b.uploads[id].key), id, isoTime(b.uploads[id].started)})
	}
	return answerXML(result)
}

// listParts answers with the parts of an upload.
func (s *S3) listParts(r s3Request, u *s3Upload) *http.Response {
	type part struct {
		PartNumber         int
		LastModified, ETag string
		Size               int
	}
	result := struct {
		XMLName              xml.Name `xml:"ListPartsResult"`
		IsTruncated          bool
		NextPartNumberMarker int `xml:",omitempty"`
		Part                 []part
	}{}
	after, _ := strconv.Atoi(r.query.Get("part-number-marker"))
	for _, n := range slices.Sorted(maps.Keys(u.parts)) {
		if n <= after {
			continue
		}
		if len(result.Part) == cmp.Or(s.PageSize, 1000) {
			result.IsTruncated = true
			break
		}
		p := u.parts[n]
		result.NextPartNumberMarker = n
		result.Part = append(result.Part, part{n, isoTime(p.modified), etagOf(p.body), len(p.body)})
	}
	return answerXML(result)
}
