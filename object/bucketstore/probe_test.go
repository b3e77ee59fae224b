package bucketstore_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/bucketstore"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/store"
)

// careless is a bucket that is not known to be good, and may ignore conditions.
type careless struct {
	*membucket.Bucket
	ignoreAbsent, ignoreMatch, writeAnyway bool

	mu    sync.Mutex
	puts  int
	fails error
}

func (c *careless) Traits() object.Traits { return object.Traits{Name: "careless"} }

func (c *careless) Put(ctx context.Context, key string, body io.Reader, opts *object.PutOptions) (object.Info, error) {
	c.mu.Lock()
	c.puts++
	fails := c.fails
	c.mu.Unlock()
	if fails != nil {
		return object.Info{}, fails
	}
	var o object.PutOptions
	if opts != nil {
		o = *opts
	}
	if c.ignoreAbsent {
		o.IfAbsent = false
	}
	if c.ignoreMatch {
		o.IfMatch = ""
	}
	all, err := io.ReadAll(body)
	if err != nil {
		return object.Info{}, err
	}
	info, err := c.Bucket.Put(ctx, key, strings.NewReader(string(all)), &o)
	if err != nil && c.writeAnyway {
		_, _ = c.Bucket.Put(ctx, key, strings.NewReader(string(all)), nil)
	}
	return info, err
}

func (c *careless) keys(t *testing.T) []string {
	var keys []string
	for info, err := range c.List(t.Context(), "", nil) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	return keys
}

// TestProbe: a bucket that ignores a condition is refused before the first write, and
// registers of other programs stay as they are.
func TestProbe(t *testing.T) {
	for name, c := range map[string]*careless{
		"put-if-absent": {ignoreAbsent: true},
		"put-if-match":  {ignoreMatch: true},
		"both":          {ignoreAbsent: true, ignoreMatch: true},
		"write anyway":  {writeAnyway: true},
	} {
		t.Run(name, func(t *testing.T) {
			c.Bucket = membucket.New()
			holder := newStore(t, c, "p", &bucketstore.Options{Trusted: true})
			v := mustPut(t, holder, "k", "", `"the holder's"`)
			s := newStore(t, c, "p", nil)
			for _, prev := range []store.Version{"", v} {
				_, err := s.Put(t.Context(), "k", prev, []byte(`"ours"`))
				if !errors.Is(err, store.ErrUnsafe) || store.OutcomeOf(err) != store.NotApplied {
					t.Fatalf("got %v (%v)", err, store.OutcomeOf(err))
				}
				var unsafe *bucketstore.UnsafeError
				if !errors.As(err, &unsafe) || !strings.Contains(err.Error(), "careless/p") || !strings.Contains(err.Error(), "unsafe=") {
					t.Errorf("the error does not say what to do: %v", err)
				}
			}
			if err := s.Delete(t.Context(), "k", v); !errors.Is(err, store.ErrUnsafe) {
				t.Errorf("delete: %v", err)
			}
			if value, _, err := s.Get(t.Context(), "k"); err != nil || string(value) != `"the holder's"` {
				t.Errorf("the holder's register: %s, %v", value, err)
			}
			if got := c.keys(t); len(got) != 1 {
				t.Errorf("left behind: %q", got)
			}
		})
	}
}

// TestProbeInsisted: the option Unsafe accepts a bucket that ignores conditions.
func TestProbeInsisted(t *testing.T) {
	c := &careless{Bucket: membucket.New(), ignoreAbsent: true}
	s := newStore(t, c, "", &bucketstore.Options{Unsafe: []object.Ability{object.PutIfAbsent}})
	mustPut(t, s, "k", "", "1")
	c = &careless{Bucket: membucket.New(), ignoreAbsent: true, ignoreMatch: true}
	s = newStore(t, c, "", &bucketstore.Options{Unsafe: []object.Ability{object.PutIfAbsent}})
	if _, err := s.Put(t.Context(), "k", "", []byte("1")); !errors.Is(err, store.ErrUnsafe) {
		t.Errorf("got %v", err)
	}
}

// TestProbeOnce: a good bucket is probed once, by the first of many writers, and not
// at all if it is trusted or only read.
func TestProbeOnce(t *testing.T) {
	c := &careless{Bucket: membucket.New()}
	s := newStore(t, c, "p", nil)
	if _, _, err := s.Get(t.Context(), "k"); !errors.Is(err, store.ErrNotFound) {
		t.Fatal(err)
	}
	if c.puts != 0 {
		t.Errorf("a read made %d puts", c.puts)
	}
	var racers sync.WaitGroup
	for range 8 {
		racers.Go(func() {
			if _, err := s.Put(t.Context(), "k", "", []byte("1")); err != nil && !errors.Is(err, store.ErrConflict) {
				t.Error(err)
			}
		})
	}
	racers.Wait()
	const probe = 5
	if got := c.puts; got != probe+8 {
		t.Errorf("%d puts for 8 writes, want %d more", got, probe)
	}
	if got := c.keys(t); len(got) != 1 {
		t.Errorf("left behind: %q", got)
	}
	c.puts = 0
	mustPut(t, newStore(t, c, "p", &bucketstore.Options{Trusted: true}), "trusted", "", "1")
	if c.puts != 1 {
		t.Errorf("a trusted bucket: %d puts", c.puts)
	}
}

// TestProbeUnreachable: a probe that cannot reach the server gives no verdict.
func TestProbeUnreachable(t *testing.T) {
	c := &careless{Bucket: membucket.New(), fails: store.ErrUnavailable}
	s := newStore(t, c, "", nil)
	_, err := s.Put(t.Context(), "k", "", []byte("1"))
	if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnsafe) || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("got %v (%v)", err, store.OutcomeOf(err))
	}
	c.fails = nil
	mustPut(t, s, "k", "", "1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := newStore(t, c, "", nil).Verify(ctx); store.OutcomeOf(err) != store.NotApplied || errors.Is(err, store.ErrUnsafe) {
		t.Errorf("got %v", err)
	}
}
