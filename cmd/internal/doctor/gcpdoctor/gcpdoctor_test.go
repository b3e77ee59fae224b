package gcpdoctor_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/internal/doctor/gcpdoctor"
	"github.com/holdfast-go/holdfast/gcp/gcsbucket"
)

// described is a server that only describes its bucket.
type described struct {
	status int
	text   string
}

func (d described) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet || r.URL.Path != "/storage/v1/b/b" {
		return nil, fmt.Errorf("a request %s %s", r.Method, r.URL.Path)
	}
	return &http.Response{StatusCode: d.status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(d.text)), Request: r}, nil
}

// TestSettings: what doctor says about each setting of a bucket, and that it leaves noncurrent
// versions where no rule deletes them.
func TestSettings(t *testing.T) {
	const noncurrent, current = `{"rule":[{"action":{"type":"Delete"},"condition":{"daysSinceNoncurrentTime":3}}]}`, `{"rule":[{"action":{"type":"Delete"},"condition":{"age":30}}]}`
	for _, tt := range []struct {
		name, settings, id string
		want               doctor.Result
		says               string
	}{
		{"retention", `{"retentionPolicy":{"retentionPeriod":"60","effectiveTime":"2026-01-01T00:00:00Z"}}`, "retention", doctor.Unsafe, "younger than 1m"},
		{"a hold", `{"defaultEventBasedHold":true}`, "retention", doctor.Unsafe, "hold"},
		{"no retention", `{}`, "retention", doctor.OK, "none"},
		{"versions", `{"versioning":{"enabled":true}}`, "versioning", doctor.Warning, "no rule"},
		{"versions that a rule deletes", `{"versioning":{"enabled":true},"lifecycle":` + noncurrent + `}`, "versioning", doctor.OK, "a rule deletes"},
		{"versions, and a rule for current objects", `{"versioning":{"enabled":true},"lifecycle":` + current + `}`, "versioning", doctor.Warning, "no rule"},
		{"a rule for current objects", `{"lifecycle":` + current + `}`, "lifecycle", doctor.Warning, "such a rule"},
		{"a rule for noncurrent objects", `{"lifecycle":` + noncurrent + `}`, "lifecycle", doctor.OK, "none"},
		{"soft delete", `{"softDeletePolicy":{"retentionDurationSeconds":"604800"}}`, "soft-delete", doctor.OK, "168h"},
		{"archive", `{"storageClass":"ARCHIVE"}`, "storage-class", doctor.Warning, "ARCHIVE"},
		{"standard", `{"storageClass":"STANDARD"}`, "storage-class", doctor.OK, "STANDARD"},
		{"others", `{"billing":{"requesterPays":true},"hierarchicalNamespace":{"enabled":true}}`, "bucket", doctor.OK, "the requester pays, hierarchical namespace"},
		{"no right", `{"error":{"code":403,"message":"no storage.buckets.get access","errors":[{"reason":"forbidden"}]}}`, "settings", doctor.NotTested, "storage.buckets.get"},
	} {
		status := http.StatusOK
		if strings.Contains(tt.settings, "403") {
			status = http.StatusForbidden
		}
		b, err := gcsbucket.New(t.Context(), "b", &gcsbucket.Options{Anonymous: true, Transport: described{status, tt.settings}})
		if err != nil {
			t.Fatal(err)
		}
		if left := gcpdoctor.Noncurrent(t.Context(), b); (len(left) > 0) != (tt.id == "versioning" && tt.want == doctor.Warning) {
			t.Errorf("%s: doctor says that it leaves %q", tt.name, left)
		}
		found := false
		for _, c := range gcpdoctor.Settings(t.Context(), b) {
			if c.ID == tt.id {
				found = true
				if c.Result != tt.want || !strings.Contains(c.Found, tt.says) {
					t.Errorf("%s: %s, %q; want %s, %q", tt.name, c.Result, c.Found, tt.want, tt.says)
				}
			}
		}
		if !found {
			t.Errorf("%s: no check %s", tt.name, tt.id)
		}
	}
}
