package s3verstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/internal/aws/awscall"
	"github.com/holdfast-go/holdfast/internal/sysclock"
	"github.com/holdfast-go/holdfast/store"
)

// measureWriters is how many writers of a [Store.Measure] put at the same time.
const measureWriters = 8

// MeasureOptions are the options of [Store.Measure]. The zero value of each field means its
// default.
type MeasureOptions struct {
	Puts int // number of PUTs of each of the 8 writers; the default is 20
}

// Measurement is the result of [Store.Measure].
type Measurement struct {
	Puts     int // number of PUTs that the server has answered
	Listings int

	// SlowestPut and SlowestList are the longest times of a PUT and of a LIST.
	SlowestPut, SlowestList time.Duration

	// Late is the number of versions that became visible out of order: a later version was visible
	// before them. Latest is the longest delay of such a version. Writers must wait because of
	// such versions. Without this wait, each of two writers could see its own version as the first.
	Late   int
	Latest time.Duration

	// Moved is the number of listings in which versions had changed their order. Missing is the number
	// of listings without a version whose PUT was answered before the listing began. If Moved or Missing
	// is not zero, package s3verstore cannot use this server.
	Moved, Missing int

	// PutLifetime and SettleDelay are the recommended options. PutLifetime is ten times SlowestPut,
	// but at least a second.
	PutLifetime, SettleDelay time.Duration
}

// If this server cannot store registers, Err returns an error that gives the reason and matches
// [store.ErrUnsafe].
func (m *Measurement) Err() error {
	switch {
	case m.Moved > 0:
		return fmt.Errorf("%w: %s (%d times)", store.ErrUnsafe, movedText, m.Moved)
	case m.Missing > 0:
		return fmt.Errorf("%w: %d listings did not show versions that the server had acknowledged before", store.ErrUnsafe, m.Missing)
	}
	return nil
}

// String returns the measurement in one line, for people.
func (m *Measurement) String() string {
	return fmt.Sprintf("%d PUTs, the slowest %v; %d listings, the slowest %v; %d versions became visible out of order, by up to %v; recommended: put_lifetime=%v, settle_delay=%v",
		m.Puts, m.SlowestPut.Round(time.Millisecond), m.Listings, m.SlowestList.Round(time.Millisecond), m.Late, m.Latest.Round(time.Millisecond), m.PutLifetime, m.SettleDelay)
}

// Measure writes versions of a temporary object from several writers at the same time, and lists
// them meanwhile. It measures how long the server needs until it shows versions in their final
// order. Then it removes the object. Call Measure before you use a new server, and while the server
// is as busy as possible. The result does not show how the server behaves under a higher load.
func (s *Store) Measure(ctx context.Context, opts *MeasureOptions) (*Measurement, error) {
	o := *cmp.Or(opts, &MeasureOptions{})
	o.Puts = cmp.Or(o.Puts, 20)
	if o.Puts < 1 || o.Puts > 1000 {
		return nil, fmt.Errorf("%w: Puts is %d; it can be from 1 to 1000", store.ErrMisconfigured, o.Puts)
	}
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	m := &measuring{
		s: s, object: s.prefix + ".holdfast/measure/" + rand.Text(),
		first: map[string]time.Time{},
	}
	defer m.remove(ctx)
	if err := m.run(ctx, o); err != nil {
		return nil, err
	}
	found := &m.found
	found.PutLifetime = max(time.Second, 10*found.SlowestPut, 10*found.Latest).Round(100 * time.Millisecond)
	found.SettleDelay = (MinSettleDelay(found.PutLifetime, s.o.MaxClockDrift) + 2*found.SlowestList).Round(100 * time.Millisecond)
	for found.SettleDelay < MinSettleDelay(found.PutLifetime, s.o.MaxClockDrift) {
		found.SettleDelay += 100 * time.Millisecond
	}
	return found, nil
}

// measuring is a measurement under way.
type measuring struct {
	s      *Store
	object string

	mu       sync.Mutex
	answered []string
	first    map[string]time.Time // when a version was first listed
	ids      []string             // of the last listing
	found    Measurement
}

func (m *measuring) run(ctx context.Context, o MeasureOptions) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var writers, lister sync.WaitGroup
	done := make(chan struct{})
	for range measureWriters {
		writers.Go(func() {
			for range o.Puts {
				if err := m.put(ctx); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	lister.Go(func() {
		for last := false; ; {
			if err := m.list(ctx); err != nil {
				cancel(err)
				return
			}
			if last {
				return
			}
			select {
			case <-done:
				last = true
			default:
			}
		}
	})
	writers.Wait()
	close(done)
	lister.Wait()
	return context.Cause(ctx)
}

func (m *measuring) put(ctx context.Context) error {
	watch := sysclock.Read()
	id, err := m.s.put(ctx, m.object, []byte(rand.Text()))
	if err != nil {
		return err
	}
	if id == "" || id == s3bucket.NullVersion {
		return fmt.Errorf("%w: the server wrote a version, but returned no version id", store.ErrUnsafe)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.found.Puts++
	m.found.SlowestPut = max(m.found.SlowestPut, watch.Elapsed())
	m.answered = append(m.answered, id)
	return nil
}

func (m *measuring) list(ctx context.Context) error {
	m.mu.Lock()
	before := slices.Clone(m.answered)
	m.mu.Unlock()
	l, err := m.s.list(ctx, m.object)
	if err != nil {
		return err
	}
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.found.Listings++
	m.found.SlowestList = max(m.found.SlowestList, l.watch.Elapsed())
	last := m.ids
	m.ids = l.ids()
	if !sameOrder(last, m.ids) {
		m.found.Moved++
	}
	for _, id := range before {
		if !slices.Contains(m.ids, id) {
			m.found.Missing++
			break
		}
	}
	m.late(now)
	return nil
}

// late notes the versions that are new in the listing although newer ones are not.
func (m *measuring) late(now time.Time) {
	var behind time.Time // when the earliest of the newer ones was first seen
	for i := len(m.ids) - 1; i >= 0; i-- {
		first, known := m.first[m.ids[i]]
		if !known {
			m.first[m.ids[i]], first = now, now
			if !behind.IsZero() && behind.Before(now) {
				m.found.Late++
				m.found.Latest = max(m.found.Latest, now.Sub(behind))
			}
		}
		if behind.IsZero() || first.Before(behind) {
			behind = first
		}
	}
}

// remove removes the scratch object, also after ctx has ended.
func (m *measuring) remove(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*cleanTime)
	defer cancel()
	if err := m.s.erase(ctx, m.object); err != nil {
		m.s.o.Logger.Warn("the temporary object of the measurement could not be removed", "object", m.object, "error", err)
	}
}

// Erase removes a register with all its versions. Use it only for registers that were created to
// test a store. If a client still uses the register, the promises of this package do not hold for
// that client.
func (s *Store) Erase(ctx context.Context, key string) error {
	r, err := s.begin(ctx, key)
	if err == nil {
		err = s.erase(ctx, r.object)
	}
	return s.opError("erase", key, err)
}

// erase removes all versions of an object, those too that are not listed at once.
func (s *Store) erase(ctx context.Context, object string) error {
	least, try := math.MaxInt, 0
	for {
		l, err := s.list(ctx, object)
		if err != nil {
			return err
		}
		ids := l.ids()
		if l.null != nil {
			ids = append(ids, l.null.id)
		}
		switch {
		case len(ids) == 0:
			return nil
		case len(ids) < least:
			least, try = len(ids), 0
		case try == 2*listingTries:
			return fmt.Errorf("%w: the server still lists %d versions of %s after their removal", store.ErrUnavailable, len(ids), object)
		default:
			try++
			awscall.Pause(ctx, firstPause, try) // if the context ends, the next request fails
		}
		if _, err := s.versions.Remove(ctx, object, ids); err != nil {
			return err
		}
	}
}
