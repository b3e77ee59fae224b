package s3store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/aws/internal/registertest"
	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/aws/s3store"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func newStore(t *testing.T, f *awstest.S3, opts *s3store.Options, client ...func(*s3.Options)) *s3store.Store {
	t.Helper()
	b, err := s3bucket.New(f.Client(client...), "bucket", nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := s3store.New(b, "pre/fix", opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newServer returns a stand-in with a bucket, and trusted a store on it whose server needs
// no probe.
func newServer() *awstest.S3 { return awstest.NewS3("bucket") }

func trusted(t *testing.T, f *awstest.S3) *s3store.Store {
	return newStore(t, f, &s3store.Options{Trusted: true})
}

func TestStore(t *testing.T) {
	var f *awstest.S3
	open := func(t *testing.T) store.Store {
		f = awstest.NewS3("bucket")
		f.PageSize = 100
		return newStore(t, f, nil)
	}
	storetest.Run(t, open, &storetest.Options{
		Reopen: func(t *testing.T, _ store.Store) store.Store { return newStore(t, f, nil) },
		Intercept: func(t *testing.T, _ store.Store, carry func(func() error) error) store.Store {
			return newStore(t, f, nil, func(o *s3.Options) { o.HTTPClient = awstest.InterceptedClient(f, carry) })
		},
		Bubble: true, Rounds: 3, Keys: 250, Racers: 6,
	})
}

// TestRequests: how many requests each operation takes.
func TestRequests(t *testing.T) {
	f := awstest.NewS3("bucket")
	s := newStore(t, f, &s3store.Options{Trusted: true})
	var v, w store.Version
	ctx := t.Context()
	for _, c := range []struct {
		name string
		do   func() error
		want error
		ops  string
	}{
		{"get of nothing", func() error { _, _, err := s.Get(ctx, "k"); return err }, store.ErrNotFound, "GetObject"},
		{"create", func() (err error) { v, err = s.Put(ctx, "k", "", []byte("1")); return err }, nil, "PutObject"},
		{"create again", func() error { _, err := s.Put(ctx, "k", "", []byte("1")); return err }, store.ErrConflict, "PutObject GetObject"},
		{"swap", func() (err error) { w, err = s.Put(ctx, "k", v, []byte("2")); return err }, nil, "PutObject"},
		{"stale swap", func() error { _, err := s.Put(ctx, "k", v, []byte("2")); return err }, store.ErrConflict, "PutObject GetObject"},
		{"get", func() error { _, _, err := s.Get(ctx, "k"); return err }, nil, "GetObject"},
		{"get with age", func() error { _, _, _, err := s.GetAge(ctx, "k"); return err }, nil, "GetObject"},
		{"get unchanged", func() error { _, _, _, err := s.GetIfChanged(ctx, "k", w); return err }, nil, "GetObject"},
		{"list", func() error {
			for _, err := range s.List(ctx, "") {
				if err != nil {
					return err
				}
			}
			return nil
		}, nil, "ListObjectsV2"},
		{"delete", func() error { return s.Delete(ctx, "k", w) }, nil, "PutObject"},
		{"create over a tombstone", func() error { _, err := s.Put(ctx, "k", "", []byte("1")); return err }, nil, "PutObject GetObject PutObject"},
	} {
		f.Reset()
		if err := c.do(); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
		if got := strings.Join(f.Ops(), " "); got != c.ops {
			t.Errorf("%s: requests %q, want %q", c.name, got, c.ops)
		}
	}
	for i, c := range []struct{ versioning, look string }{{"", ""}, {"Enabled", "ListObjectsV2 "}} {
		f.Versioning = c.versioning
		unknown := newStore(t, f, nil)
		f.Reset()
		registertest.Put(t, unknown, fmt.Sprint("new", i), "", "1")
		if got := strings.Join(f.Ops(), " "); got != "PutObject PutObject PutObject PutObject PutObject DeleteObject "+c.look+"PutObject" {
			t.Errorf("the first write to an unknown server, versioning %q: %s", c.versioning, got)
		}
		for _, r := range f.Requests() {
			if !strings.HasPrefix(r.Key, "pre/fix/") && r.Op != "ListObjectsV2" {
				t.Errorf("%s of %q, which is not below the prefix", r.Op, r.Key)
			}
		}
		f.Reset()
		registertest.Put(t, unknown, fmt.Sprint("next", i), "", "1")
		if got := len(f.Ops()); got != 1 {
			t.Errorf("the second: %v", f.Ops())
		}
	}
}

// TestLostReplies: a write whose reply is lost, repeated, delayed or refused on the
// way is settled. The SDK's own retry turns success into a conflict.
func TestLostReplies(t *testing.T) {
	registertest.LostReplies(t, "PutObject", []registertest.LostReply{
		{Name: "applied, reply lost", Fault: awstest.Fault{Lose: true}, Ops: "PutObject GetObject"},
		{Name: "not applied, reply lost", Fault: awstest.Fault{Drop: true}, Ops: "PutObject GetObject PutObject"},
		{Name: "repeated on the way", Fault: awstest.Fault{Twice: true}, Ops: "PutObject GetObject"},
		{Name: "500, applied", Fault: awstest.Fault{Status: 500, Code: "InternalError", Applied: true}, Ops: "PutObject GetObject"},
		{Name: "500, not applied", Fault: awstest.Fault{Status: 500, Code: "InternalError"}, Ops: "PutObject GetObject PutObject"},
		{Name: "503", Fault: awstest.Fault{Status: 503, Code: "SlowDown"}, Ops: "PutObject GetObject PutObject"},
		{Name: "409", Fault: awstest.Fault{Status: 409, Code: "ConditionalRequestConflict"}, Ops: "PutObject PutObject"},
		{Name: "no answer", Fault: awstest.Fault{Hang: true}, Ops: "PutObject GetObject"},
		// The first request arrives at 6 s, after the second has been applied.
		{Name: "late", Fault: awstest.Fault{Before: 6 * time.Second}, Ops: "PutObject GetObject PutObject"},
	}, newServer, trusted)
}

// TestAge: it is reported by the store's clock, as a lower bound, and only where it
// proves something.
func TestAge(t *testing.T) {
	for _, c := range []struct {
		name   string
		broken awstest.S3Broken
		opts   s3store.Options
		stood  time.Duration
		want   time.Duration // at least; the granularity of a second may take one more off
	}{
		{"young", awstest.S3Broken{}, s3store.Options{}, 30 * time.Second, -1},
		{"just not old", awstest.S3Broken{}, s3store.Options{}, 60 * time.Second, -1},
		{"old", awstest.S3Broken{}, s3store.Options{}, 10 * time.Minute, 10*time.Minute - 61*time.Second},
		{"another safety", awstest.S3Broken{}, s3store.Options{MaxClockSkew: 5 * time.Second}, 10 * time.Minute, 10*time.Minute - 6*time.Second},
		{"from a cache", awstest.S3Broken{Cached: true}, s3store.Options{}, 10 * time.Minute, -1},
		{"no Date", awstest.S3Broken{NoDate: true}, s3store.Options{}, 10 * time.Minute, -1},
		{"the store is ahead a little", awstest.S3Broken{Skew: 30 * time.Second}, s3store.Options{}, 10 * time.Minute, 10*time.Minute - 61*time.Second},
		{"the store is ahead too far", awstest.S3Broken{Skew: 62 * time.Second}, s3store.Options{}, 10 * time.Minute, -1},
		{"the store is behind too far", awstest.S3Broken{Skew: -62 * time.Second}, s3store.Options{}, 10 * time.Minute, -1},
		{"written in the future", awstest.S3Broken{LastModifiedSkew: time.Hour}, s3store.Options{}, 10 * time.Minute, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := awstest.NewS3("bucket")
				f.Broken = c.broken
				c.opts.Trusted = true
				s := newStore(t, f, &c.opts)
				if _, _, age, err := s.GetAge(t.Context(), "k"); !errors.Is(err, store.ErrNotFound) || age >= 0 {
					t.Errorf("absent: %v, %v", age, err)
				}
				time.Sleep(300 * time.Millisecond) // not at the beginning of a second
				v := registertest.Put(t, s, "k", "", "1")
				time.Sleep(c.stood)
				value, now, age, err := s.GetAge(t.Context(), "k")
				if err != nil || string(value) != "1" || now != v {
					t.Fatalf("got %q %q %v", value, now, err)
				}
				switch {
				case c.want < 0 && age >= 0:
					t.Errorf("age %v, want none", age)
				case c.want >= 0 && (age > c.want || age < c.want-time.Second):
					t.Errorf("age %v, want %v", age, c.want)
				}
				// The bound is one: never more than its age.
				if age > c.stood {
					t.Errorf("age %v of what stood for %v", age, c.stood)
				}
			})
		})
	}
}

// TestUnsafe: a server that ignores a condition is refused before anything is
// written, and used if the user insists.
func TestUnsafe(t *testing.T) {
	for name, broken := range map[string]awstest.S3Broken{
		"If-None-Match":    {IgnoreIfNoneMatch: true},
		"If-Match":         {IgnoreIfMatch: true},
		"creates":          {IgnoreIfMatchGone: true},
		"equal ETags":      {EqualETags: true},
		"refuses, writes":  {RefuseAndWrite: true},
		"knows none":       {NoConditions: true},
		"both":             {IgnoreIfMatch: true, IgnoreIfNoneMatch: true},
		"delete marker":    {},
		"nothing is wrong": {},
	} {
		t.Run(name, func(t *testing.T) {
			f := awstest.NewS3("bucket")
			f.Broken = broken
			f.Put("bucket", "pre/fix/k.json", []byte(`{"holdfast":1,"nonce":"AAAAAAAAAAAA","value":"the holder's"}`))
			s := newStore(t, f, nil)
			_, v, err := s.Get(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Put(t.Context(), "k", v, []byte("1"))
			if broken == (awstest.S3Broken{}) {
				if err != nil {
					t.Errorf("a good server: %v", err)
				}
				return
			}
			if !errors.Is(err, store.ErrUnsafe) || store.OutcomeOf(err) != store.NotApplied {
				t.Errorf("got %v (%v)", err, store.OutcomeOf(err))
			}
			if got := f.Keys("bucket"); len(got) != 1 || !strings.Contains(string(f.Body("bucket", got[0])), "the holder's") {
				t.Errorf("the bucket holds %q", got)
			}
			insisting := newStore(t, f, &s3store.Options{Unsafe: []object.Ability{object.PutIfAbsent, object.PutIfMatch}})
			if err := insisting.Verify(t.Context()); err != nil {
				t.Errorf("insisted: %v", err)
			}
		})
	}
}

// TestFirstUseUnderOneFault: whatever happens to one of the requests of the probe, a
// good server is not called bad.
func TestFirstUseUnderOneFault(t *testing.T) {
	for name, fault := range map[string]awstest.Fault{
		"reply lost":   {Lose: true},
		"dropped":      {Drop: true},
		"repeated":     {Twice: true},
		"500, applied": {Status: 500, Code: "InternalError", Applied: true},
		"409":          {Status: 409, Code: "ConditionalRequestConflict"},
		"no answer":    {Hang: true},
	} {
		t.Run(name, func(t *testing.T) {
			for n := range 12 {
				synctest.Test(t, func(t *testing.T) {
					f := awstest.NewS3("bucket")
					s := newStore(t, f, nil)
					f.Add("", n, 1, fault)
					_, err := s.Put(t.Context(), "k", "", []byte("1"))
					if errors.Is(err, store.ErrUnsafe) || store.OutcomeOf(err) == store.Unknown {
						t.Errorf("at request %d: %v", n, err)
					}
					if err != nil {
						registertest.Put(t, s, "k", "", "1")
					}
					if got := f.Keys("bucket"); len(got) > 1 && fault != (awstest.Fault{Hang: true}) {
						t.Errorf("at request %d: left behind %q", n, got)
					}
				})
			}
		})
	}
}

// TestReads: a read starts again when its answer breaks off, or has the ETag of one
// state and the body of another.
func TestReads(t *testing.T) {
	for name, broken := range map[string]awstest.S3Broken{"broken off": {BrokenOff: true}, "mixed": {MixedReads: true}, "ETags of another kind": {EqualETags: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := awstest.NewS3("bucket")
				f.Broken = broken
				s := newStore(t, f, &s3store.Options{Trusted: true})
				v := registertest.Put(t, s, "k", "", "1")
				for i := range 5 {
					value := fmt.Sprint(i)
					v = registertest.Put(t, s, "k", v, value)
					f.Reset()
					got, now, err := s.Get(t.Context(), "k")
					if err != nil || string(got) != value || now != v {
						t.Errorf("got %s %q %v; put gave %q", got, now, err, v)
					}
					if name == "ETags of another kind" && i > 0 && len(f.Ops()) != 1 {
						t.Errorf("it is asked each time: %v", f.Ops())
					}
				}
			})
		})
	}
}

// TestMarkerExists: a server for which a delete marker is an object cannot create
// what a person removed by hand: that is reported.
func TestMarkerExists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := awstest.NewS3("bucket")
		f.Versioning, f.Broken.MarkerExists = "Enabled", true
		s := newStore(t, f, nil)
		registertest.Put(t, s, "k", "", "1")
		if err := s.S3Bucket().Delete(t.Context(), s.ObjectKey("k"), nil); err != nil {
			t.Fatal(err)
		}
		_, err := s.Put(t.Context(), "k", "", []byte("1"))
		if !errors.Is(err, store.ErrUnsafe) || !strings.Contains(err.Error(), "delete marker") {
			t.Errorf("got %v", err)
		}
		f.Broken.MarkerExists = false
		registertest.Put(t, s, "k", "", "1")
	})
}

// TestDeadline: a request that gets no answer leaves time to settle it, however
// little the caller has.
func TestDeadline(t *testing.T) { registertest.Deadline(t, "PutObject", newServer, trusted) }

// TestFaultyCounter: many that raise counters through a network that loses, repeats,
// delays and refuses lose no acknowledged increment, and count none twice.
func TestFaultyCounter(t *testing.T) {
	registertest.FaultyCounter(t, []awstest.Fault{
		{Lose: true}, {Drop: true}, {Twice: true}, {Status: 500, Code: "InternalError"}, {Status: 500, Code: "InternalError", Applied: true},
		{Status: 409, Code: "ConditionalRequestConflict"}, {Status: 503, Code: "SlowDown"}, {Before: 7 * time.Second}, {After: 3 * time.Second}, {Hang: true},
	}, newServer, trusted)
}

func TestOpen(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	s, err := s3store.Open(t.Context(), "s3://bucket/a/b?endpoint=http://127.0.0.1:1&region=x", nil)
	if err != nil {
		t.Fatal(err)
	}
	if traits := s.Traits(); traits.Name != "s3://bucket/a/b" || traits.Trusted || traits.MinTTL != s3store.MinTTL || traits.Local {
		t.Errorf("got %+v", traits)
	}
	if traits := s.Traits(); traits.ID != "bucketstore:s3://127.0.0.1:1/x/bucket" || traits.Prefix != "a/b/" {
		t.Errorf("its identity is %+v", traits)
	}
	if got := s.ObjectKey("k"); got != "a/b/k.json" {
		t.Errorf("got %q", got)
	}
	if s, err := s3store.Open(t.Context(), "s3://bucket?region=eu-west-1", nil); err != nil || !s.Traits().Trusted {
		t.Errorf("AWS itself: %v", err)
	}
	for _, url := range []string{"s3://", "dynamodb://x", "s3://b?foo=1"} {
		if _, err := s3store.Open(t.Context(), url, nil); !errors.Is(err, store.ErrMisconfigured) {
			t.Errorf("%s: %v", url, err)
		}
	}
	if _, err := s3store.Open(t.Context(), "s3://b?region=x", &s3store.Options{MaxClockSkew: time.Millisecond}); err == nil {
		t.Error("a safety of a millisecond is accepted")
	}
}

// TestOldLocks: before its first write a Store looks for locks of the program that takes the
// oldest version for the owner, and makes no register with the name of one. That is also so
// on Amazon S3, which needs no probe; where the server is known to be good it does not look.
func TestOldLocks(t *testing.T) {
	uuid := "6b8b4567-327b-43c6-9b9e-0d8e3f0e1a2b"
	meta := map[string]string{"timeout": "10s", "lockowner": uuid}
	lock := func(name string) func(*awstest.S3) {
		return func(f *awstest.S3) { f.PutMeta("bucket", name, []byte(name+"-"+uuid), meta) }
	}
	for _, c := range []struct {
		name    string
		prepare func(*awstest.S3)
		opts    s3store.Options
		refused bool
		noted   bool
	}{
		{"nothing", func(*awstest.S3) {}, s3store.Options{}, false, true},
		{"a lock below the prefix", lock("pre/fix/job"), s3store.Options{}, true, false},
		{"a lock at the root", lock("job"), s3store.Options{}, true, false},
		{"a lock of another name", lock("jobs"), s3store.Options{}, false, false},
		{"an object that only looks like one", func(f *awstest.S3) { f.PutMeta("bucket", "job", []byte("job-"+uuid), nil) }, s3store.Options{}, false, true},
		{"no right to list", func(f *awstest.S3) {
			lock("job")(f)
			f.Add("ListObjectsV2", 0, 1, awstest.Fault{Status: 403, Code: "AccessDenied"})
		}, s3store.Options{}, false, true},
		{"a lock below the prefix, no right to list the root", func(f *awstest.S3) {
			lock("pre/fix/job")(f)
			f.Add("ListObjectsV2", 0, 1, awstest.Fault{Status: 403, Code: "AccessDenied"})
		}, s3store.Options{}, true, false},
		{"a lock below the prefix, behind a thousand objects", func(f *awstest.S3) {
			lock("pre/fix/job")(f)
			for i := range 1000 {
				f.Put("bucket", fmt.Sprint("a", i), nil)
			}
		}, s3store.Options{}, true, false},
		{"a bucket without versions, in which that program excludes nothing", func(f *awstest.S3) {
			lock("job")(f)
			f.Versioning = ""
		}, s3store.Options{}, false, true},
		{"known", lock("job"), s3store.Options{Trusted: true}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := awstest.NewS3("bucket")
			f.Versioning = "Enabled"
			c.prepare(f)
			noted := false
			c.opts.OnVerified = func() { noted = true }
			s := newStore(t, f, &c.opts)
			for range 2 {
				_, err := s.Put(t.Context(), "lock/job", "", []byte("1"))
				if c.refused && (!errors.Is(err, store.ErrUnsafe) || store.OutcomeOf(err) != store.NotApplied || !strings.Contains(err.Error(), `the name "job" is used by`)) {
					t.Errorf("got %v, want that another lock uses the name", err)
				}
				if !c.refused && err != nil && !errors.Is(err, store.ErrConflict) {
					t.Error(err)
				}
			}
			registertest.Put(t, s, "lock/other", "", "1")
			if noted != c.noted {
				t.Errorf("noted as good: %v, want %v", noted, c.noted)
			}
			lists := strings.Count(strings.Join(f.Ops(), " "), "ListObjectsV2")
			if want := 2; lists > want || c.opts.Trusted && lists > 0 {
				t.Errorf("%d listings for three writes: %v", lists, f.Ops())
			}
			if found, err := s.ForeignLocks(t.Context()); err != nil || len(found.Legacy) != strings.Count(c.name, "below") {
				t.Errorf("ForeignLocks: got %+v, %v", found, err)
			}
		})
	}
}

// TestOldLocksOnAWS: on Amazon S3 nothing but the look for old locks precedes the first write.
func TestOldLocksOnAWS(t *testing.T) {
	f := awstest.NewS3("bucket")
	s := newStore(t, f, nil, func(o *s3.Options) { o.BaseEndpoint = nil })
	if !s.S3Bucket().OnAWS() {
		t.Fatal("the test needs a client that counts as Amazon's")
	}
	registertest.Put(t, s, "lock/job", "", "1")
	registertest.Put(t, s, "lock/other", "", "1")
	if got := strings.Join(f.Ops(), " "); got != "ListObjectsV2 PutObject PutObject" {
		t.Errorf("requests %q", got)
	}
}

// TestRepair: a register that cannot be read is replaced by a tombstone, if it is still what
// was kept; a lost reply is settled.
func TestRepair(t *testing.T) {
	const object = "pre/fix/k.json"
	for _, c := range []struct {
		name   string
		put    string
		during string // put while the copy is made
		fault  *awstest.Fault
		want   error
		left   string // empty: a tombstone
	}{
		{"damaged", "damaged", "", nil, nil, ""},
		{"lost reply", "damaged", "", &awstest.Fault{Lose: true}, nil, ""},
		{"changed meanwhile", "damaged", "other", nil, store.ErrConflict, "other"},
		{"a newer format", `{"holdfast":2}`, "", nil, store.ErrInvalid, `{"holdfast":2}`},
		{"too large to keep", strings.Repeat("x", 1<<20), "", nil, store.ErrTooLarge, strings.Repeat("x", 1<<20)},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := awstest.NewS3("bucket")
			s := newStore(t, f, &s3store.Options{Trusted: true})
			f.Put("bucket", object, []byte(c.put))
			if c.fault != nil {
				f.Add("PutObject", 0, 1, *c.fault)
			}
			var kept []string
			err := s.Repair(t.Context(), "k", func(version string, body []byte) error {
				kept = append(kept, string(body))
				if version == "" && c.during != "" {
					f.Put("bucket", object, []byte(c.during))
				}
				return nil
			})
			if !errors.Is(err, c.want) || c.want != nil && store.OutcomeOf(err) != store.NotApplied {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if c.left != "" {
				if got := string(f.Body("bucket", object)); got != c.left {
					t.Errorf("%.80q is there, want %.80q", got, c.left)
				}
				return
			}
			if len(kept) != 2 || kept[0] != c.put {
				t.Errorf("kept %q", kept)
			}
			registertest.Put(t, s, "k", "", "1")
			if err := s.Repair(t.Context(), "k", nil); !errors.Is(err, store.ErrInvalid) {
				t.Errorf("of what can be read: got %v", err)
			}
		})
	}
	refusal := errors.New("no room")
	f := awstest.NewS3("bucket")
	s := newStore(t, f, &s3store.Options{Trusted: true})
	f.Put("bucket", object, []byte("damaged"))
	if err := s.Repair(t.Context(), "k", func(string, []byte) error { return refusal }); !errors.Is(err, refusal) || string(f.Body("bucket", object)) != "damaged" {
		t.Errorf("got %v", err)
	}
}
