package s3verstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/internal/fold"
	"github.com/holdfast-go/holdfast/store"
)

// A bucket whose rules remove old versions is refused before anything is put, as doctor
// says; a rule for other prefixes, or one that may not be read, is not in the way.
func TestBucketThatExpiresVersionsIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		b.Lifecycle = awstest.ExpireOld
		s := open(t, b, nil)
		if _, err := s.Put(t.Context(), "k", "", nil); !errors.Is(err, store.ErrUnsafe) {
			t.Errorf("put: %v", err)
		}
		if _, _, err := s.Get(t.Context(), "k"); !errors.Is(err, store.ErrUnsafe) {
			t.Errorf("get: %v", err)
		}
		if keys := b.Keys("bucket"); len(keys) > 0 {
			t.Errorf("put: %q", keys)
		}
		b.Plan(refuse("GetBucketLifecycleConfiguration", 403, "AccessDenied"))
		mustPut(t, open(t, b, nil), "k", "", "1")
		b.Plan(nil)
		b.Lifecycle = "<Rule><ID>x</ID><Status>Enabled</Status><Filter><Prefix>other/</Prefix></Filter><NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration></Rule>"
		mustPut(t, openBelow(t, b, "app", nil), "l", "", "1")
	})
}

// A key whose versions were removed in part, so that it cannot be read, can be used again:
// what is left is kept and removed.
func TestRepair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		s := open(t, b, nil)
		v := mustPut(t, s, "k", "", "1")
		if err := s.Repair(t.Context(), "k", nil); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("of what can be read: %v", err)
		}
		for i := range 3 {
			v = mustPut(t, s, "k", v, fmt.Sprint(i))
		}
		versions := live(b, "k!!")
		for _, w := range versions[:len(versions)-1] {
			b.Remove("bucket", "k!!", w.ID)
		}
		s = open(t, b, nil)
		if _, _, err := s.Get(t.Context(), "k"); !errors.Is(err, store.ErrCorrupt) {
			t.Fatalf("control: %v (%d versions)", err, len(live(b, "k!!")))
		}
		refusal := errors.New("no place")
		if err := s.Repair(t.Context(), "k", func(string, []byte) error { return refusal }); !errors.Is(err, refusal) || len(live(b, "k!!")) != 1 {
			t.Errorf("without a copy: %v, %d versions are left", err, len(live(b, "k!!")))
		}
		kept := map[string]string{}
		err := s.Repair(t.Context(), "k", func(id string, body []byte) error {
			kept[id] = string(body)
			if n := len(live(b, "k!!")); n != 1 {
				t.Errorf("%d versions are left before all are safe", n)
			}
			return nil
		})
		if err != nil || len(kept) != 2 || kept[versions[len(versions)-1].ID] != string(versions[len(versions)-1].Body) {
			t.Fatalf("kept %v (%v)", kept, err)
		}
		mustPut(t, s, "k", "", "anew")
		if got, _, err := open(t, b, nil).Get(t.Context(), "k"); err != nil || string(got) != "anew" {
			t.Errorf("afterwards: %q (%v)", got, err)
		}
	})
}

// newer is an entry that a program with a newer format has written.
func newer(key string) string {
	header := fmt.Appendf(nil, `{"holdfast":2,"key":%q,"life_ms":5000}`, key)
	return string(fold.AppendLine(nil, fold.Entry{Kind: 'H', Number: 1, Nonce: "N2", Value: header})) + "what no older program reads\n"
}

// Repair keeps all versions of a register that it must not remove.
func TestRepairRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		versions []string
		want     error
	}{
		"a newer program's":                {[]string{newer("lock/k")}, store.ErrInvalid},
		"a newer program's, below garbage": {[]string{newer("lock/k"), "garbage"}, store.ErrInvalid},
		"too large for a copy":             {[]string{"garbage", strings.Repeat("another program's data ", 10_000)}, errors.ErrUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBucket()
				s := open(t, b, nil)
				for _, body := range c.versions {
					put(b, "lock/k!!", body, nil)
				}
				if _, _, err := s.Get(t.Context(), "lock/k"); !errors.Is(err, store.ErrCorrupt) {
					t.Fatalf("control: %v", err)
				}
				_, err := leasesOn(t, s, nil).BreakUnreadable(t.Context(), "k", func(ctx context.Context, key string, value []byte) error {
					return s.Repair(ctx, key, func(string, []byte) error { return nil })
				})
				if left := len(live(b, "lock/k!!")); !errors.Is(err, c.want) || left != len(c.versions) {
					t.Errorf("%v, want %v; %d of %d versions are left", err, c.want, left, len(c.versions))
				}
			})
		})
	}
}

// withoutNull is a server that lists the version "null" without an id.
type withoutNull struct{ *awstest.S3 }

func (w withoutNull) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := w.S3.RoundTrip(r)
	if err != nil || !r.URL.Query().Has("versions") {
		return res, err
	}
	body, err := io.ReadAll(res.Body)
	body = bytes.ReplaceAll(body, []byte("<VersionId>null</VersionId>"), nil)
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	res.Header.Del("Content-Length")
	return res, err
}

// A version without an id is the version "null", not the newest version.
func TestRepairWithoutVersionID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		b.SetVersioning("")
		put(b, "k!!", "old", nil)
		b.SetVersioning("Enabled")
		id := put(b, "k!!", "new", nil)
		s := openBelow(t, b, "", nil, func(o *s3.Options) { o.HTTPClient = &http.Client{Transport: withoutNull{b}} })
		kept := map[string]string{}
		err := s.Repair(t.Context(), "k", func(id string, body []byte) error { kept[id] = string(body); return nil })
		want := map[string]string{"null": "old", id: "new", "": ""}
		if left := live(b, "k!!"); err != nil || !maps.Equal(kept, want) || len(left) > 0 {
			t.Errorf("kept %q, want %q; %d versions are left (%v)", kept, want, len(left), err)
		}
	})
}

// A version that Repair could not copy stays.
func TestRepairLeavesWhatItCannotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		id := put(b, "k!!", "garbage", nil)
		put(b, "k!!", "garbage", nil)
		b.Plan(func(q awstest.Request) awstest.Fault {
			if q.Op == "GetObject" && q.URL.Query().Get("versionId") == id {
				return awstest.Fault{Status: 404, Code: "NoSuchVersion"}
			}
			return awstest.Fault{}
		})
		err := open(t, b, nil).Repair(t.Context(), "k", func(string, []byte) error { return nil })
		if left := live(b, "k!!"); err != nil || len(left) != 1 || left[0].ID != id {
			t.Errorf("%d versions are left (%v)", len(left), err)
		}
	})
}
