package s3verstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/compat/s3verstore"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

func mustPut(t *testing.T, s store.Store, key string, prev store.Version, value string) store.Version {
	t.Helper()
	v, err := s.Put(t.Context(), key, prev, []byte(value))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func get(t *testing.T, s store.Store, key string) (string, store.Version) {
	t.Helper()
	value, v, err := s.Get(t.Context(), key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		t.Fatal(err)
	}
	return string(value), v
}

// outcome checks the outcome of an error and what it matches.
func outcome(t *testing.T, what string, err error, want store.Outcome, match error) {
	t.Helper()
	if got := store.OutcomeOf(err); got != want || match != nil && !errors.Is(err, match) {
		t.Errorf("%s: %v (%v), want %v: %v", what, err, got, want, match)
	}
}

// only plans p for the nth PUT from now on, counted from 1.
func only(nth int, p awstest.Fault) func(awstest.Request) awstest.Fault {
	n := 0
	return func(q awstest.Request) awstest.Fault {
		if q.Op != "PutObject" {
			return awstest.Fault{}
		}
		if n++; n == nth {
			return p
		}
		return awstest.Fault{}
	}
}

// TestRequests: how many requests each operation takes, and how long.
func TestRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		s, other := open(t, b, nil), open(t, b, nil)
		ctx := t.Context()
		settle := s.SettleDelay()
		var v store.Version
		for _, c := range []struct {
			name string
			do   func() error
			want error
			ops  string
			took time.Duration
		}{
			{"first call", func() error { _, _, err := s.GetUncommitted(ctx, "k"); return err }, store.ErrNotFound, "VERSIONING LOCK RULES LIST", 0},
			{"create", func() (err error) { v, err = s.Put(ctx, "k", "", []byte("1")); return err }, nil, "LIST LIST PUT LIST PUT", settle},
			{"create another", func() error { _, err := s.Put(ctx, "other", "", nil); return err }, nil, "LIST PUT LIST PUT", settle},
			{"swap", func() (err error) { v, err = s.Put(ctx, "k", v, []byte("2")); return err }, nil, "PUT LIST PUT", settle},
			{"renewal", func() (err error) { v, err = s.PutUnsynced(ctx, "k", v, []byte("3")); return err }, nil, "PUT LIST", settle},
			{"get", func() error { _, _, err := s.Get(ctx, "k"); return err }, nil, "LIST", 0},
			{"highest mark", func() error { _, err := s.HighestToken(ctx, "k"); return err }, nil, "", 0},
			{"stale swap", func() error { _, err := s.Put(ctx, "k", "1-X", nil); return err }, store.ErrConflict, "LIST", 0},
			{"another's first look", func() error { _, _, err := other.GetUncommitted(ctx, "k"); return err }, nil, "VERSIONING LOCK RULES LIST GET GET GET GET", 0},
			{"another's next look", func() error { _, _, err := other.GetUncommitted(ctx, "k"); return err }, nil, "LIST", 0},
			{"another's get of what was just written", func() error { _, _, err := other.Get(ctx, "k"); return err }, nil, "LIST LIST", settle},
			{"delete", func() error { return s.Delete(ctx, "k", v) }, nil, "PUT LIST PUT", settle},
			{"get of nothing", func() error { _, _, err := s.Get(ctx, "k"); return err }, store.ErrNotFound, "LIST", 0},
			{"get of what never was", func() error { _, _, err := s.Get(ctx, "l"); return err }, store.ErrNotFound, "LIST HEAD", 0},
			{"list", func() error {
				for _, err := range s.List(ctx, "") {
					if err != nil {
						return err
					}
				}
				return nil
			}, nil, "LIST", 0},
		} {
			ops(b)
			start := time.Now()
			if err := c.do(); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", c.name, err, c.want)
			}
			if ops := brief(b); ops != c.ops {
				t.Errorf("%s took %q, want %q", c.name, ops, c.ops)
			}
			if took := time.Since(start); took != c.took {
				t.Errorf("%s took %v, want %v", c.name, took, c.took)
			}
		}
	})
}

// TestSlowPut: a PUT that takes longer than L has an unknown outcome, whatever
// outcome, and its entry is left alone.
func TestSlowPut(t *testing.T) {
	for name, p := range map[string]awstest.Fault{
		"the answer is late":  {After: 8 * time.Second},
		"the effect is late":  {Hidden: 8 * time.Second},
		"the answer is lost":  {Lose: true},
		"it never arrives":    {Drop: true},
		"the server fails":    {Status: 500, Code: "InternalError"},
		"the server is tired": {Status: 503, Code: "SlowDown"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBucket()
				s := open(t, b, nil)
				v := mustPut(t, s, "k", "", "1")
				b.Plan(only(1, p))
				ops(b)
				_, err := s.Put(t.Context(), "k", v, []byte("2"))
				outcome(t, "the slow put", err, store.Unknown, store.ErrUnavailable)
				if ops := ops(b); slices.Contains(ops, "DeleteObject") || slices.Contains(ops, "DeleteObjects") {
					t.Errorf("the entry was touched: %v", ops)
				}
				b.Plan(nil)
				time.Sleep(time.Minute)
				value, now := get(t, s, "k")
				if applied := p.Drop || p.Status != 0; (value == "2") == applied {
					t.Errorf("the value is %q", value)
				}
				// It is never taken for this writer's own, whatever is there.
				found, resolveErr := store.Resolve(t.Context(), s, "k", v, store.AttemptedVersion(err))
				if resolveErr != nil || found.Resolution != store.ResolutionUnknown || found.Current.Version != now || store.AttemptedVersion(err) == "" {
					t.Errorf("settled: %+v, %v", found, resolveErr)
				}
				mustPut(t, s, "k", now, "3")
			})
		})
	}
}

// TestDefinite: what the server refuses was not applied.
func TestDefinite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		s := open(t, b, nil)
		v := mustPut(t, s, "k", "", "1")
		b.Plan(only(1, awstest.Fault{Status: 403, Code: "AccessDenied"}))
		_, err := s.Put(t.Context(), "k", v, []byte("2"))
		outcome(t, "put without the right", err, store.NotApplied, store.ErrDenied)

		// A write that is refused its confirmation is not known to stay.
		b.Plan(only(2, awstest.Fault{Status: 403, Code: "AccessDenied"}))
		_, err = s.Put(t.Context(), "k", v, []byte("2"))
		outcome(t, "put without its confirmation", err, store.Unknown, store.ErrDenied)
	})
}

// TestConfirmation: a confirmation that fails is sent again while there is time. A late
// confirmation does not confirm the write.
func TestConfirmation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		s := open(t, b, nil)
		v := mustPut(t, s, "k", "", "1")
		b.Plan(only(2, awstest.Fault{Status: 503, Code: "SlowDown"}))
		ops(b)
		v = mustPut(t, s, "k", v, "2")
		if ops := brief(b); ops != "PUT LIST PUT PUT" {
			t.Errorf("it took %q", ops)
		}
		b.Plan(only(2, awstest.Fault{After: 7 * time.Second}))
		_, err := s.Put(t.Context(), "k", v, []byte("3"))
		outcome(t, "a put with a late confirmation", err, store.Unknown, nil)
		// The time counts from the beginning of the listing before.
		b.Plan(func(q awstest.Request) awstest.Fault {
			switch {
			case q.Op == "ListObjectVersions":
				return awstest.Fault{After: 4 * time.Second}
			case strings.Count(string(q.Body), "\nV ") == 0 && q.Op == "PutObject":
				return awstest.Fault{After: 2 * time.Second}
			}
			return awstest.Fault{}
		})
		_, now := get(t, s, "k")
		_, err = s.Put(t.Context(), "k", now, []byte("4"))
		outcome(t, "a put with a slow listing and a slow confirmation", err, store.Unknown, nil)
	})
}

// TestDeadline: a write whose context would end during the settle delay sends no request.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		s := open(t, b, nil)
		v := mustPut(t, s, "k", "", "1")
		ops(b)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := s.Put(ctx, "k", v, []byte("2"))
		outcome(t, "put with five seconds", err, store.NotApplied, context.DeadlineExceeded)
		if ops := ops(b); len(ops) > 0 {
			t.Errorf("requests were sent: %v", ops)
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		_, err = s.Put(ctx, "k", v, []byte("2"))
		outcome(t, "put that is cancelled in its pause", err, store.Unknown, context.Canceled)
	})
}

// TestTwice: a PUT that a proxy repeats is one write.
func TestTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		b.Plan(func(q awstest.Request) awstest.Fault { return awstest.Fault{Twice: q.Op == "PutObject"} })
		s := open(t, b, nil)
		v := mustPut(t, s, "k", "", "0")
		for i := range 40 {
			v = mustPut(t, s, "k", v, fmt.Sprint(i))
			if value, now := get(t, open(t, b, nil), "k"); value != fmt.Sprint(i) || now != v {
				t.Fatalf("read %q %q, want %d %q", value, now, i, v)
			}
		}
		if n := len(live(b, "k!!")); n > 40 {
			t.Errorf("%d versions are left", n)
		}
	})
}

// TestCompaction: renewals leave no more than a handful of versions behind, with one
// request now and then, and another client can follow at any time.
func TestCompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		b.Latency = 30 * time.Millisecond
		s, other := open(t, b, nil), open(t, b, nil)
		v := mustPut(t, s, "k", "", "0")
		var most, deletes int
		for i := range 300 {
			var err error
			if v, err = s.PutUnsynced(t.Context(), "k", v, fmt.Append(nil, i)); err != nil {
				t.Fatal(err)
			}
			most = max(most, len(live(b, "k!!")))
			value, _, err := other.GetUncommitted(t.Context(), "k")
			if err != nil || string(value) != fmt.Sprint(i) {
				t.Fatalf("another sees %q, %v; want %d", value, err, i)
			}
		}
		for _, op := range ops(b) {
			if op == "DeleteObjects" {
				deletes++
			}
		}
		if most > 14 || deletes == 0 || deletes > 60 {
			t.Errorf("up to %d versions, and %d requests to remove some", most, deletes)
		}
	})
}

// TestCleanUpFails: versions that can't be removed make no call fail, and are tried
// again; a server that takes no batches is given them one by one.
func TestCleanUpFails(t *testing.T) {
	for name, refuse := range map[string]awstest.Fault{
		"without the right": {Status: 403, Code: "AccessDenied"},
		"for a while":       {Status: 503, Code: "SlowDown"},
		"in batches":        {Status: 501, Code: "NotImplemented"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log strings.Builder
				b := newBucket()
				n := 0
				b.Plan(func(q awstest.Request) awstest.Fault {
					if q.Op == "DeleteObjects" || q.Op == "DeleteObject" && name != "in batches" {
						if n++; n < 8 {
							return refuse
						}
					}
					return awstest.Fault{}
				})
				s := open(t, b, &s3verstore.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
				v := mustPut(t, s, "k", "", "0")
				for range 60 {
					v = mustPut(t, s, "k", v, "x")
				}
				if left := len(live(b, "k!!")); left > 20 {
					t.Errorf("%d versions are left", left)
				}
				if told := log.Len() > 0; told != (name != "in batches") {
					t.Errorf("the log says %q", log.String())
				}
			})
		})
	}
}

// TestCleanUpHangs: a server that does not answer the removal of versions ends no lease, also if
// L and the TTL are short.
func TestCleanUpHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		b.Add("DeleteObjects", 0, -1, awstest.Fault{Hang: true})
		s := open(t, b, &s3verstore.Options{PutLifetime: s3verstore.MinPutLifetime})
		l, err := leasesOn(t, s, &lease.Options{TTL: s.Traits().MinTTL, Grace: -1}).Acquire(t.Context(), "job", nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := l.Err(); err != nil {
			t.Error(err)
		}
	})
}

// TestManyVersions: an object with 10,000 versions, as renewals leave them where
// no client cleans up, is listed in pages; only the bodies of needed versions are read,
// and it is brought down to size.
func TestManyVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		nonce := func(i uint64) string { return fmt.Sprintf("N%d", i) }
		prev, start := "", ""
		for i := uint64(1); i <= 10_000; i++ {
			body, err := s3verstore.Written("k", nonce(i), prev, i, start, i-1, i, 5*time.Second, fmt.Append(nil, i))
			if err != nil {
				t.Fatal(err)
			}
			prev, start = nonce(i), put(b, "k!!", string(body), nil)
		}
		s := open(t, b, nil)
		value, v := get(t, s, "k")
		if value != "10000" {
			t.Errorf("read %q, want 10000", value)
		}
		ops := ops(b)
		if gets := slices.DeleteFunc(ops, func(op string) bool { return op != "GetObject" }); len(gets) > 2 {
			t.Errorf("%d bodies were read", len(gets))
		}
		mustPut(t, s, "k", v, "x")
		if left := len(live(b, "k!!")); left > 10 {
			t.Errorf("%d versions are left", left)
		}
	})
}

// TestBacklog: where bodies take so long that not all can be read in the time that a
// clean-up has, stores that know nothing get on with it all the same.
func TestBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		s := open(t, b, &s3verstore.Options{KeepAllVersions: true})
		v := mustPut(t, s, "k", "", "0")
		for i := range 400 {
			v = mustPut(t, s, "k", v, fmt.Sprint(i))
		}
		before := len(live(b, "k!!"))
		b.Plan(func(q awstest.Request) awstest.Fault {
			if q.Op == "GetObject" {
				return awstest.Fault{After: 100 * time.Millisecond}
			}
			return awstest.Fault{}
		})
		for i := range 5 {
			v = mustPut(t, open(t, b, nil), "k", v, fmt.Sprint(i))
		}
		if left := len(live(b, "k!!")); left > before/2 {
			t.Errorf("%d of %d versions are left", left, before)
		}
	})
}

// TestRace: of writers that start from one state one wins, also when their PUTs
// become visible in any order; what lost is cleaned up in the end.
func TestRace(t *testing.T) {
	for seed := range 30 {
		synctest.Test(t, func(t *testing.T) {
			b := newBucket()
			b.Plan(late)
			b.Latency = 20 * time.Millisecond
			first := open(t, b, nil)
			v := mustPut(t, first, "k", "", "0")
			var wg sync.WaitGroup
			wins := make([]int, 5)
			for i := range wins {
				s := open(t, b, nil)
				wg.Go(func() {
					switch _, err := s.Put(t.Context(), "k", v, fmt.Append(nil, i)); {
					case err == nil:
						wins[i] = 1
					case !errors.Is(err, store.ErrConflict):
						t.Error(err)
					}
				})
			}
			wg.Wait()
			won := 0
			for i, w := range wins {
				won += w
				if value, _ := get(t, first, "k"); w == 1 && value != fmt.Sprint(i) {
					t.Errorf("%d won, and the value is %q", i, value)
				}
			}
			if won != 1 {
				t.Errorf("seed %d: %d of 5 won", seed, won)
			}
		})
	}
}

// TestMarksOfLosers: the mark of a write that lost is shown to every later client, also
// when the versions of that time were removed long ago.
func TestMarksOfLosers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		b.Latency = 20 * time.Millisecond
		first := open(t, b, nil)
		v := mustPut(t, first, "k", "", "0")
		var wg sync.WaitGroup
		for i, s := range []*s3verstore.Store{open(t, b, nil), open(t, b, nil)} {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * b.Latency / 4) // the second one loses
				_, err := s.Put(store.WithToken(t.Context(), uint64(41+i)), "k", v, nil)
				if errors.Is(err, store.ErrConflict) != (i == 1) {
					t.Errorf("writer %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		highest := func(when string) {
			t.Helper()
			if got, err := open(t, b, nil).HighestToken(t.Context(), "k"); err != nil || got != 42 {
				t.Errorf("%s: the highest mark is %d, error %v, want 42", when, got, err)
			}
		}
		highest("after two writes of which one lost")
		_, v = get(t, first, "k")
		before := live(b, "k!!")
		for i := range 30 {
			v = mustPut(t, first, "k", v, fmt.Sprint(i))
		}
		for _, w := range live(b, "k!!") {
			if slices.ContainsFunc(before, func(old awstest.Version) bool { return old.ID == w.ID }) {
				t.Fatal("the versions of that time are still there")
			}
		}
		highest("after the clean-up")
	})
}

// TestRefusedThenRead: a write has a conflict because of entry B. Then entry A, which is
// earlier in the log, becomes visible, and B is rejected. A Get that begins after the
// conflict must not return a state that is older than A.
func TestRefusedThenRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		first := true
		b.Plan(func(q awstest.Request) awstest.Fault {
			if q.Op == "PutObject" && first {
				first = false
				return awstest.Fault{Hidden: 2 * time.Second} // earlier in the log than the other PUT
			}
			return awstest.Fault{}
		})
		var wg sync.WaitGroup
		for i := range 2 {
			s := open(t, b, nil)
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				_, _ = s.Put(t.Context(), "k", "", fmt.Append(nil, i))
			})
		}
		time.Sleep(time.Second)
		if _, err := open(t, b, nil).Put(t.Context(), "k", "", []byte("2")); !errors.Is(err, store.ErrConflict) {
			t.Errorf("a create beside them: %v", err)
		}
		if value, _ := get(t, open(t, b, nil), "k"); value != "0" {
			t.Errorf("read %q after the refusal", value)
		}
		wg.Wait()
	})
}
