package s3verstore_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/aws/s3store"
	"github.com/holdfast-go/holdfast/compat/s3verstore"
	"github.com/holdfast-go/holdfast/store"
)

// legacyLock is the metadata and the body of a lock of the other program.
var legacyMeta = map[string]string{"timeout": "10s", "lockowner": "6b8b4567-327b-43c6-9b9e-0d8e3f0e1a2b"}

func legacyBody(name string) string { return name + "-6b8b4567-327b-43c6-9b9e-0d8e3f0e1a2b" }

// TestUnfit: a bucket that can't hold registers is refused before anything is put.
func TestUnfit(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*awstest.S3)
		want  error
		says  string
	}{
		{"versioning off", func(b *awstest.S3) { b.SetVersioning("") }, store.ErrUnsafe, "versioning is not enabled"},
		{"versioning suspended", func(b *awstest.S3) { b.SetVersioning("Suspended") }, store.ErrUnsafe, "versioning is suspended"},
		{"Object Lock", func(b *awstest.S3) { b.ObjectLock = true }, store.ErrUnsafe, "Object Lock"},
		{"no right to read the settings", func(b *awstest.S3) { b.Plan(refuse("GetBucketVersioning", 403, "AccessDenied")) }, store.ErrDenied, "s3:GetBucketVersioning"},
		{"no right to list versions", func(b *awstest.S3) { b.Plan(refuse("ListObjectVersions", 403, "AccessDenied")) }, store.ErrDenied, "AccessDenied"},
		{"a server without versioning", func(b *awstest.S3) { b.Plan(refuse("GetBucketVersioning", 501, "NotImplemented")) }, store.ErrUnsafe, "not enabled"},
		{"no such bucket", func(b *awstest.S3) { b.Plan(refuse("GetBucketVersioning", 404, "NoSuchBucket")) }, store.ErrMisconfigured, "the bucket does not exist here"},
		{"a lock of the other program beside it", func(b *awstest.S3) { put(b, "lock/job", legacyBody("lock/job"), legacyMeta) }, store.ErrUnsafe, "another program"},
		{"a lock of the other program at the root", func(b *awstest.S3) { put(b, "job", legacyBody("job"), legacyMeta) }, store.ErrUnsafe, "another program"},
		{"a lock of the other program in its place", func(b *awstest.S3) { put(b, "lock/job!!", legacyBody("lock/job!!"), legacyMeta) }, store.ErrCorrupt, "another program"},
		{"a foreign object in its place", func(b *awstest.S3) { put(b, "lock/job!!", "hello", nil) }, store.ErrCorrupt, "not an entry"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBucket()
				c.spoil(b)
				s := open(t, b, nil)
				_, err := s.Put(t.Context(), "lock/job", "", []byte("1"))
				outcome(t, "create", err, store.NotApplied, c.want)
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("the error says %v; want %q in it", err, c.says)
				}
				if ops := ops(b); slices.Contains(ops, "PutObject") {
					t.Errorf("something was put: %v", ops)
				}
			})
		})
	}
}

func refuse(op string, status int, code string) func(awstest.Request) awstest.Fault {
	return func(q awstest.Request) awstest.Fault {
		if q.Op == op {
			return awstest.Fault{Status: status, Code: code}
		}
		return awstest.Fault{}
	}
}

// TestNoRightForObjectLock: a client that may not read that setting can use the store.
func TestNoRightForObjectLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		b.Plan(refuse("GetObjectLockConfiguration", 403, "AccessDenied"))
		mustPut(t, open(t, b, nil), "k", "", "1")
	})
}

// TestSuspended: versioning that is suspended under a live lease ends it, and no
// other client gets the lock.
func TestSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		a, c := leases(t, b, nil), leases(t, b, nil)
		guard, err := a.TryAcquire(t.Context(), "job", nil)
		if err != nil {
			t.Fatal(err)
		}
		b.SetVersioning("Suspended")
		for guard.Err() == nil {
			time.Sleep(5 * time.Second)
			if _, err := c.TryAcquire(t.Context(), "job", nil); err == nil {
				t.Fatal("another got the lock")
			}
		}
		time.Sleep(5 * time.Minute)
		if _, err := c.TryAcquire(t.Context(), "job", nil); !errors.Is(err, store.ErrUnsafe) {
			t.Errorf("another try: %v, want %v", err, store.ErrUnsafe)
		}
		// Enabled again: what was put meanwhile does not count, and it continues.
		b.SetVersioning("Enabled")
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		next, err := c.Acquire(ctx, "job", nil)
		if err != nil || next.Token() <= guard.Token() {
			t.Fatalf("after it was enabled again: %v, %v", next, err)
		}
		if err := next.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestBeforeVersioning: an object from before versioning was enabled is in the way; a
// delete marker is not.
func TestBeforeVersioning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		b.SetVersioning("")
		old := put(b, "k!!", "hello", nil)
		b.SetVersioning("Enabled")
		s := open(t, b, nil)
		if _, _, err := s.Get(t.Context(), "k"); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("get: %v, want %v", err, store.ErrCorrupt)
		}
		b.Remove("bucket", "k!!", old)
		v := mustPut(t, s, "k", "", "1")
		b.Delete("bucket", "k!!")
		if value, now := get(t, s, "k"); value != "1" || now != v {
			t.Errorf("after a delete marker: %q %q", value, now)
		}
		mustPut(t, s, "k", v, "2")
	})
}

func TestOptions(t *testing.T) {
	b := newBucket()
	bucket, err := s3bucket.New(b.Client(), "bucket", nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]s3verstore.Options{
		"a settle that is too short": {PutLifetime: 5 * time.Second, SettleDelay: 5 * time.Second},
		"a life that is too short":   {PutLifetime: time.Millisecond},
		"a life that is too long":    {PutLifetime: time.Hour},
		"a rho that is too large":    {MaxClockDrift: 0.5},
	} {
		if _, err := s3verstore.New(bucket, "", &o); !errors.Is(err, store.ErrMisconfigured) {
			t.Errorf("%s: %v, want %v", name, err, store.ErrMisconfigured)
		}
	}
	if _, err := s3verstore.New(bucket, "a//b", nil); !errors.Is(err, store.ErrMisconfigured) {
		t.Errorf("a prefix that is none: %v", err)
	}
	if _, err := s3verstore.New(nil, "", nil); !errors.Is(err, store.ErrMisconfigured) {
		t.Errorf("without a bucket: %v", err)
	}
	s := open(t, b, nil)
	if s.PutLifetime() != 5*time.Second || s.SettleDelay() != 6*time.Second || s.Traits().MinTTL != 27*time.Second || !s.Traits().Delayed() {
		t.Errorf("the defaults are %v, %v, %+v", s.PutLifetime(), s.SettleDelay(), s.Traits())
	}
}

// TestSettings: what doctor asks.
func TestSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		s := openBelow(t, b, "app", nil)
		set, err := s.Settings(t.Context())
		if err != nil || set.Err() != nil || len(set.Unreadable) > 0 {
			t.Fatalf("a good bucket: %+v, %v, %v", set, err, set.Err())
		}
		rule := func(id, inner string) string {
			return "<Rule><ID>" + id + "</ID><Status>Enabled</Status>" + inner + "</Rule>"
		}
		const old = "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration>"
		b.Lifecycle = rule("all", "<Filter><Prefix></Prefix></Filter>"+old) +
			rule("ours", "<Filter><Prefix>app/</Prefix></Filter><Expiration><Days>3</Days></Expiration>") +
			rule("below", "<Filter><Prefix>app/lock/x</Prefix></Filter><Transition><Days>3</Days><StorageClass>GLACIER</StorageClass></Transition>") +
			rule("others", "<Filter><Prefix>other/</Prefix></Filter>"+old) +
			rule("tagged", "<Filter><Tag><Key>a</Key><Value>b</Value></Tag></Filter>"+old) +
			rule("uploads", "<Filter><Prefix></Prefix></Filter><AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload>") +
			rule("markers", "<Filter><Prefix></Prefix></Filter><Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>") +
			strings.Replace(rule("off", "<Filter><Prefix></Prefix></Filter>"+old), "Enabled", "Disabled", 1)
		put(b, "app/job", legacyBody("app/job"), legacyMeta)
		put(b, "app/big", strings.Repeat("x", 44), nil)
		b.ObjectLock = true
		if set, err = s.Settings(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := len(set.ExpiresVersions); got != 3 {
			t.Errorf("%d rules expire versions: %v", got, set.ExpiresVersions)
		}
		if !slices.Equal(set.Legacy, []string{"app/job"}) || !set.ObjectLock {
			t.Errorf("found %+v", set)
		}
		if err := set.Err(); !errors.Is(err, store.ErrUnsafe) {
			t.Errorf("a bad bucket: %v", err)
		}
		b.Plan(refuse("GetBucketLifecycleConfiguration", 501, "NotImplemented"))
		if set, err = s.Settings(t.Context()); err != nil || len(set.Unreadable) != 1 {
			t.Errorf("a server that has no such setting: %+v, %v", set, err)
		}
	})
}

// TestLocksOfAnotherProgram: a lock of the program that takes the oldest version for the
// owner keeps a register of its name from being made, wherever it is, and no other. A
// store looks once, and writes on registers that are there pay nothing.
func TestLocksOfAnotherProgram(t *testing.T) {
	for object, refused := range map[string][]string{
		"app/job":      {"job", "lock/job", "a/job"},
		"app/lock/job": {"lock/job"},
		"app/a/job":    {"lock/a/job", "a/job"},
		"job":          {"job", "lock/job", "a/job"},
		"other/job":    nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBucket()
			v := mustPut(t, openBelow(t, b, "app", nil), "lock/old", "", "0")
			put(b, object, legacyBody(object), legacyMeta)
			s := openBelow(t, b, "app", nil)
			for _, key := range []string{"job", "lock/job", "lock/a/job", "a/job", "lock/job-2", "jo", "a"} {
				_, err := s.Put(t.Context(), key, "", nil)
				if slices.Contains(refused, key) {
					outcome(t, object+": create "+key, err, store.NotApplied, store.ErrUnsafe)
				} else if err != nil {
					t.Errorf("%s: create %s: %v", object, key, err)
				}
			}
			ops(b)
			mustPut(t, s, "new", "", "0")
			mustPut(t, s, "lock/old", v, "1")
			if got := brief(b); got != "LIST PUT LIST PUT LIST GET GET PUT LIST PUT" {
				t.Errorf("%s: two writes took %s", object, got)
			}
		})
	}
}

// TestTwoKindsOfStore: two kinds of store with one prefix would run one lock twice. Each
// refuses to begin where the other is, in either order. Another prefix, a longer one too, has
// other locks, and objects of other programs do not matter.
func TestTwoKindsOfStore(t *testing.T) {
	const versioned, plain = s3verstore.Scheme + "://", "s3://"
	for _, c := range []struct {
		name, there, key string // what a store of the kind there has
		in               string // its prefix
		refused          bool
	}{
		{"the first lock was versioned", versioned, "lock/job", "app", true},
		{"the first lock was plain", plain, "lock/job", "app", true},
		{"a session, plain", plain, "lock.session/x", "app", true},
		{"a checkpoint, versioned", versioned, "checkpoint/job", "app", true},
		{"a checkpoint, plain", plain, "checkpoint/job", "app", true},
		{"a long name, versioned", versioned, "lock/" + strings.Repeat("%", 450), "app", true},
		{"a long name, plain", plain, "lock/" + strings.Repeat("%", 450), "app", true},
		{"a longer prefix, versioned", versioned, "lock/job", "app/inner", false},
		{"a longer prefix, plain", plain, "lock/job", "app/inner", false},
		{"a shorter prefix, versioned", versioned, "lock/job", "", false},
		{"a shorter prefix, plain", plain, "lock/job", "", false},
		{"a neighbour, versioned", versioned, "lock/job", "app-2", false},
		{"a neighbour, plain", plain, "lock/job", "app-2", false},
		{"another program's JSON", "", "lock/job.json", "app", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBucket()
				bucket, err := s3bucket.New(b.Client(), "bucket", nil)
				if err != nil {
					t.Fatal(err)
				}
				noted := false
				openPlain := func(prefix string) store.Store {
					st, err := s3store.New(bucket, prefix, &s3store.Options{OnVerified: func() { noted = true }})
					if err != nil {
						t.Fatal(err)
					}
					return st
				}
				opens := map[string]func(prefix string) store.Store{
					plain:     openPlain,
					versioned: func(prefix string) store.Store { return openBelow(t, b, prefix, nil) },
				}
				if first := opens[c.there]; first == nil {
					put(b, "app/"+c.key, `{"version":1}`, nil)
				} else {
					mustPut(t, first(c.in), c.key, "", "1")
				}
				noted = false
				for kind, open := range opens {
					if kind == c.there || c.there == "" && kind == plain {
						continue
					}
					second := open("app")
					for range 2 {
						_, err := second.Put(t.Context(), "lock/other", "", []byte("1"))
						if c.refused {
							outcome(t, kind+" beside "+c.there, err, store.NotApplied, store.ErrUnsafe)
						} else if err != nil && !errors.Is(err, store.ErrConflict) {
							t.Errorf("%s beside %s: %v", kind, c.there, err)
						}
					}
					if kind == plain && noted == c.refused {
						t.Errorf("noted as good: %v", noted)
					}
				}
			})
		})
	}
}

// TestRightsEndWithThePrefix: a store that may not list the root of the bucket makes
// registers all the same.
func TestRightsEndWithThePrefix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		b.Plan(func(q awstest.Request) awstest.Fault {
			if q.Op == "ListObjectVersions" && q.URL.Query().Get("prefix") == "" {
				return awstest.Fault{Status: 403, Code: "AccessDenied"}
			}
			return awstest.Fault{}
		})
		mustPut(t, openBelow(t, b, "app", nil), "k", "", "1")
	})
	// Nor does it matter that it may list the root, and may not read what is there.
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		put(b, "job", legacyBody("job"), legacyMeta)
		b.Plan(func(q awstest.Request) awstest.Fault {
			if q.Op == "HeadObject" && q.Key == "job" {
				return awstest.Fault{Status: 403, Code: "AccessDenied"}
			}
			return awstest.Fault{}
		})
		mustPut(t, openBelow(t, b, "app", nil), "k", "", "1")
	})
}
