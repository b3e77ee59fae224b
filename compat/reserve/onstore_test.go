package reserve_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/compat/reserve"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// TestRegisterAsTable: a row is inserted once, replaced exactly where it was seen, and
// one register serves all states of a key.
func TestRegisterAsTable(t *testing.T) {
	for name, st := range map[string]store.Store{"conflicts tell": new(memstore.Store), "conflicts do not": silent{new(memstore.Store)}} {
		t.Run(name, func(t *testing.T) {
			tab := reserve.NewStoreTable(st)
			row := reserve.Row{Key: "a//b ü", Version: `"v"`, Generation: 7, Timeout: time.Second, TTL: 9, Nonce: "n"}
			placed, err := tab.Insert(t.Context(), row)
			if err != nil {
				t.Fatal(err)
			}
			mine := row
			mine.Tag = placed.Tag
			next := row
			next.Generation, next.Nonce = 8, "m"
			var met *reserve.ConflictError
			if _, err := tab.Insert(t.Context(), next); !errors.As(err, &met) || met.Row != mine {
				t.Errorf("a second insertion: %v, %+v", err, met)
			}
			lost := row // its answer never came
			if _, err := tab.Replace(t.Context(), lost, next); err != nil {
				t.Fatal(err)
			}
			if _, err := tab.Replace(t.Context(), mine, next); !errors.As(err, &met) || met.Row.Generation != 8 || met.Row.Nonce != "m" {
				t.Errorf("over a row that is gone: %v", err)
			}
			if _, err := tab.Replace(t.Context(), lost, next); !errors.As(err, &met) || met.Row.Generation != 8 {
				t.Errorf("over a row that is gone, by its nonce: %v", err)
			}
			other := row
			other.Version = ""
			if _, err := tab.Insert(t.Context(), other); !errors.As(err, &met) || met.Row.Version != row.Version {
				t.Errorf("for another state: %v", err)
			}
		})
	}
}

// TestRegisterKeepsRowsOfOtherStates: a register has the rows of other states, which can be met,
// listed, released and taken over, until they are released or old. It does not grow without bound.
func TestRegisterKeepsRowsOfOtherStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := new(memstore.Store)
		tab := reserve.NewStoreTable(st)
		var met *reserve.ConflictError
		add := func(v object.Version, ttl time.Duration) reserve.Row {
			row := reserve.Row{Key: "k", Version: v, Generation: 1, Timeout: time.Second, TTL: time.Now().Add(ttl).Unix(), Nonce: "of " + string(v)}
			placed, err := tab.Insert(t.Context(), row)
			if errors.As(err, &met) && met.Row.Version != v {
				placed, err = tab.Replace(t.Context(), met.Row, row)
			}
			if err != nil {
				t.Fatal(v, err)
			}
			row.Tag = placed.Tag
			return row
		}
		kept := func(want ...object.Version) {
			t.Helper()
			var got []object.Version
			for row, err := range tab.(reserve.Lister).Rows(t.Context()) {
				if err != nil || row.Nonce != "of "+string(row.Version) {
					t.Errorf("got %+v, %v", row, err)
				}
				got = append(got, row.Version)
			}
			if !slices.Equal(got, want) {
				t.Errorf("the register has the rows of %q, want %q", got, want)
			}
		}
		a, b := add("a", time.Hour), add("b", time.Hour)
		c := add("c", time.Minute)
		kept("c", "b", "a")
		again := a
		if _, err := tab.Insert(t.Context(), again); !errors.As(err, &met) || met.Row.Nonce != "of a" {
			t.Errorf("another writer of a state whose row is kept: %v, %+v", err, met)
		}
		free := func(r reserve.Row) {
			t.Helper()
			to := r
			to.Generation, to.Timeout = 2, 0
			if _, err := tab.Replace(t.Context(), r, to); err != nil {
				t.Error(err)
			}
			if _, err := tab.Replace(t.Context(), r, to); !errors.As(err, &met) {
				t.Errorf("a row was released twice: %v", err)
			}
		}
		free(add("d", time.Hour))
		if _, err := tab.Replace(t.Context(), c, reserve.Row{Key: "k", Version: "d"}); !errors.As(err, &met) || met.Row.Nonce != "of c" {
			t.Errorf("for a state that had a holder since the register was read: %v", err)
		}
		free(a)
		kept("c", "b")
		time.Sleep(2 * time.Minute)
		free(b) // c is old now
		if _, err := tab.Insert(t.Context(), c); !errors.As(err, &met) || met.Row.Version != "b" || met.Row.Timeout != 0 {
			t.Errorf("after the last release: %v, %+v", err, met)
		}
		for i := range 200 {
			add(object.Version(fmt.Sprintf("%040d", i)), time.Hour)
		}
		value, _, err := st.Get(t.Context(), register)
		n := strings.Count(string(value), "nonce")
		if err != nil || len(value) > 8<<10 || n < 40 {
			t.Errorf("a register of %d bytes has %d rows, %v", len(value), n, err)
		}
	})
}

// TestListOfRegisters: a store lists its reservations, and a register that is none hides no
// other one. A table that cannot list says so.
func TestListOfRegisters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := new(memstore.Store)
		r, err := reserve.New(reserve.NewStoreTable(st), nil)
		if err != nil {
			t.Fatal(err)
		}
		nothing := func(context.Context) error { return nil }
		if _, err := st.Put(t.Context(), "reservation/bad", "", []byte("{}")); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"a", "b"} {
			if err := r.Do(t.Context(), key, "v", nothing, nothing); err != nil {
				t.Fatal(err)
			}
			time.Sleep(40 * time.Second)
		}
		live, corrupt := map[string]bool{}, 0
		for s, err := range r.List(t.Context()) {
			switch {
			case errors.Is(err, store.ErrCorrupt):
				corrupt++
			case err != nil || s.Version != "v" || s.Nonce == "":
				t.Errorf("got %+v, %v", s, err)
			default:
				live[s.Key] = s.Live
			}
		}
		if len(live) != 2 || live["a"] || !live["b"] || corrupt != 1 {
			t.Errorf("live: %v, %d corrupt", live, corrupt)
		}
		cannot, err := reserve.New(struct{ reserve.Table }{reserve.NewStoreTable(st)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range cannot.List(t.Context()) {
			if !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("a table that cannot list: %v", err)
			}
		}
	})
}

// silent is a store whose conflicts tell nothing.
type silent struct{ store.Store }

func (s silent) Put(ctx context.Context, key string, prev store.Version, value []byte) (store.Version, error) {
	v, err := s.Store.Put(ctx, key, prev, value)
	if errors.Is(err, store.ErrConflict) {
		err = &store.ConflictError{Key: key}
	}
	return v, err
}

// TestStaleWriterChecksAgainOnARegister: the register may have no reservation for the state of a
// writer any more. The writer checks the object once more.
func TestStaleWriterChecksAgainOnARegister(t *testing.T) {
	for pause, release := range map[time.Duration]bool{time.Minute: false, timeout / 2: true} {
		synctest.Test(t, func(t *testing.T) {
			b, st := newBucket(), new(memstore.Store)
			v := b.write(t, "k", "1")
			checks := 0
			stale := func(ctx context.Context) error {
				err := reserve.CheckVersion(b, "k", v)(ctx)
				if checks++; checks == 1 {
					time.Sleep(pause)
				}
				return err
			}
			done := make(chan error)
			go func() {
				done <- reserver(t, reserve.NewStoreTable(st)).Do(t.Context(), "k", v, stale, b.put("k", "stale"))
			}()
			synctest.Wait()
			r, err := reserve.New(reserve.NewStoreTable(st), &reserve.Options{Timeout: timeout, ReleaseApplied: release})
			if err != nil {
				t.Fatal(err)
			}
			at := v
			for _, body := range []string{"2", "3"} {
				if err := r.ForBucket(b).Do(t.Context(), "k", at, b.put("k", body)); err != nil {
					t.Fatal(err)
				}
				info, err := b.Stat(t.Context(), "k")
				if err != nil {
					t.Fatal(err)
				}
				at = info.Version
			}
			if err := <-done; !errors.Is(err, store.ErrConflict) || b.body(t, "k") != "3" {
				t.Errorf("the stale writer: %v; the object is %q", err, b.body(t, "k"))
			}
		})
	}
}

// TestHolderOfAReturnedState: a holder still works while another writer deletes the object
// that it has created. A third writer that creates the object again waits for the holder.
func TestHolderOfAReturnedState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, tab := newBucket(), reserve.NewStoreTable(new(memstore.Store))
		created, done := make(chan object.Version), make(chan error)
		go func() {
			done <- reserver(t, tab).ForBucket(b).Do(t.Context(), "k", "", func(ctx context.Context) error {
				created <- b.write(t, "k", "first")
				time.Sleep(timeout / 2)
				return b.put("k", "first")(ctx) // its client sends the request again
			})
		}()
		remove := func(ctx context.Context) error { return b.Delete(ctx, "k", nil) }
		if err := reserver(t, tab).ForBucket(b).Do(t.Context(), "k", <-created, remove); err != nil {
			t.Fatal(err)
		}
		err := reserver(t, tab).ForBucket(b).Do(t.Context(), "k", "", b.put("k", "third"))
		if !errors.Is(err, store.ErrConflict) || <-done != nil || b.body(t, "k") != "first" {
			t.Errorf("the third writer: %v; the object is %q", err, b.body(t, "k"))
		}
	})
}

// TestWaitBesideOtherWriters: a wait for a dead holder does not begin again when rows of other
// states change the register.
func TestWaitBesideOtherWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, tab := newBucket(), reserve.NewStoreTable(new(memstore.Store))
		if _, err := tab.Insert(t.Context(), foreign("k", "", 1)); err != nil {
			t.Fatal(err)
		}
		began, done := time.Now(), make(chan error)
		go func() { done <- reserver(t, tab).ForBucket(b).Do(t.Context(), "k", "", b.put("k", "1")) }()
		for i := range 10 {
			time.Sleep(rule / 10)
			row := foreign("k", object.Version(fmt.Sprint("other ", i)), 1)
			_, err := tab.Insert(t.Context(), row)
			var met *reserve.ConflictError
			if errors.As(err, &met) {
				_, err = tab.Replace(t.Context(), met.Row, row)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := <-done; err != nil || time.Since(began) > rule+2*reserve.TestInterval {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// register is that of the key "k".
const register = "reservation/8254c329a92850f6d539dd376f4816ee2764517da5e0235514af433164480d7a"

func TestDamagedRegisterIsNotTouched(t *testing.T) {
	for _, value := range []string{
		"", "no JSON", `{}`, `{"reservation":2,"key":"k"}`, `{"reservation":1,"key":"l"}`, `{"reservation":1,"key":"k","timeout_ms":-1}`,
		`{"reservation":1,"key":"k","timeout_ms":9300000000000000}`, `{"reservation":1,"key":"k","generation":-1}`, `{"reservation":1,"key":"k","generation":"x"}`,
		`{"reservation":1,"key":"k","kept":[{"timeout_ms":-1}]}`,
	} {
		st := new(memstore.Store)
		if _, err := st.Put(t.Context(), register, "", []byte(value)); err != nil {
			t.Fatal(err)
		}
		err := reserver(t, reserve.NewStoreTable(st)).ForBucket(newBucket()).Do(t.Context(), "k", "", func(context.Context) error { t.Error("it operated"); return nil })
		if !errors.Is(err, store.ErrCorrupt) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("%q: %v", value, err)
		}
		if now, _, err := st.Get(t.Context(), register); err != nil || string(now) != value {
			t.Errorf("%q became %q, %v", value, now, err)
		}
	}
}

// TestReadableRegister: data of today must be read for ever.
func TestReadableRegister(t *testing.T) {
	const value = `{"reservation":1,"key":"k","version":"\"v\"","generation":4294967296,"timeout_ms":1000,"ttl":1795287367,"nonce":"N"}`
	const keeps = `{"reservation":1,"key":"k","version":"","generation":1,"timeout_ms":0,"ttl":0,"nonce":"","kept":[{"version":"\"v\"","generation":4294967296,"timeout_ms":1000,"ttl":1795287367,"nonce":"N"}]}`
	st := new(memstore.Store)
	row := reserve.Row{Key: "k", Version: `"v"`, Generation: 1 << 32, Timeout: time.Second, TTL: 1795287367, Nonce: "N"}
	if _, err := reserve.NewStoreTable(st).Insert(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	if got, _, err := st.Get(t.Context(), register); err != nil || string(got) != value {
		t.Errorf("got %s, %v", got, err)
	}
	var met *reserve.ConflictError
	_, err := reserve.NewStoreTable(st).Insert(t.Context(), row)
	if !errors.As(err, &met) {
		t.Fatal(err)
	}
	if met.Row.Tag = ""; met.Row != row {
		t.Errorf("it is read as %+v", met.Row)
	}
	st = new(memstore.Store)
	if _, err := st.Put(t.Context(), register, "", []byte(keeps)); err != nil {
		t.Fatal(err)
	}
	if _, err := reserve.NewStoreTable(st).Insert(t.Context(), row); !errors.As(err, &met) {
		t.Fatal(err)
	}
	if met.Row.Tag = ""; met.Row != row {
		t.Errorf("a kept reservation is read as %+v", met.Row)
	}
}

// TestCounterOnARegisterThatLosesReplies: a bucket without conditions, and a register for
// the reservations: no increment is lost or done twice.
func TestCounterOnARegisterThatLosesReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const writers, each = 4, 25
		b := newBucket()
		st := faultstore.New(new(memstore.Store), faultstore.Random(1))
		var all sync.WaitGroup
		for range writers {
			r := reserver(t, reserve.NewStoreTable(st)).ForBucket(b)
			all.Go(func() {
				for done := 0; done < each; {
					n, v := 0, object.Version("")
					body, info, err := object.ReadAll(t.Context(), b.Bucket, "k", 100, nil)
					if err == nil {
						v = info.Version
						_, err = fmt.Sscan(string(body), &n)
					}
					if err != nil && !errors.Is(err, store.ErrNotFound) {
						t.Error(err)
						return
					}
					err = r.Do(t.Context(), "k", v, func(ctx context.Context) error {
						time.Sleep(time.Millisecond)
						_, err := b.Put(ctx, "k", strings.NewReader(fmt.Sprint(n+1)), nil)
						return err
					})
					if err == nil {
						done++
					}
				}
			})
		}
		all.Wait()
		if got := b.body(t, "k"); got != fmt.Sprint(writers*each) {
			t.Errorf("the counter is %s after %d increments", got, writers*each)
		}
	})
}

// FuzzRegister: whatever a register holds, a writer refuses it with an error, or takes it
// for a reservation that it can replace.
func FuzzRegister(f *testing.F) {
	f.Add([]byte(`{"reservation":1,"key":"k","version":"","generation":4294967296,"timeout_ms":0,"ttl":1795287367,"nonce":"N"}`))
	f.Add([]byte(`{"reservation":1,"key":"k","version":"v","generation":18446744073709551615,"timeout_ms":9223372036854}`))
	f.Add([]byte(`{"reservation":1,"key":"k","kept":[{"version":"w","timeout_ms":1,"ttl":9999999999},{"version":""}]}`))
	f.Add([]byte(`{"reservation":1}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		if len(value) > store.MaxValue {
			return
		}
		st := new(memstore.Store)
		if _, err := st.Put(t.Context(), register, "", value); err != nil {
			t.Fatal(err)
		}
		tab := reserve.NewStoreTable(st)
		row := reserve.Row{Key: "k", Generation: 1, Timeout: time.Second}
		_, err := tab.Insert(t.Context(), row)
		var met *reserve.ConflictError
		switch {
		case errors.Is(err, store.ErrCorrupt):
		case !errors.As(err, &met) || met.Row.Timeout < 0 || met.Row.Key != "k":
			t.Errorf("got %v, %+v", err, met)
		default:
			if _, err := tab.Replace(t.Context(), met.Row, row); err != nil {
				t.Errorf("replacing %+v: %v", met.Row, err)
			}
		}
	})
}
