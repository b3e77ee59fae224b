package doctor

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// slow is a median write above which leases of the default length are in danger.
const slow = time.Second

// registers are the checks of every store: the contract of a register.
type registers struct{ *examination }

func (r *registers) steps() []step {
	return []step{
		{"create-twice", "create-if-absent twice", true, r.createTwice},
		{"create-race", "create-if-absent by many at once", true, r.createRace},
		{"swap-race", "compare-and-swap by many at once", true, r.swapRace},
		{"wrong-version", "a write that names a wrong version", true, r.wrongVersion},
		{"missing-key", "a write that names a version of what is not there", true, r.missingKey},
		{"delete-version", "a delete that names a wrong version", true, r.deleteVersion},
		{"recreate", "delete, then create again", true, r.recreate},
		{"equal-values", "equal values written twice", true, r.equalValues},
		{"read-after-write", "reading what was just written", true, r.readAfterWrite},
		{"large-value", "a value of 64 KiB, and odd names", true, r.large},
		{"list-registers", "listing what was just written", false, r.list},
		{"latency", "how long a write and a read take", false, r.latency},
	}
}

// value is one that nobody has written before.
func value() []byte { return []byte(`{"of":"holdfast doctor","nonce":"` + rand.Text() + `"}`) }

// put writes with the first handle.
func (r *registers) put(ctx context.Context, key string, prev store.Version, v []byte) (store.Version, error) {
	return r.handles[0].Put(ctx, key, prev, v)
}

// is checks that a register holds a value, as both handles see it.
func (r *registers) is(ctx context.Context, key string, want []byte, version store.Version) (bool, error) {
	for _, st := range r.handles {
		got, v, err := st.Get(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			got, v, err = nil, "", nil
		}
		if err != nil {
			return false, err
		}
		if v != version || !bytes.Equal(got, want) {
			return false, nil
		}
	}
	return true, nil
}

// refused judges a write that had to be refused: nil if it was, and the register is
// still what it was.
func (r *registers) refused(ctx context.Context, c Check, err error, key string, want []byte, version store.Version) []Check {
	switch {
	case err == nil:
		return c.unsafe("the store let it through", "two programs could hold one lock; leases are refused here")
	case !errors.Is(err, store.ErrConflict):
		return r.failed(c, err)
	}
	same, err := r.is(ctx, key, want, version)
	switch {
	case err != nil:
		return r.failed(c, err)
	case !same:
		return c.unsafe("the store refused it, and the register is not what it was", "a holder could be overwritten; leases are refused here")
	}
	return nil
}

func (r *registers) createTwice(ctx context.Context) []Check {
	c := finding("create-twice", "create-if-absent twice", true)
	a := value()
	v, err := r.put(ctx, "twice", "", a)
	if errors.Is(err, store.ErrConflict) {
		return c.unsafe("the store refused to create what was not there", "no lock could be taken")
	}
	if err != nil {
		return r.failed(c, err)
	}
	_, err = r.handles[1].Put(ctx, "twice", "", value())
	if bad := r.refused(ctx, c, err, "twice", a, v); bad != nil {
		return bad
	}
	return c.ok("the second was refused")
}

// outcome is what became of a race.
type outcome struct {
	won, unknown int
	err          error // of one who neither won nor lost
	value        []byte
	version      store.Version // of one who won
}

// race lets many write the same register on the same predecessor.
func (r *registers) race(ctx context.Context, key string, prev store.Version) outcome {
	var (
		mu    sync.Mutex
		out   outcome
		wg    sync.WaitGroup
		start = make(chan struct{})
	)
	for i := range r.o.Racers {
		wg.Go(func() {
			mine := value()
			<-start
			v, err := r.handles[i%2].Put(ctx, key, prev, mine)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				out.won, out.value, out.version = out.won+1, mine, v
			case errors.Is(err, store.ErrConflict):
			default:
				out.err = err
				if store.OutcomeOf(err) == store.Unknown {
					out.unknown++
				}
			}
		})
	}
	close(start)
	wg.Wait()
	return out
}

// verdict judges a race; nil is good.
func (r *registers) verdict(ctx context.Context, c Check, key string, out outcome) []Check {
	switch {
	case out.won > 1:
		return c.unsafe(fmt.Sprintf("%d of %d were told that they won", out.won, r.o.Racers), "two programs could hold one lock; leases are refused here")
	case out.won == 0 && out.err != nil:
		return r.failed(c, out.err)
	case out.won == 0:
		return c.unsafe("nobody won", "no lock could be taken when several try")
	}
	same, err := r.is(ctx, key, out.value, out.version)
	switch {
	case err != nil:
		return r.failed(c, err)
	case !same:
		return c.unsafe("one was told that it won, and another's value is there", "two programs could hold one lock; leases are refused here")
	}
	return nil
}

func (r *registers) createRace(ctx context.Context) []Check {
	c := finding("create-race", fmt.Sprintf("create-if-absent by %d at once", r.o.Racers), true)
	for i := range r.o.Rounds {
		key := fmt.Sprintf("race-%d", i)
		if bad := r.verdict(ctx, c, key, r.race(ctx, key, "")); bad != nil {
			return bad
		}
	}
	return c.ok("exactly one won, %d times out of %d", r.o.Rounds, r.o.Rounds)
}

func (r *registers) swapRace(ctx context.Context) []Check {
	c := finding("swap-race", fmt.Sprintf("compare-and-swap by %d at once", r.o.Racers), true)
	v, err := r.put(ctx, "swap", "", value())
	if err != nil {
		return r.failed(c, err)
	}
	for range r.o.Rounds {
		out := r.race(ctx, "swap", v)
		if bad := r.verdict(ctx, c, "swap", out); bad != nil {
			return bad
		}
		v = out.version
	}
	return c.ok("exactly one won, %d times out of %d", r.o.Rounds, r.o.Rounds)
}

// twoStates makes a register that had two states.
func (r *registers) twoStates(ctx context.Context, key string) (old, now store.Version, current []byte, err error) {
	if old, err = r.put(ctx, key, "", value()); err != nil {
		return "", "", nil, err
	}
	current = value()
	now, err = r.put(ctx, key, old, current)
	return old, now, current, err
}

func (r *registers) wrongVersion(ctx context.Context) []Check {
	c := finding("wrong-version", "a write that names a wrong version", true)
	old, now, current, err := r.twoStates(ctx, "wrong")
	if errors.Is(err, store.ErrConflict) {
		return c.unsafe("the store refused a write that named the right version", "no lease could be renewed")
	}
	if err != nil {
		return r.failed(c, err)
	}
	for _, st := range r.handles {
		_, err = st.Put(ctx, "wrong", old, value())
		if bad := r.refused(ctx, c, err, "wrong", current, now); bad != nil {
			return bad
		}
	}
	var conflict *store.ConflictError
	if store.TraitsOf(r.handles[0]).ConflictTells && (!errors.As(err, &conflict) || !conflict.Known) {
		return c.warn("refused, without telling the state that was met", "Holdfast reads it: a contended try costs one request more")
	}
	return c.ok("refused, and the register is what it was")
}

func (r *registers) missingKey(ctx context.Context) []Check {
	c := finding("missing-key", "a write that names a version of what is not there", true)
	v, err := r.put(ctx, "other", "", value())
	if err != nil {
		return r.failed(c, err)
	}
	_, err = r.put(ctx, "missing", v, value())
	if bad := r.refused(ctx, c, err, "missing", nil, ""); bad != nil {
		return bad
	}
	return c.ok("refused, and nothing was made")
}

func (r *registers) deleteVersion(ctx context.Context) []Check {
	c := finding("delete-version", "a delete that names a wrong version", true)
	old, now, current, err := r.twoStates(ctx, "delete")
	if err != nil {
		return r.failed(c, err)
	}
	err = r.handles[0].Delete(ctx, "delete", old)
	if bad := r.refused(ctx, c, err, "delete", current, now); bad != nil {
		return bad
	}
	return c.ok("refused, and the register is what it was")
}

func (r *registers) recreate(ctx context.Context) []Check {
	c := finding("recreate", "delete, then create again", true)
	first := value()
	v, err := r.put(ctx, "again", "", first)
	if err == nil {
		err = r.handles[0].Delete(ctx, "again", v)
	}
	if err != nil {
		return r.failed(c, err)
	}
	if gone, err := r.is(ctx, "again", nil, ""); err != nil || !gone {
		if err != nil {
			return r.failed(c, err)
		}
		return c.unsafe("the delete was answered, and the register is still there", "what was removed comes back")
	}
	w, err := r.put(ctx, "again", "", first)
	switch {
	case errors.Is(err, store.ErrConflict):
		return c.unsafe("what was deleted cannot be created again", "a lock that was removed could never be taken again")
	case err != nil:
		return r.failed(c, err)
	case w == v:
		return c.unsafe("the old version came back", "a holder that slept could overwrite a new one; leases are refused here")
	}
	_, err = r.put(ctx, "again", v, value())
	if bad := r.refused(ctx, c, err, "again", first, w); bad != nil {
		return bad
	}
	return c.ok("it has a new version, and the old one is refused")
}

func (r *registers) equalValues(ctx context.Context) []Check {
	c := finding("equal-values", "equal values written twice", true)
	same := value()
	v, err := r.put(ctx, "equal", "", same)
	if err != nil {
		return r.failed(c, err)
	}
	w, err := r.put(ctx, "equal", v, same)
	if err != nil {
		return r.failed(c, err)
	}
	if v == w {
		return c.unsafe("both have the same version", "an old state looks current again; leases are refused here")
	}
	_, err = r.put(ctx, "equal", v, value())
	if bad := r.refused(ctx, c, err, "equal", same, w); bad != nil {
		return bad
	}
	return c.ok("each has its own version")
}

func (r *registers) readAfterWrite(ctx context.Context) []Check {
	c := finding("read-after-write", "reading what was just written", true)
	var v store.Version
	for i := range r.o.Samples {
		mine := value()
		w, err := r.handles[i%2].Put(ctx, "fresh", v, mine)
		if err != nil {
			return r.failed(c, err)
		}
		same, err := r.is(ctx, "fresh", mine, w)
		if err != nil {
			return r.failed(c, err)
		}
		if !same {
			return c.unsafe("a read after a write answered with an older state", "a waiter would count from the wrong state; is there a cache in between?")
		}
		v = w
	}
	return c.ok("the last write was seen, %d times out of %d", r.o.Samples, r.o.Samples)
}

func (r *registers) large(ctx context.Context) []Check {
	c := finding("large-value", "a value of 64 KiB, and odd names", true)
	for key, v := range map[string][]byte{
		"large":                            bytes.Repeat([]byte{0, 'x', '\n', 0xff}, store.MaxValue/4),
		"odd/ü %2F:?*\"<>|\\\n/A.json":     value(),
		"odd/ü %2F:?*\"<>|\\\n/a.json":     value(),
		"long/" + strings.Repeat("n", 300): value(),
	} {
		w, err := r.put(ctx, key, "", v)
		if err != nil {
			return r.failed(c, err)
		}
		same, err := r.is(ctx, key, v, w)
		if err != nil {
			return r.failed(c, err)
		}
		if !same {
			return c.unsafe(fmt.Sprintf("%.40q was not read as it was written", key), "records would be damaged")
		}
	}
	return c.ok("read as they were written")
}

func (r *registers) list(ctx context.Context) []Check {
	c := finding("list-registers", "listing what was just written", false)
	instead := "ls, watch and gc can miss locks; leases do not list"
	keys := func() (all []string, err error) {
		for key, err := range store.List(ctx, r.handles[1], "listed") {
			if err != nil {
				return nil, err
			}
			all = append(all, key)
		}
		slices.Sort(all)
		return all, nil
	}
	if _, err := r.put(ctx, "listed-not", "", value()); err != nil {
		return r.failed(c, err)
	}
	var versions [3]store.Version
	for i := range versions {
		var err error
		if versions[i], err = r.put(ctx, fmt.Sprintf("listed/%d", i), "", value()); err != nil {
			return r.failed(c, err)
		}
	}
	got, err := keys()
	if errors.Is(err, errors.ErrUnsupported) {
		return c.warn("this store cannot list", instead)
	}
	if err != nil {
		return r.failed(c, err)
	}
	if !slices.Equal(got, []string{"listed/0", "listed/1", "listed/2"}) {
		return c.warn(fmt.Sprintf("a listing after three writes shows %d, or wrong ones", len(got)), instead)
	}
	if err := r.handles[0].Delete(ctx, "listed/1", versions[1]); err != nil {
		return r.failed(c, err)
	}
	if got, err = keys(); err != nil {
		return r.failed(c, err)
	}
	if !slices.Equal(got, []string{"listed/0", "listed/2"}) {
		return c.warn("a listing shows what was deleted", instead)
	}
	return c.ok("complete")
}

func (r *registers) latency(ctx context.Context) []Check {
	c := finding("latency", "how long a write and a read take", false)
	var writes, reads []time.Duration
	var v store.Version
	pad := bytes.Repeat([]byte("x"), 300)
	for range r.o.Samples {
		began := time.Now()
		w, err := r.put(ctx, "latency", v, pad)
		if err != nil {
			return r.failed(c, err)
		}
		writes, v = append(writes, time.Since(began)), w
		began = time.Now()
		if _, _, err = r.handles[0].Get(ctx, "latency"); err != nil {
			return r.failed(c, err)
		}
		reads = append(reads, time.Since(began))
	}
	write, read := median(writes), median(reads)
	c.write, c.read = write, read
	found := fmt.Sprintf("median of %d: a write %v, a read %v", r.o.Samples, round(write), round(read))
	if write > max(slow, store.TraitsOf(r.handles[0]).WriteTime*3/2) {
		return c.warn(found, "leases need a longer --ttl here: a renewal and its repetition must fit into a third of it")
	}
	return c.ok("%s", found)
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
