package doctor

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/registerrules"
	"github.com/holdfast-go/holdfast/store"
)

// slow is a median write above which leases of the default length are in danger.
const slow = time.Second

// What was found where a rule is kept.
const (
	oneWon    = "exactly one client won, %d times out of %d"
	isAsItWas = "refused, and the register did not change"
)

// registers are the checks of every store: the contract of a register.
type registers struct{ *Examination }

// firstAtOnce is the first rule that can be tried together with those that follow it, but for the last.
const firstAtOnce = "create-race"

func (r *registers) steps() []Step {
	return []Step{
		r.rule("create-twice", "create-if-absent twice", (*registerrules.Space).CreateTwice, "the second was refused"),
		r.rule(firstAtOnce, fmt.Sprintf("create-if-absent by %d at once", racers), (*registerrules.Space).RaceCreate, oneWon, r.o.rounds, r.o.rounds),
		r.rule("swap-race", fmt.Sprintf("compare-and-swap by %d at once", racers), (*registerrules.Space).RaceSwap, oneWon, r.o.rounds, r.o.rounds),
		r.wrongVersion(),
		r.rule("missing-key", "a write that names a version of a missing register", (*registerrules.Space).PutAbsent, "refused, and no register was created"),
		r.rule("delete-version", "a delete that names a wrong version", (*registerrules.Space).DeleteSuperseded, isAsItWas),
		r.rule("recreate", "delete, then create again", (*registerrules.Space).Recreate, "the new register has a new version; a write with the old version is refused"),
		r.rule("equal-values", "equal values written twice", (*registerrules.Space).EqualValues, "each has its own version"),
		Single("read-after-write", "reading a register that was just written", true, r.readAfterWrite),
		Single("large-value", "a value of 64 KiB, and unusual names", true, r.large),
		Single("list-registers", "listing registers that were just written", false, r.list),
		Single("place", "stores inside each other", false, r.place),
		Single("latency", "how long a write and a read take", false, r.latency),
	}
}

// Value is one that was never written before.
func Value() []byte { return []byte(`{"of":"holdfast doctor","nonce":"` + rand.Text() + `"}`) }

// space is where the rules that all registers keep are checked.
func (r *registers) space() *registerrules.Space {
	return &registerrules.Space{Stores: r.Handles, Racers: racers, Rounds: r.o.rounds}
}

// putAndRead writes a value through one handle, and reports whether both handles see it then.
func (r *registers) putAndRead(ctx context.Context, through store.Store, key string, at store.Version, value []byte) (written store.Version, same bool, err error) {
	if written, err = through.Put(ctx, key, at, value); err == nil {
		err = r.space().Holds(ctx, key, written, value)
	}
	if errors.As(err, new(*registerrules.Broken)) {
		return written, false, nil
	}
	return written, err == nil, err
}

// rule makes the check of a rule that all registers keep.
func (r *registers) rule(id, what string, check func(*registerrules.Space, context.Context) error, ok string, args ...any) Step {
	return Single(id, what, true, func(ctx context.Context, c Check) []Check {
		err := check(r.space(), ctx)
		var broken *registerrules.Broken
		switch {
		case errors.As(err, &broken):
			return c.Unsafe(broken.Found, broken.Means+"; Holdfast refuses leases here")
		case err != nil:
			return r.Failed(c, err)
		}
		return c.OK(ok, args...)
	})
}

// wrongVersion checks that a superseded version is refused, and whether the refusal
// carries the state that it found, where the store's traits say so.
func (r *registers) wrongVersion() Step {
	s := r.rule("wrong-version", "a write that names a wrong version", (*registerrules.Space).PutSuperseded, isAsItWas)
	check := s.Run
	s.Run = func(ctx context.Context) []Check {
		checks := check(ctx)
		if checks[0].Result != OK || !store.TraitsOf(r.Handles[0]).ConflictCarriesState {
			return checks
		}
		c := Finding(s.ID, s.What, true)
		v, err := r.Handles[0].Put(ctx, "tells", "", Value())
		for range 2 { // the second is refused
			if err == nil {
				_, err = r.Handles[0].Put(ctx, "tells", v, Value())
			}
		}
		var conflict *store.ConflictError
		switch {
		case err == nil:
			return c.Unsafe("a put on a superseded version was not refused", "two programs could hold one lock at the same time; Holdfast refuses leases here")
		case !errors.Is(err, store.ErrConflict):
			return r.Failed(c, err)
		case !errors.As(err, &conflict) || !conflict.HasCurrent:
			return c.Warn("refused; the reply does not contain the present state", "if several clients want a lock, Holdfast sends another request to read the state")
		}
		return checks
	}
	return s
}

func (r *registers) readAfterWrite(ctx context.Context, c Check) []Check {
	var v store.Version
	for i := range r.o.samples {
		written, same, err := r.putAndRead(ctx, r.Handles[i%2], "fresh", v, Value())
		if err != nil {
			return r.Failed(c, err)
		}
		if !same {
			return c.Unsafe("a read after a write returned an older state", "a waiter would watch an old state; look for a cache between this machine and the store")
		}
		v = written
	}
	return c.OK("each read saw the last write, %d times out of %d", r.o.samples, r.o.samples)
}

func (r *registers) large(ctx context.Context, c Check) []Check {
	for key, v := range map[string][]byte{
		"large":                            bytes.Repeat([]byte{0, 'x', '\n', 0xff}, store.MaxValue/4),
		"odd/ü %2F:?*\"<>|\\\n/A.json":     Value(),
		"odd/ü %2F:?*\"<>|\\\n/a.json":     Value(),
		"long/" + strings.Repeat("n", 300): Value(),
	} {
		_, same, err := r.putAndRead(ctx, r.Handles[0], key, "", v)
		if err != nil {
			return r.Failed(c, err)
		}
		if !same {
			return c.Unsafe(fmt.Sprintf("%.40q was read with another value", key), "records would be damaged")
		}
	}
	return c.OK("the values were read as they were written")
}

func (r *registers) list(ctx context.Context, c Check) []Check {
	instead := "ls, watch and sweep can miss locks; leases use no listings"
	keys := func() (all []string, err error) {
		for key, err := range store.List(ctx, r.Handles[1], "listed") {
			if err != nil {
				return nil, err
			}
			all = append(all, key)
		}
		slices.Sort(all)
		return all, nil
	}
	if _, err := r.Handles[0].Put(ctx, "listed-not", "", Value()); err != nil {
		return r.Failed(c, err)
	}
	var versions [3]store.Version
	for i := range versions {
		var err error
		if versions[i], err = r.Handles[0].Put(ctx, fmt.Sprintf("listed/%d", i), "", Value()); err != nil {
			return r.Failed(c, err)
		}
	}
	got, err := keys()
	if errors.Is(err, errors.ErrUnsupported) {
		return c.Warn("this store cannot list", instead)
	}
	if err != nil {
		return r.Failed(c, err)
	}
	if !slices.Equal(got, []string{"listed/0", "listed/1", "listed/2"}) {
		return c.Warn(fmt.Sprintf("a listing after three writes shows %d registers, or wrong ones", len(got)), instead)
	}
	if err := r.Handles[0].Delete(ctx, "listed/1", versions[1]); err != nil {
		return r.Failed(c, err)
	}
	if got, err = keys(); err != nil {
		return r.Failed(c, err)
	}
	if !slices.Equal(got, []string{"listed/0", "listed/2"}) {
		return c.Warn("a listing shows a deleted register", instead)
	}
	return c.OK("complete")
}

func (r *registers) latency(ctx context.Context, c Check) []Check {
	var writes, reads []time.Duration
	var v store.Version
	pad := bytes.Repeat([]byte("x"), 300)
	for range r.o.samples {
		began := time.Now()
		w, err := r.Handles[0].Put(ctx, "latency", v, pad)
		if err != nil {
			return r.Failed(c, err)
		}
		writes, v = append(writes, time.Since(began)), w
		began = time.Now()
		if _, _, err = r.Handles[0].Get(ctx, "latency"); err != nil {
			return r.Failed(c, err)
		}
		reads = append(reads, time.Since(began))
	}
	write, read := median(writes), median(reads)
	c.write, c.read = write, read
	found := fmt.Sprintf("median of %d: a write %v, a read %v", r.o.samples, round(write), round(read))
	if write > max(slow, store.TraitsOf(r.Handles[0]).MinWriteTime*3/2) {
		return c.Warn(found, "leases need a longer --ttl here: a renewal and one retry must fit into a third of the TTL")
	}
	return c.OK("%s", found)
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// round leaves about three digits.
func round(d time.Duration) time.Duration {
	for unit := time.Second; unit > 1; unit /= 10 {
		if d >= unit {
			return d.Round(unit / 100)
		}
	}
	return d
}
