package s3bucket_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/store"
)

// part is the size of a part in these tests.
const part = 10_000

func newBucket(t *testing.T, f *awstest.S3, opts *s3bucket.Options) *s3bucket.Bucket {
	t.Helper()
	f.MinPart = 1
	b, err := s3bucket.New(f.Client(), "bucket", opts)
	if err != nil {
		t.Fatal(err)
	}
	s3bucket.SetPartSize(b, part)
	return b
}

// trusted is a bucket whose abilities are all taken for granted, and which sends one
// part at a time, so that the order of requests is known.
func trusted(t *testing.T, f *awstest.S3) *s3bucket.Bucket {
	return newBucket(t, f, &s3bucket.Options{AssumeAbilities: object.Abilities(), Parallel: 1})
}

func TestBucket(t *testing.T) {
	var f *awstest.S3
	open := func(t *testing.T) object.Bucket {
		f = awstest.NewS3("bucket")
		f.PageSize = 50
		return newBucket(t, f, nil)
	}
	second := func(t *testing.T, _ object.Bucket) object.Bucket { return newBucket(t, f, nil) }
	suite := &objecttest.Options{Reopen: second, Rounds: 3, Racers: 6, Keys: 120, Large: part + 1000}
	objecttest.Run(t, open, suite)

	t.Run("versioned", func(t *testing.T) {
		versioned := func(t *testing.T) object.Bucket {
			b := open(t)
			f.Versioning = "Enabled"
			return b
		}
		for _, failure := range objecttest.Check(t, versioned, suite,
			"Delete", "DeleteAbsent", "IfAbsentAfterDelete", "IfMatchAbsent", "DeleteIfMatch", "ListAtOnce", "RaceDelete") {
			t.Errorf("%s: %s", failure.Case, failure)
		}
	})
}

func put(t *testing.T, b object.Bucket, key, body string, opts *object.PutOptions) object.Version {
	t.Helper()
	info, err := b.Put(t.Context(), key, strings.NewReader(body), opts)
	if err != nil {
		t.Fatal(err)
	}
	return info.Version
}

// TestRequests: how often what is sent, when nothing and when something goes wrong.
func TestRequests(t *testing.T) {
	unavailable := awstest.Fault{Status: 503, Code: "SlowDown"}
	lost := awstest.Fault{Lose: true}
	large := strings.Repeat("x", part+1)
	do := map[string]func(context.Context, *s3bucket.Bucket, object.Version) error{
		"get": func(ctx context.Context, b *s3bucket.Bucket, _ object.Version) error {
			_, _, err := object.ReadAll(ctx, b, "k", 100, nil)
			return err
		},
		"stat": func(ctx context.Context, b *s3bucket.Bucket, _ object.Version) error {
			_, err := b.Stat(ctx, "k")
			return err
		},
		"list": func(ctx context.Context, b *s3bucket.Bucket, _ object.Version) error {
			for _, err := range b.List(ctx, "", nil) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"put": func(ctx context.Context, b *s3bucket.Bucket, _ object.Version) error {
			_, err := b.Put(ctx, "k", strings.NewReader("two"), nil)
			return err
		},
		"create": func(ctx context.Context, b *s3bucket.Bucket, _ object.Version) error {
			_, err := b.Put(ctx, "new", strings.NewReader("two"), &object.PutOptions{IfAbsent: true})
			return err
		},
		"swap": func(ctx context.Context, b *s3bucket.Bucket, v object.Version) error {
			_, err := b.Put(ctx, "k", strings.NewReader("two"), &object.PutOptions{IfMatch: v})
			return err
		},
		"upload": func(ctx context.Context, b *s3bucket.Bucket, v object.Version) error {
			_, err := b.Put(ctx, "k", strings.NewReader(large), &object.PutOptions{IfMatch: v})
			return err
		},
		"delete": func(ctx context.Context, b *s3bucket.Bucket, _ object.Version) error { return b.Delete(ctx, "k", nil) },
		"delete if": func(ctx context.Context, b *s3bucket.Bucket, v object.Version) error {
			return b.Delete(ctx, "k", &object.DeleteOptions{IfMatch: v})
		},
		"copy": func(ctx context.Context, b *s3bucket.Bucket, _ object.Version) error {
			_, err := b.Copy(ctx, "k", "copy", nil)
			return err
		},
		"copy if": func(ctx context.Context, b *s3bucket.Bucket, v object.Version) error {
			_, err := b.Copy(ctx, "k", "copy", &object.CopyOptions{SourceIfMatch: v, IfAbsent: true})
			return err
		},
	}
	const parts = "CreateMultipartUpload UploadPart UploadPart "
	for _, c := range []struct {
		do    string
		op    string // which requests go wrong
		count int
		fault awstest.Fault
		want  store.Outcome
		ops   string
	}{
		{"get", "", 0, lost, store.Applied, "GetObject"},
		{"get", "", 2, unavailable, store.Applied, "GetObject GetObject GetObject"},
		{"get", "", 9, lost, store.Unknown, "GetObject GetObject GetObject GetObject"},
		{"stat", "", 1, lost, store.Applied, "HeadObject HeadObject"},
		{"list", "", 1, unavailable, store.Applied, "ListObjectsV2 ListObjectsV2"},
		{"put", "", 1, unavailable, store.Applied, "PutObject PutObject"},
		{"put", "", 1, awstest.Fault{Status: 403, Code: "AccessDenied"}, store.NotApplied, "PutObject"},
		{"create", "", 0, lost, store.Applied, "PutObject"},
		{"create", "", 1, lost, store.Unknown, "PutObject"},
		{"create", "", 1, unavailable, store.Unknown, "PutObject"},
		{"create", "", 1, awstest.Fault{Drop: true}, store.Unknown, "PutObject"},
		{"create", "", 1, awstest.Fault{Status: 409, Code: "ConditionalRequestConflict"}, store.NotApplied, "PutObject"},
		{"create", "", 1, awstest.Fault{Status: 500, Code: "InternalError", Applied: true}, store.Unknown, "PutObject"},
		{"swap", "", 1, awstest.Fault{Twice: true}, store.NotApplied, "PutObject"},
		{"swap", "", 1, awstest.Fault{Hang: true}, store.Unknown, "PutObject"},
		{"upload", "", 0, lost, store.Applied, parts + "CompleteMultipartUpload"},
		{"upload", "UploadPart", 1, lost, store.Applied, "CreateMultipartUpload UploadPart UploadPart UploadPart CompleteMultipartUpload"},
		{"upload", "CompleteMultipartUpload", 1, lost, store.Unknown, parts + "CompleteMultipartUpload CompleteMultipartUpload AbortMultipartUpload"},
		{"upload", "CompleteMultipartUpload", 1, awstest.Fault{Drop: true}, store.Applied, parts + "CompleteMultipartUpload CompleteMultipartUpload"},
		{"upload", "CompleteMultipartUpload", 9, awstest.Fault{Drop: true}, store.Unknown, parts + strings.Repeat("CompleteMultipartUpload ", 4) + "AbortMultipartUpload"},
		{"upload", "CompleteMultipartUpload", 1, awstest.Fault{Status: 409, Code: "ConditionalRequestConflict"}, store.NotApplied, parts + "CompleteMultipartUpload AbortMultipartUpload"},
		{"upload", "CompleteMultipartUpload", 1, awstest.Fault{Status: 200, Code: "InternalError"}, store.Applied, parts + "CompleteMultipartUpload CompleteMultipartUpload"},
		{"upload", "CompleteMultipartUpload", 1, awstest.Fault{Twice: true}, store.Unknown, parts + "CompleteMultipartUpload AbortMultipartUpload"},
		{"upload", "UploadPart", 9, unavailable, store.NotApplied, "CreateMultipartUpload UploadPart UploadPart UploadPart UploadPart AbortMultipartUpload ListParts"},
		{"delete", "", 1, lost, store.Applied, "DeleteObject DeleteObject"},
		{"delete if", "", 1, lost, store.Unknown, "DeleteObject"},
		{"copy", "", 1, unavailable, store.Applied, "CopyObject CopyObject"},
		{"copy if", "", 1, lost, store.Unknown, "CopyObject"},
	} {
		t.Run(c.do+" "+c.fault.Code, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := awstest.NewS3("bucket")
				b := trusted(t, f)
				v := put(t, b, "k", "one", nil)
				f.Reset()
				f.Add(c.op, 0, c.count, c.fault)
				err := do[c.do](t.Context(), b, v)
				if got := store.OutcomeOf(err); got != c.want {
					t.Errorf("outcome %v, want %v: %v", got, c.want, err)
				}
				if got := strings.Join(f.Ops(), " "); got != c.ops {
					t.Errorf("requests %q, want %q", got, c.ops)
				}
				if c.want == store.Unknown && !errors.Is(err, store.ErrUnavailable) && c.fault != (awstest.Fault{Twice: true}) {
					t.Errorf("the error does not match ErrUnavailable: %v", err)
				}
			})
		})
	}
}

// TestTimeouts: a request ends in time, also one whose body stalls, and a body that
// flows slowly continues.
func TestTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := awstest.NewS3("bucket")
		b := newBucket(t, f, &s3bucket.Options{Timeout: time.Second, AssumeAbilities: object.Abilities()})
		s3bucket.SetTries(b, 1)
		put(t, b, "k", "one", nil)
		f.Add("", 0, -1, awstest.Fault{Hang: true})
		for name, do := range map[string]func() error{
			"get":  func() error { _, err := b.Get(t.Context(), "k", nil); return err },
			"stat": func() error { _, err := b.Stat(t.Context(), "k"); return err },
			"put":  func() error { _, err := b.Put(t.Context(), "k", strings.NewReader("two"), nil); return err },
		} {
			start := time.Now()
			err := do()
			if !errors.Is(err, store.ErrUnavailable) || store.OutcomeOf(err) != store.Unknown {
				t.Errorf("%s: got %v (%v)", name, err, store.OutcomeOf(err))
			}
			if took := time.Since(start); took > 1100*time.Millisecond {
				t.Errorf("%s took %v", name, took)
			}
		}
		f.Clear()
		r, err := b.Get(t.Context(), "k", nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // the reader's own time does not count
		if body, err := io.ReadAll(r); err != nil || string(body) != "one" && string(body) != "two" {
			t.Errorf("got %q, %v", body, err)
		}
		r.Close()
	})
}

// TestCallersContext: its end is reported as what it is, with the outcome.
func TestCallersContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := awstest.NewS3("bucket")
		b := trusted(t, f)
		f.Add("", 0, -1, awstest.Fault{Hang: true})
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("the lease has ended"))
		defer cancel()
		_, err := b.Put(ctx, "k", strings.NewReader("x"), nil)
		if err == nil || !strings.Contains(err.Error(), "the lease has ended") || store.OutcomeOf(err) != store.Unknown {
			t.Errorf("got %v (%v)", err, store.OutcomeOf(err))
		}
		_, err = b.Put(ctx, "k", strings.NewReader("x"), nil)
		if err == nil || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("after its end: %v (%v)", err, store.OutcomeOf(err))
		}
	})
}

// TestBroken: what a server ignores is refused as unsupported, from the first use on,
// and what others have written stays as it is.
func TestBroken(t *testing.T) {
	for _, c := range []struct {
		name   string
		broken awstest.S3Broken
		lacks  []object.Ability
	}{
		{"good", awstest.S3Broken{}, nil},
		{"ignores If-None-Match", awstest.S3Broken{IgnoreIfNoneMatch: true}, []object.Ability{object.PutIfAbsent}},
		{"ignores If-Match", awstest.S3Broken{IgnoreIfMatch: true}, []object.Ability{object.PutIfMatch}},
		{"creates on If-Match", awstest.S3Broken{IgnoreIfMatchGone: true}, []object.Ability{object.PutIfMatch, object.PartsIfMatch}},
		{"ignores the conditions of deletes", awstest.S3Broken{IgnoreOnDelete: true}, []object.Ability{object.DeleteIfMatch}},
		{"conditional deletes of nothing", awstest.S3Broken{IgnoreDeleteGone: true}, []object.Ability{object.DeleteIfMatch}},
		{"ignores the conditions of copies", awstest.S3Broken{IgnoreOnCopy: true}, nil}, // an upload in parts does it
		{"ignores the source's conditions", awstest.S3Broken{IgnoreCopySource: true}, []object.Ability{object.CopySource}},
		{"drops the conditions of uploads", awstest.S3Broken{IgnoreOnComplete: true}, []object.Ability{object.PartsIfAbsent, object.PartsIfMatch}},
		{"ignores all of a copy", awstest.S3Broken{IgnoreOnCopy: true, IgnoreOnComplete: true},
			[]object.Ability{object.CopyIfAbsent, object.CopyIfMatch, object.PartsIfAbsent, object.PartsIfMatch}},
		{"equal ETags", awstest.S3Broken{EqualETags: true},
			[]object.Ability{object.PutIfMatch, object.DeleteIfMatch, object.CopySource, object.CopyIfMatch, object.PartsIfMatch}},
		{"knows no conditions", awstest.S3Broken{NoConditions: true},
			[]object.Ability{object.PutIfAbsent, object.PutIfMatch, object.DeleteIfMatch, object.CopyIfAbsent, object.CopyIfMatch, object.PartsIfAbsent, object.PartsIfMatch}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := awstest.NewS3("bucket")
			f.Broken = c.broken
			b := newBucket(t, f, &s3bucket.Options{ProbePrefix: "scratch"})
			put(t, b, "k", "one", nil)
			v := put(t, b, "k", "current", nil)
			large := strings.Repeat("x", part+1)
			ctx := t.Context()
			old := object.Version(`"0123456789abcdef0123456789abcdef"`)
			for a, do := range map[object.Ability]func() error{
				object.PutIfAbsent:   func() error { return put1(ctx, b, "k", "late", &object.PutOptions{IfAbsent: true}) },
				object.PutIfMatch:    func() error { return put1(ctx, b, "k", "late", &object.PutOptions{IfMatch: old}) },
				object.PartsIfAbsent: func() error { return put1(ctx, b, "k", large, &object.PutOptions{IfAbsent: true}) },
				object.PartsIfMatch:  func() error { return put1(ctx, b, "k", large, &object.PutOptions{IfMatch: old}) },
				object.DeleteIfMatch: func() error { return b.Delete(ctx, "k", &object.DeleteOptions{IfMatch: old}) },
				object.CopySource:    func() error { return copy1(ctx, b, &object.CopyOptions{SourceIfMatch: old}) },
				object.CopyIfAbsent:  func() error { return copy1(ctx, b, &object.CopyOptions{IfAbsent: true}) },
				object.CopyIfMatch:   func() error { return copy1(ctx, b, &object.CopyOptions{IfMatch: old}) },
			} {
				for range 2 {
					err := do()
					want := store.ErrConflict
					if slices.Contains(c.lacks, a) {
						want = errors.ErrUnsupported
					}
					if !errors.Is(err, want) || store.OutcomeOf(err) != store.NotApplied {
						t.Errorf("%s: got %v, want %v", a, err, want)
					}
				}
			}
			info, err := b.Stat(ctx, "k")
			if err != nil || info.Version != v {
				t.Errorf("the object was changed: %v, %v", info, err)
			}
			if got := f.Keys("bucket"); len(got) != 1 {
				t.Errorf("left behind: %q", got)
			}
			if got := f.Uploads("bucket"); got != 0 {
				t.Errorf("left behind: %d uploads", got)
			}
		})
	}
}

func put1(ctx context.Context, b object.Bucket, key, body string, opts *object.PutOptions) error {
	_, err := b.Put(ctx, key, strings.NewReader(body), opts)
	return err
}

func copy1(ctx context.Context, b object.Bucket, opts *object.CopyOptions) error {
	_, err := object.Copy(ctx, b, "k", "k", opts)
	return err
}

// TestCopyByParts: a server that ignores conditions on copies but keeps them on
// uploads copies under conditions all the same.
func TestCopyByParts(t *testing.T) {
	f := awstest.NewS3("bucket")
	f.Broken.IgnoreOnCopy = true
	b := newBucket(t, f, nil)
	meta := map[string]string{"k": "v"}
	for _, body := range []string{"body", ""} {
		headers := object.Headers{CacheControl: "no-cache", ContentEncoding: "gzip"}
		put(t, b, "a", body, &object.PutOptions{ContentType: "text/plain", Headers: headers, Metadata: meta})
		if err := b.Delete(t.Context(), "b", nil); err != nil {
			t.Fatal(err)
		}
		info, err := b.Copy(t.Context(), "a", "b", &object.CopyOptions{IfAbsent: true})
		if err != nil {
			t.Fatal(err)
		}
		got, now, err := object.ReadAll(t.Context(), b, "b", 100, nil)
		if err != nil || string(got) != body || now.Version != info.Version || now.ContentType != "text/plain" || now.Headers != headers || now.Metadata["k"] != "v" {
			t.Errorf("got %q, %+v, %v", got, now, err)
		}
	}

	// A later run may assume what this one knows of the server: it copies by parts, too.
	if known := b.KnownAbilities(); !slices.Contains(known, object.PartsIfAbsent) || slices.Contains(known, object.CopyIfAbsent) {
		t.Errorf("it is known to have %q", known)
	}
	later := newBucket(t, f, &s3bucket.Options{AssumeAbilities: b.KnownAbilities()})
	if _, err := later.Copy(t.Context(), "a", "b", &object.CopyOptions{IfAbsent: true}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a later run copied over what is there: %v", err)
	}
}

// TestCopyLostReply: a copy was applied, and its reply lost. Then another client removes the source, so the next try
// is refused. That does not prove that the copy was not applied.
func TestCopyLostReply(t *testing.T) {
	f := awstest.NewS3("bucket")
	b := newBucket(t, f, nil)
	put(t, b, "a", "body", nil)
	copies := func(r awstest.Request) bool { return r.Op == "CopyObject" }
	f.AddWhen(copies, 0, 1, awstest.Fault{Lose: true})
	f.AddWhen(copies, 0, -1, awstest.Fault{Status: http.StatusNotFound, Code: "NoSuchKey"})
	if _, err := b.Copy(t.Context(), "a", "b", nil); err == nil || store.OutcomeOf(err) != store.Unknown {
		t.Errorf("%v (%v), want an unknown outcome", err, store.OutcomeOf(err))
	}
	if got, _, err := object.ReadAll(t.Context(), b, "b", 100, nil); err != nil || string(got) != "body" {
		t.Errorf("the copy is %q, %v", got, err)
	}
	// The control: the same refusal without a lost reply.
	if _, err := b.Copy(t.Context(), "a", "c", nil); !errors.Is(err, store.ErrNotFound) || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("the control: %v (%v)", err, store.OutcomeOf(err))
	}
}

// TestHeaders: what the options promise is sent.
func TestHeaders(t *testing.T) {
	f := awstest.NewS3("bucket")
	b := newBucket(t, f, &s3bucket.Options{
		Owner: "123456789012", Encryption: types.ServerSideEncryptionAwsKms, KMSKey: "key-1",
		ACL: types.ObjectCannedACLBucketOwnerFullControl, AssumeAbilities: object.Abilities(),
	})
	put(t, b, "k", "x", &object.PutOptions{IfAbsent: true})
	put(t, b, "k", strings.Repeat("x", part+1), nil)
	if _, err := b.Copy(t.Context(), "k", "l", nil); err != nil {
		t.Fatal(err)
	}
	for _, r := range f.Requests() {
		if got := r.Header.Get("X-Amz-Expected-Bucket-Owner"); got != "123456789012" {
			t.Errorf("%s: owner %q", r.Op, got)
		}
		if r.Op == "PutObject" || r.Op == "CreateMultipartUpload" || r.Op == "CopyObject" {
			if r.Header.Get("X-Amz-Server-Side-Encryption") != "aws:kms" || r.Header.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id") != "key-1" ||
				r.Header.Get("X-Amz-Acl") != "bucket-owner-full-control" {
				t.Errorf("%s: %v", r.Op, r.Header)
			}
		}
	}
}

// TestStorageClassAndTags: they go with a put and with the beginning of an upload in parts,
// and nothing of them where none are given. An upload that is resumed keeps its own.
func TestStorageClassAndTags(t *testing.T) {
	f := awstest.NewS3("bucket")
	b := newBucket(t, f, &s3bucket.Options{AssumeAbilities: object.Abilities()})
	for _, o := range []object.PutOptions{
		{StorageClass: "STANDARD_IA", Tags: map[string]string{"team": "a b+c", "a/b": "é=:"}},
		{IfAbsent: true, StorageClass: "STANDARD_IA", Tags: map[string]string{"a/b": "é=:", "team": "a b+c"}},
		{},
	} {
		f.Reset()
		put(t, b, fmt.Sprint("small", o.IfAbsent), "x", &o)
		put(t, b, fmt.Sprint("large", o.IfAbsent), strings.Repeat("x", part+1), &o)
		for _, r := range f.Requests() {
			class, tags := r.Header.Get("X-Amz-Storage-Class"), r.Header.Get("X-Amz-Tagging")
			begins := r.Op == "PutObject" || r.Op == "CreateMultipartUpload"
			if begins && o.Tags != nil && (class != "STANDARD_IA" || tags != "a%2Fb=%C3%A9%3D%3A&team=a%20b%2Bc") || (!begins || o.Tags == nil) && class+tags != "" {
				t.Errorf("%+v: %s: class %q, tags %q", o, r.Op, class, tags)
			}
		}
	}
	for _, o := range []object.PutOptions{{StorageClass: "STANDARD"}, {Tags: map[string]string{"a": "b"}}} {
		f.Reset()
		_, err := b.Resume(t.Context(), object.Upload{Key: "k", ID: "1"}, strings.NewReader("x"), &o)
		if !errors.Is(err, errors.ErrUnsupported) || store.OutcomeOf(err) != store.NotApplied || len(f.Requests()) > 0 {
			t.Errorf("resumed with %+v: %v after %v", o, err, f.Ops())
		}
	}
}

// TestOwnClient: a client that retries by itself does not when it is used here.
func TestOwnClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := awstest.NewS3("bucket")
		client := f.Client(func(o *s3.Options) { o.RetryMaxAttempts = 10 })
		b, err := s3bucket.New(client, "bucket", &s3bucket.Options{AssumeAbilities: object.Abilities()})
		if err != nil {
			t.Fatal(err)
		}
		f.Add("PutObject", 0, 1, awstest.Fault{Lose: true})
		err = put1(t.Context(), b, "k", "x", &object.PutOptions{IfAbsent: true})
		if store.OutcomeOf(err) != store.Unknown || len(f.Requests()) != 1 {
			t.Errorf("got %v after %v", err, f.Ops())
		}
	})
}

func TestSettings(t *testing.T) {
	f := awstest.NewS3("bucket")
	b := newBucket(t, f, nil)
	s, err := b.Settings(t.Context())
	if err != nil || s.Versioning != "" || s.ObjectLock || s.ExpiresVersions || len(s.Unreadable) != 0 {
		t.Errorf("plain: %+v, %v", s, err)
	}
	f.Versioning, f.ObjectLock, f.Lifecycle = "Enabled", true, awstest.ExpireOld
	s, err = b.Settings(t.Context())
	if err != nil || s.Versioning != "Enabled" || !s.ObjectLock || s.DefaultRetention != 72*time.Hour || !s.ExpiresVersions {
		t.Errorf("with everything: %+v, %v", s, err)
	}
	f.Add("GetBucketLifecycleConfiguration", 0, -1, awstest.Fault{Status: 403, Code: "AccessDenied"})
	s, err = b.Settings(t.Context())
	if err != nil || !errors.Is(s.Unreadable["lifecycle"], store.ErrDenied) || s.Versioning != "Enabled" {
		t.Errorf("without rights: %+v, %v", s, err)
	}
	if err := b.Exists(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestStreaming: a large body is held one part at a time.
func TestStreaming(t *testing.T) {
	f := awstest.NewS3("bucket")
	b := trusted(t, f)
	body := bytes.Repeat([]byte("0123456789"), (2*part+part/2)/10)
	info, err := b.Put(t.Context(), "k", bytes.NewReader(body), nil)
	if err != nil || info.Size != int64(len(body)) {
		t.Fatal(info, err)
	}
	if got := strings.Join(f.Ops(), " "); got != "CreateMultipartUpload UploadPart UploadPart UploadPart CompleteMultipartUpload" {
		t.Errorf("requests: %s", got)
	}
	if !bytes.Equal(f.Body("bucket", "k"), body) {
		t.Error("the body differs")
	}
	// A body that is exactly one part is small, and one of exactly two parts has no
	// third.
	for size, want := range map[int]int{part: 1, 2 * part: 4} {
		f.Reset()
		put(t, b, "k", strings.Repeat("x", size), nil)
		if got := len(f.Requests()); got != want {
			t.Errorf("%d bytes: %v", size, f.Ops())
		}
	}
}

// TestVirtualHost: the bucket may stand in the host name.
func TestVirtualHost(t *testing.T) {
	f := awstest.NewS3("bucket")
	b, err := s3bucket.New(f.Client(func(o *s3.Options) { o.UsePathStyle = false }), "bucket", nil)
	if err != nil {
		t.Fatal(err)
	}
	put(t, b, "a/b c", "x", nil)
	if got := f.Requests()[0].URL; got.Host != "bucket.s3.test" || got.Path != "/a/b c" {
		t.Errorf("sent to %s", got)
	}
	if body, _, err := object.ReadAll(t.Context(), b, "a/b c", 10, nil); err != nil || string(body) != "x" {
		t.Errorf("got %q, %v", body, err)
	}
}

// TestDirectoryBucket: a directory bucket is never asked for half a name or for the
// middle of a listing, and lists the same.
func TestDirectoryBucket(t *testing.T) {
	for _, name := range []string{"holdfast--use1-az4--x-s3", "point--use1-az4--xa-s3"} {
		t.Run(name, func(t *testing.T) { testDirectoryBucket(t, name) })
	}
}

func testDirectoryBucket(t *testing.T, name string) {
	f := awstest.NewS3(name)
	client := f.Client(func(o *s3.Options) {
		disabled := true
		o.DisableS3ExpressSessionAuth = &disabled
	})
	b, err := s3bucket.New(client, name, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"dir/job", "dir/job-2", "dir/x", "dirt"} {
		put(t, b, key, "x", nil)
	}
	f.Reset()
	var keys []string
	for info, err := range b.List(t.Context(), "dir/jo", &object.ListOptions{After: "dir/job"}) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	if !slices.Equal(keys, []string{"dir/job-2"}) {
		t.Errorf("got %q", keys)
	}
	for _, r := range f.Requests() {
		if q := r.URL.Query(); q.Get("prefix") != "dir/" || q.Has("start-after") {
			t.Errorf("asked for %s", r.URL)
		}
	}
}
