package awstest

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// nullVersion is the id of what was put while versioning was not enabled.
const nullVersion = "null"

// place gives a version its place, as the newest of its key.
func (s *S3) place(b *s3Bucket, key string, o *s3Object) {
	s.stale = b.keys()
	s.ids++
	o.modified = s.now().Add(s.Broken.LastModifiedSkew).Truncate(time.Second)
	switch {
	case s.Versioning != "Enabled":
		o.id = nullVersion
		b.remove(key, nullVersion)
	case s.ULIDs:
		o.id = fmt.Sprintf("01ABCDEF%018d", s.ids)
	default:
		o.id = fmt.Sprintf("id%d", 1_000_000-s.ids) // in no order that helps
	}
	b.objects[key] = append(b.objects[key], o)
}

// version returns a version that is visible, or nil.
func (b *s3Bucket) version(key, id string) *s3Object {
	for _, o := range b.objects[key] {
		if o.id == id && !o.hidden {
			return o
		}
	}
	return nil
}

func (b *s3Bucket) remove(key string, ids ...string) {
	gone := make(map[string]bool, len(ids))
	for _, id := range ids {
		gone[id] = true
	}
	b.objects[key] = slices.DeleteFunc(b.objects[key], func(o *s3Object) bool { return gone[o.id] })
	if len(b.objects[key]) == 0 {
		delete(b.objects, key)
	}
}

// Version is one version of an object.
type Version struct {
	ID   string
	Body []byte
}

// Versions returns the visible versions of an object, the oldest version first.
func (s *S3) Versions(bucket, key string) (all []Version) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.buckets[bucket].objects[key] {
		if !o.hidden && !o.marker {
			all = append(all, Version{o.id, bytes.Clone(o.body)})
		}
	}
	return all
}

// PutMeta puts an object with metadata, as another program would, and returns the id of
// its version.
func (s *S3) PutMeta(bucket, key string, body []byte, meta map[string]string) (id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	header := http.Header{}
	for name, value := range meta {
		header.Set("X-Amz-Meta-"+name, value)
	}
	return s.store(s.buckets[bucket], key, body, header).id
}

// Delete deletes an object, as another program would.
func (s *S3) Delete(bucket, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delete(s3Request{Request: &http.Request{}, key: key}, s.buckets[bucket])
}

// Remove removes one version, as another program would.
func (s *S3) Remove(bucket, key, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buckets[bucket].remove(key, id)
}

// Reorder exchanges the places of the versions with the indexes i and j.
func (s *S3) Reorder(bucket, key string, i, j int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.buckets[bucket].objects[key]
	all[i], all[j] = all[j], all[i]
}

// SetVersioning changes the versioning of the buckets. Requests may be in progress.
func (s *S3) SetVersioning(status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Versioning = status
}

// s3Version is a row of a listing of versions.
type s3Version struct {
	XMLName      xml.Name
	Key          string
	VersionId    string
	LastModified string
	ETag         string `xml:",omitempty"`
	Size         int    `xml:",omitempty"`
}

func (s *S3) listVersions(r s3Request, b *s3Bucket) *http.Response {
	limit := cmp.Or(s.PageSize, 1000)
	if n, err := strconv.Atoi(r.query.Get("max-keys")); err == nil {
		limit = min(limit, n)
	}
	rows := b.rows(limit+1, r.query.Get("prefix"), r.query.Get("key-marker"), r.query.Get("version-id-marker"))
	if s.ListNothing != nil && s.ListNothing(Request{Op: r.op, URL: r.URL}) {
		rows = nil
	}
	result := struct {
		XMLName             xml.Name `xml:"ListVersionsResult"`
		IsTruncated         bool
		NextKeyMarker       string `xml:",omitempty"`
		NextVersionIdMarker string `xml:",omitempty"`
		Rows                []s3Version
	}{IsTruncated: len(rows) > limit, Rows: rows}
	if result.IsTruncated {
		result.Rows = rows[:limit]
		last := rows[limit-1]
		result.NextKeyMarker, result.NextVersionIdMarker = last.Key, last.VersionId
	}
	return answerXML(result)
}

// rows returns what a listing shows after a marker, up to limit rows: the keys in order,
// and of each the newest version first.
func (b *s3Bucket) rows(limit int, prefix, marker, id string) (rows []s3Version) {
	for _, key := range slices.Sorted(maps.Keys(b.objects)) {
		versions := b.objects[key]
		switch {
		case !strings.HasPrefix(key, prefix) || key < marker:
			continue
		case key == marker:
			// Only versions older than that of the marker; none if that no longer exists.
			versions = versions[:max(0, slices.IndexFunc(versions, func(o *s3Object) bool { return o.id == id }))]
		}
		for _, o := range slices.Backward(versions) {
			if o.hidden {
				continue
			}
			if len(rows) == limit {
				return rows
			}
			row := s3Version{xml.Name{Local: "Version"}, key, o.id, o.modified.UTC().Format(time.RFC3339), o.etag, len(o.body)}
			if o.marker {
				row.XMLName.Local = "DeleteMarker"
			}
			rows = append(rows, row)
		}
	}
	return rows
}

func (s *S3) deleteVersions(r s3Request, b *s3Bucket, body []byte) *http.Response {
	var in struct {
		Object []struct{ Key, VersionId string }
	}
	if err := xml.Unmarshal(body, &in); err != nil {
		return s.fail(r, http.StatusBadRequest, "MalformedXML")
	}
	ids := map[string][]string{}
	for _, o := range in.Object {
		ids[o.Key] = append(ids[o.Key], o.VersionId)
	}
	for key, ids := range ids {
		b.remove(key, ids...)
	}
	return respond(http.StatusOK, nil, []byte("<DeleteResult/>"))
}

// ExpireOld is a lifecycle rule that removes versions a day after they were replaced.
const ExpireOld = "<Rule><ID>x</ID><Status>Enabled</Status><Filter><Prefix></Prefix></Filter><NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration></Rule>"

func (s *S3) configuration(r s3Request) *http.Response {
	var body string
	switch {
	case r.op == "GetBucketVersioning" && s.Versioning != "":
		body = "<VersioningConfiguration><Status>" + s.Versioning + "</Status></VersioningConfiguration>"
	case r.op == "GetBucketVersioning":
		body = "<VersioningConfiguration/>"
	case r.op == "GetObjectLockConfiguration" && s.ObjectLock:
		body = "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention><Mode>GOVERNANCE</Mode><Days>3</Days></DefaultRetention></Rule></ObjectLockConfiguration>"
	case r.op == "GetObjectLockConfiguration":
		return s.fail(r, http.StatusNotFound, "ObjectLockConfigurationNotFoundError")
	case s.Lifecycle != "":
		body = "<LifecycleConfiguration>" + s.Lifecycle + "</LifecycleConfiguration>"
	default:
		return s.fail(r, http.StatusNotFound, "NoSuchLifecycleConfiguration")
	}
	return respond(http.StatusOK, nil, []byte(body))
}
