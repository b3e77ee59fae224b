package s3verstore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/compat/s3verstore"
	"github.com/holdfast-go/holdfast/store"
)

// TestRemoved: versions that a person removed are missed, as far as they can be.
func TestRemoved(t *testing.T) {
	remove := func(b *awstest.S3, from, to int) {
		for _, v := range live(b, "k!!")[from:to] {
			b.Remove("bucket", "k!!", v.ID)
		}
	}
	for _, c := range []struct {
		name  string
		spoil func(b *awstest.S3)
		fresh error // for a store that knows nothing
		knows error // for one that knows the register
	}{
		{"everything", func(b *awstest.S3) { remove(b, 0, len(live(b, "k!!"))) }, store.ErrNotFound, store.ErrNotFound},
		{"all but the confirmation", func(b *awstest.S3) { n := len(live(b, "k!!")); remove(b, 0, n-1) }, store.ErrCorrupt, store.ErrCorrupt},
		{"what is old", func(b *awstest.S3) { remove(b, 0, 2) }, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBucket()
				s := open(t, b, nil)
				v := mustPut(t, s, "k", "", "1")
				mustPut(t, s, "k", v, "2")
				c.spoil(b)
				if _, _, err := open(t, b, nil).Get(t.Context(), "k"); !errors.Is(err, c.fresh) {
					t.Errorf("a new store: %v, want %v", err, c.fresh)
				}
				if _, _, err := s.Get(t.Context(), "k"); !errors.Is(err, c.knows) {
					t.Errorf("the old store: %v, want %v", err, c.knows)
				}
			})
		})
	}
}

// TestSlowListing: a register whose listing has several pages is not damaged if a slow or busy server needs more
// than put_lifetime for them. Repair removes nothing.
func TestSlowListing(t *testing.T) {
	for name, c := range map[string]struct {
		fault func(n int) awstest.Fault // of the nth request for a page
		torn  bool
	}{
		"slow": {func(int) awstest.Fault { return awstest.Fault{Before: 2600 * time.Millisecond} }, false},
		"throttled": {func(n int) awstest.Fault {
			if n%4 == 0 {
				return awstest.Fault{}
			}
			return awstest.Fault{Before: 2 * time.Second, Status: 503, Code: "SlowDown"}
		}, false},
		"slow at first": {func(n int) awstest.Fault {
			if n > 1 {
				return awstest.Fault{}
			}
			return awstest.Fault{Before: 6 * time.Second}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBucket()
				b.PageSize = 1
				s := open(t, b, nil)
				mustPut(t, s, "k", mustPut(t, s, "k", "", "1"), "2")
				versions := live(b, "k!!")
				for _, v := range versions {
					if c.torn && (v.ID == versions[0].ID || v.ID == versions[2].ID) {
						b.Remove("bucket", "k!!", v.ID) // the two writes; their confirmations are left
					}
				}
				left := len(live(b, "k!!"))
				plan := func() {
					n := 0
					b.Plan(func(q awstest.Request) awstest.Fault {
						if q.Op != "ListObjectVersions" {
							return awstest.Fault{}
						}
						n++
						return c.fault(n)
					})
				}
				plan()
				s = open(t, b, nil)
				if _, _, err := s.Get(t.Context(), "k"); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrCorrupt) {
					t.Errorf("get: %v, want %v", err, store.ErrUnavailable)
				}
				plan()
				err := s.Repair(t.Context(), "k", func(string, []byte) error { return nil })
				if n := len(live(b, "k!!")); !errors.Is(err, store.ErrUnavailable) || n != left {
					t.Errorf("repair: %v, want %v; %d of %d versions are left", err, store.ErrUnavailable, n, left)
				}
			})
		})
	}
}

// TestShownNothing: a server that shows none of the versions for a moment, as one
// does while it removes some, makes no client think that there is nothing.
func TestShownNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		s := open(t, b, nil)
		v := mustPut(t, s, "k", "", "1")
		n := 0
		b.ListNothing = func(awstest.Request) bool { n++; return n%2 == 1 }
		if value, now := get(t, s, "k"); value != "1" || now != v {
			t.Errorf("the old store reads %q %q", value, now)
		}
		n = 0
		if value, now := get(t, open(t, b, nil), "k"); value != "1" || now != v {
			t.Errorf("a new store reads %q %q", value, now)
		}
		n = 0
		_, err := open(t, b, nil).Put(t.Context(), "k", "", []byte("2"))
		outcome(t, "a create over it", err, store.NotApplied, store.ErrConflict)
		// A delete marker hides the versions only from requests that name none.
		b.Delete("bucket", "k!!")
		n = 0
		if value, now := get(t, open(t, b, nil), "k"); value != "1" || now != v {
			t.Errorf("a new store reads %q %q below a delete marker", value, now)
		}
		for _, w := range live(b, "k!!") {
			b.Remove("bucket", "k!!", w.ID)
		}
		b.ListNothing = nil
		if _, _, err := open(t, b, nil).Get(t.Context(), "k"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("only a delete marker is left: %v, want %v", err, store.ErrNotFound)
		}
	})
}

// TestNothingShown: a listing that shows nothing of a register, as a server may answer
// while versions are removed, is no reason to refuse a write.
func TestNothingShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		v := mustPut(t, open(t, b, nil), "k", "", "0")
		n := 0
		b.ListNothing = func(awstest.Request) bool { n++; return n == 1 }
		mustPut(t, open(t, b, nil), "k", v, "1")
	})
}

// TestOtherBody: a server that answers for a version with the body of a newer one, as
// versitygw can, is asked again.
func TestOtherBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		s := open(t, b, nil)
		v := mustPut(t, s, "k", "", "1")
		mustPut(t, s, "k", v, "2")
		asked := map[string]int{} // bodies are read side by side: count for each version
		b.AnyBody = func(q awstest.Request) bool {
			id := q.URL.Query().Get("versionId")
			asked[id]++
			return asked[id]%2 == 1
		}
		if value, _ := get(t, open(t, b, nil), "k"); value != "2" {
			t.Errorf("read %q", value)
		}
	})
}

// TestOrder: ids that are ULIDs give the order, whatever a listing shows first; any
// other server must not change its order.
func TestOrder(t *testing.T) {
	for _, ulids := range []bool{true, false} {
		t.Run(fmt.Sprint("ULIDs ", ulids), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBucket()
				b.ULIDs = ulids
				s := open(t, b, nil)
				v := mustPut(t, s, "k", "", "1")
				v = mustPut(t, s, "k", v, "2")
				b.Reorder("bucket", "k!!", 1, 2)
				value, now, err := s.Get(t.Context(), "k")
				if ulids && (err != nil || string(value) != "2" || now != v) {
					t.Errorf("read %q %q, %v", value, now, err)
				}
				if !ulids && !errors.Is(err, store.ErrUnsafe) {
					t.Errorf("get: %v, want %v", err, store.ErrUnsafe)
				}
			})
		})
	}
}

// TestLives: clients whose bounds do not go together are reported.
func TestLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		slow := open(t, b, &s3verstore.Options{PutLifetime: 20 * time.Second})
		v := mustPut(t, slow, "k", "", "1")
		if _, _, err := open(t, b, nil).Get(t.Context(), "k"); !errors.Is(err, store.ErrMisconfigured) {
			t.Errorf("get with a pause that is too short: %v, want %v", err, store.ErrMisconfigured)
		}
		patient := open(t, b, &s3verstore.Options{SettleDelay: 30 * time.Second})
		v = mustPut(t, patient, "k", v, "2")
		mustPut(t, slow, "k", v, "3")
	})
}

// TestNotFoundOfSomethingElse: a server, or a proxy, that answers 404 to a request which
// names no version makes no client think that the register does not exist.
func TestNotFoundOfSomethingElse(t *testing.T) {
	for _, code := range []string{"NoSuchKey", "NoSuchVersion", "NotFound"} {
		for _, op := range []string{"ListObjectVersions", "GetBucketVersioning", "PutObject"} {
			synctest.Test(t, func(t *testing.T) {
				b := newBucket()
				v := mustPut(t, open(t, b, nil), "k", "", "1")
				b.Plan(refuse(op, 404, code))
				s := open(t, b, nil)
				_, err := s.Put(t.Context(), "k", v, nil)
				if err == nil || errors.Is(err, store.ErrNotFound) {
					t.Errorf("%s answers 404 %s, put: %v", op, code, err)
				}
				if op == "PutObject" {
					return
				}
				for name, read := range map[string]func() error{
					"get":             func() error { _, _, err := s.Get(t.Context(), "k"); return err },
					"get-uncommitted": func() error { _, _, err := s.GetUncommitted(t.Context(), "k"); return err },
				} {
					if err := read(); err == nil || errors.Is(err, store.ErrNotFound) {
						t.Errorf("%s answers 404 %s, %s: %v", op, code, name, err)
					}
				}
			})
		}
	}
}

// TestListDuringRenewals: the newest version of a register with a long name is removed after it was listed.
func TestListDuringRenewals(t *testing.T) {
	for _, key := range []string{"k", strings.Repeat("k", 300)} {
		synctest.Test(t, func(t *testing.T) {
			b := newBucket()
			s := open(t, b, &s3verstore.Options{PutLifetime: s3verstore.MinPutLifetime})
			v := mustPut(t, s, key, "", "0")
			b.Add("GetObject", 0, 1, awstest.Fault{Before: 10 * time.Second})
			var listed []string
			listing := make(chan error)
			go func() {
				var err error
				for key, listErr := range open(t, b, &s3verstore.Options{PutLifetime: s3verstore.MinPutLifetime}).List(t.Context(), "") {
					listed, err = append(listed, key), listErr
				}
				listing <- err
			}()
			for range 50 {
				v = mustPut(t, s, key, v, "x")
			}
			if err := <-listing; err != nil || !slices.Equal(listed, []string{key}) {
				t.Errorf("%.20q, %v", listed, err)
			}
		})
	}
}
