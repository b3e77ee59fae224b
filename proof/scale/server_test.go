package scale_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

// A kind is what is known of the servers of one kind.
type kind struct {
	name string

	// What each partition answers in a second, as documented for a new table or prefix. For a database
	// server they are what it does in a second.
	reads, writes float64

	partition func(key string) string
	perKey    float64 // writes of one key in a second; 0: no bound of its own
	shared    bool    // reads and writes have one limit together
	waits     bool    // requests wait for each other, reads and writes alike, and none is refused

	latency time.Duration // of a request, on average

	// unit is how many bytes count as one read or one write; 0: a request counts as one.
	readUnit, writeUnit int

	// What a million reads and a million writes cost, in US dollars.
	readPrice, writePrice float64

	options   engine.Options
	client    *lease.Options // nil: the defaults
	readTries int            // of the driver itself
	definite  bool           // a refusal of a write proves that it was not applied
}

func whole(string) string { return "" }

// kinds are the kinds of servers. The prices are those of us-east-1 in 2026, of GCS in us-east1. A PostgreSQL server
// has the price of its machine. One on two busy cores, with 32 connections, made 1,055 to 3,685 conditional writes and
// 21,000 to 24,000 reads in a second.
var kinds = []kind{
	{
		name: "S3", reads: 5500, writes: 3500, partition: whole, latency: 30 * time.Millisecond,
		readPrice: 0.4, writePrice: 5, readTries: 4,
		options: engine.Options{Traits: store.Traits{MinTTL: 2 * time.Second}, Tags: true},
	},
	{
		// A new table on demand has four partitions. The items have sixteen partition keys.
		name: "DynamoDB", reads: 3000, writes: 1000, latency: 8 * time.Millisecond,
		partition: func(key string) string { return fmt.Sprint(sha256.Sum256([]byte(key))[0] >> 6) },
		readUnit:  4096, writeUnit: 1024, readPrice: 0.125, writePrice: 0.625, definite: true,
		options: engine.Options{
			Traits:   store.Traits{MinTTL: 2 * time.Second, ConflictCarriesState: true},
			Numbered: true, ReadTries: engine.DefaultTries, Pause: 25 * time.Millisecond,
		},
	},
	{
		name: "GCS", reads: 5000, writes: 1000, partition: whole, perKey: 1, latency: 50 * time.Millisecond,
		readPrice: 0.4, writePrice: 5, definite: true, readTries: 4,
		options: engine.Options{Traits: store.Traits{MinTTL: 6 * time.Second}, Tags: true, Pause: 200 * time.Millisecond},
	},
	{
		name: "PostgreSQL", reads: 20_000, writes: 2000, partition: whole, waits: true, latency: 2 * time.Millisecond,
		options: engine.Options{ReadTries: engine.DefaultTries},
	},
}

// counts are requests.
type counts struct {
	reads, writes         int // that were answered
	refused               int
	readUnits, writeUnits int // that a server charges for
}

func (c counts) minus(o counts) counts {
	return counts{c.reads - o.reads, c.writes - o.writes, c.refused - o.refused, c.readUnits - o.readUnits, c.writeUnits - o.writeUnits}
}

// dollars is what the requests cost.
func (k *kind) dollars(c counts) float64 {
	return (float64(c.readUnits)*k.readPrice + float64(c.writeUnits)*k.writePrice) / 1e6
}

// server is a server of some kind, and the driver for it.
type server struct {
	kind
	factor float64 // of its limits

	mu      sync.Mutex
	rows    map[string]engine.Stored
	buckets map[string]*bucket
	counts  counts
}

// bucket is a token bucket that holds the tokens of one second.
type bucket struct {
	tokens float64
	at     time.Time
}

// take takes n tokens of a bucket. If the bucket has too few, take returns how long it needs to get them: a
// server that refuses requests gives none, and on another one the caller waits.
func (s *server) take(name string, rate, n float64) (wait time.Duration) {
	b, most := s.buckets[name], max(rate, 1)
	if s.waits {
		most = 0
	}
	if b == nil {
		b = &bucket{tokens: most, at: time.Now()}
		s.buckets[name] = b
	}
	now := time.Now()
	b.tokens, b.at = min(most, b.tokens+rate*now.Sub(b.at).Seconds()), now
	if b.tokens < n && !s.waits {
		return time.Duration((n - b.tokens) / rate * float64(time.Second))
	}
	b.tokens -= n
	return time.Duration(max(0, -b.tokens) / rate * float64(time.Second))
}

// admit counts a request, and returns how long it waits, or false if the server refuses it.
func (s *server) admit(key string, write bool, size int) (time.Duration, bool) {
	rate, unit, limit := s.reads, s.readUnit, "reads "
	if write {
		rate, unit, limit = s.writes, s.writeUnit, "writes "
	}
	if s.shared {
		limit = ""
	}
	units := 1
	if unit > 0 {
		units = max(1, (size+unit-1)/unit)
	}
	var wait time.Duration
	switch {
	case s.waits: // each request takes a part of a second
		wait = s.take("", s.factor, 1/rate)
	case write && s.perKey > 0 && s.take("key "+key, s.perKey, 1) > 0,
		s.take(limit+s.partition(key), rate*s.factor, float64(units)) > 0:
		s.counts.refused++
		return 0, false
	}
	if write {
		s.counts.writes++
		s.counts.writeUnits += units
	} else {
		s.counts.reads++
		s.counts.readUnits += units
	}
	return wait, true
}

// way is the way to the server, or back.
func (s *server) way(ctx context.Context, more time.Duration) error {
	t := time.NewTimer(more + time.Duration((0.25+rand.Float64()/2)*float64(s.latency)))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// request carries a request to the server and its answer back. The server does what do does if it admits the
// request.
func (s *server) request(ctx context.Context, key string, write bool, size func() int, do func() error) error {
	if err := s.way(ctx, 0); err != nil {
		return err
	}
	s.mu.Lock()
	wait, admitted := s.admit(key, write, size())
	s.mu.Unlock()
	if wait > 0 {
		if err := s.way(ctx, wait); err != nil {
			return err
		}
	}
	err := fmt.Errorf("%w: slow down", store.ErrUnavailable)
	if s.definite && write {
		err = engine.ErrBusy
	}
	if admitted {
		s.mu.Lock()
		err = do()
		s.mu.Unlock()
	}
	if late := s.way(ctx, 0); late != nil {
		return late
	}
	return err
}

// Read implements [engine.Driver].
func (s *server) Read(ctx context.Context, key string, seen engine.Tag) (now engine.Stored, err error) {
	err = engine.Repeat(ctx, max(s.readTries, 1), 100*time.Millisecond, func() error {
		return s.request(ctx, key, false, func() int { return len(s.rows[key].Value) }, func() error {
			now = s.rows[key]
			switch {
			case now.Absent():
				return store.ErrNotFound
			case seen != "" && seen == now.Tag:
				return engine.ErrUnchanged
			}
			return nil
		})
	})
	return now, err
}

// Write implements [engine.Driver].
func (s *server) Write(ctx context.Context, key string, on engine.Stored, e engine.Envelope) (tag engine.Tag, err error) {
	err = s.request(ctx, key, true, func() int { return len(e.Value) }, func() error {
		now := s.rows[key]
		if now.ID() != on.ID() {
			return &engine.ConditionFailedError{HasCurrent: s.options.Traits.ConflictCarriesState, Current: now}
		}
		if s.options.Tags {
			tag = engine.Tag(e.Nonce)
		}
		s.rows[key] = engine.Stored{Envelope: e, Tag: tag}
		return nil
	})
	return tag, err
}

// List implements [engine.Driver].
func (s *server) List(context.Context, string) iter.Seq2[string, error] {
	return func(func(string, error) bool) {}
}

// store returns the registers of the server.
func (s *server) store() *engine.Store {
	o := s.options
	o.Traits.Name, o.Trusted = "sim:"+s.name, true
	st, err := engine.New(s, &o)
	if err != nil {
		panic(err)
	}
	return st
}

// sent returns the requests that were counted so far.
func (s *server) sent() counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}
