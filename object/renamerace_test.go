package object_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/store"
)

// claim is one program's rename of the object job to a name of its own.
func claim(ctx context.Context, c *object.Client, destination string) error {
	_, err := c.Rename(ctx, "job", destination, &object.WriteOptions{IfAbsent: true})
	return err
}

// renamers are buckets, and options, with which a rename is carried out in different ways.
func renamers() map[string]renamer {
	all := make(map[string]renamer)
	for kind, open := range buckets() {
		all[kind] = renamer{open, fast()}
	}
	streams := fast()
	streams.Abilities = map[object.Ability]bool{object.PlainCopy: false}
	all["streaming"] = renamer{func() object.Bucket { return &membucket.Bucket{Hashed: true} }, streams}
	return all
}

type renamer struct {
	open func() object.Bucket
	opts *object.Options
}

// checkJob checks what several renames of an object with the body "precious" have left,
// whose errors are given by destination: at most one has succeeded, its object is there, and
// nothing is lost. Where all is settled there is one object.
func checkJob(t *testing.T, what string, c *object.Client, told map[string][]error, settled bool) {
	t.Helper()
	var winners, places []string
	for destination, errs := range told {
		won := false
		for _, err := range errs {
			won = won || err == nil
			if store.OutcomeOf(err) == store.Unknown && errors.Is(err, store.ErrConflict) {
				t.Errorf("%s: an unknown outcome looks like a conflict: %v", what, err)
			}
		}
		if won {
			winners = append(winners, destination)
		}
		if content(t, c, destination) == "precious" {
			places = append(places, destination)
		}
	}
	source := content(t, c, "job")
	switch {
	case len(winners) > 1:
		t.Fatalf("%s: renames to %q have succeeded", what, winners)
	case len(winners) == 1 && (content(t, c, winners[0]) != "precious" || source != "absent"):
		t.Fatalf("%s: the rename to %s has succeeded; it is at %q, and the source is %s", what, winners[0], places, source)
	case len(places) == 0 && source != "precious":
		t.Fatalf("%s: the object is lost", what)
	case settled && (len(places) != 1 || source != "absent"):
		t.Fatalf("%s: in the end it is at %q, and the source is %s", what, places, source)
	}
}

// TestRenameToTwoNames: while one program renames an object, another renames it to another
// name, or to the same, before any request of the first, at once or after the first one was
// stopped for an hour. One wins.
func TestRenameToTwoNames(t *testing.T) {
	for kind, r := range renamers() {
		for _, stopped := range []time.Duration{0, time.Hour} {
			for _, second := range []string{"w1", "w2"} {
				for _, fault := range []objecttest.Fault{objecttest.Pass, objecttest.Fail, objecttest.Lose, objecttest.Repeat, objecttest.Cut} {
					t.Run(fmt.Sprintf("%s/stopped %v/%s/fault %d", kind, stopped, second, fault), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							for n, clean := 1, false; !clean; n++ {
								clean = renameTwice(t, r, n, stopped, second, fault)
							}
						})
					})
				}
			}
		}
	}
}

// renameTwice renames to w1, and to second before the n-th request of that, which meets a
// fault. It reports whether there were fewer requests.
func renameTwice(t *testing.T, r renamer, n int, stopped time.Duration, second string, fault objecttest.Fault) (clean bool) {
	what := fmt.Sprintf("request %d", n)
	below := r.open()
	other := newClient(t, below, r.opts)
	if _, err := other.Put(t.Context(), "job", body("precious"), nil); err != nil {
		t.Fatal(err)
	}
	told := map[string][]error{"w1": nil, "w2": nil}
	b := objecttest.NewFaulty(below, func(c objecttest.Call) objecttest.Fault {
		if c.N != n {
			return objecttest.Pass
		}
		time.Sleep(stopped)
		told[second] = append(told[second], claim(t.Context(), other, second))
		return fault
	})
	told["w1"] = append(told["w1"], claim(t.Context(), newClient(t, b, r.opts), "w1"))
	clean = b.Len() < n
	checkJob(t, what, other, told, false)
	if fault == objecttest.Pass && !clean && told["w1"][len(told["w1"])-1] != nil && told[second][0] != nil {
		t.Fatalf("%s: none has won: %v", what, told)
	}
	// What is called again finishes, one after the other.
	for _, destination := range []string{"w1", "w2"} {
		told[destination] = append(told[destination], claim(t.Context(), other, destination))
		checkJob(t, what+", called again", other, told, false)
	}
	time.Sleep(time.Hour)
	for _, destination := range []string{"w2", "w1"} {
		told[destination] = append(told[destination], claim(t.Context(), other, destination))
	}
	checkJob(t, what+", in the end", other, told, true)
	return clean
}

// TestRenameHistories: four programs rename one object, mostly to names of their own, while
// requests fail, lose their replies, are repeated and come late, and while programs are
// stopped for a while or killed. At most one name wins, whatever is called again, and in the
// end the object is at one place.
func TestRenameHistories(t *testing.T) {
	rounds := 300
	if os.Getenv("HOLDFAST_TORTURE") != "" {
		rounds = 100_000
	}
	for kind, r := range renamers() {
		t.Run(kind, func(t *testing.T) {
			won, unknown := 0, 0
			for range rounds {
				synctest.Test(t, func(t *testing.T) {
					w, u := renameHistory(t, r, rand.Uint64())
					won, unknown = won+w, unknown+u
				})
				if t.Failed() {
					return
				}
			}
			t.Logf("%d rounds: %d calls won, %d did not know", rounds, won, unknown)
		})
	}
}

func renameHistory(t *testing.T, r renamer, seed uint64) (won, unknown int) {
	const programs = 4
	below := r.open()
	direct := newClient(t, below, r.opts)
	if _, err := direct.Put(t.Context(), "job", body("precious"), nil); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	told := map[string][]error{"final": nil, "w0": nil, "w1": nil, "w2": nil, "w3": nil}
	var faulty []*objecttest.Faulty
	var wg sync.WaitGroup
	for i := range programs {
		rnd := rand.New(rand.NewPCG(seed, uint64(i)))
		destination := fmt.Sprint("w", rnd.IntN(programs))
		for life := range 1 + rnd.IntN(3) {
			dies := rnd.IntN(20) // at this request
			b := objecttest.NewFaulty(below, func(c objecttest.Call) objecttest.Fault {
				rnd := rand.New(rand.NewPCG(seed, uint64(i*1000+life*100+c.N)<<8))
				time.Sleep(time.Duration(rnd.IntN(1000)) * time.Microsecond)
				if rnd.IntN(10) == 0 {
					time.Sleep(time.Duration(rnd.IntN(180)) * time.Second)
				}
				switch fault := objecttest.Fault(rnd.IntN(30)); {
				case c.N == dies:
					return objecttest.Cut
				case fault <= objecttest.Late:
					return fault
				}
				return objecttest.Pass
			})
			faulty = append(faulty, b)
			c := newClient(t, b, r.opts)
			calls, pause := 1+rnd.IntN(3), time.Duration(rnd.IntN(120))*time.Second
			delivers := rnd.IntN(2) == 0
			start := time.Duration(rnd.IntN(2)) * time.Duration(rnd.IntN(100)) * time.Second
			wg.Go(func() {
				time.Sleep(start)
				for range calls {
					err := claim(t.Context(), c, destination)
					mu.Lock()
					told[destination] = append(told[destination], err)
					mu.Unlock()
					if delivers {
						b.Deliver()
					}
					time.Sleep(pause)
				}
			})
		}
	}
	wg.Wait()
	what := fmt.Sprintf("seed %d", seed)
	checkJob(t, what, direct, told, false)
	for _, b := range faulty {
		b.Deliver()
	}
	checkJob(t, what+", with what came late", direct, told, false)
	time.Sleep(time.Hour)
	told["final"] = append(told["final"], claim(t.Context(), direct, "final"))
	for destination := range told {
		told[destination] = append(told[destination], claim(t.Context(), direct, destination))
	}
	checkJob(t, what+", in the end", direct, told, true)
	for _, errs := range told {
		for _, err := range errs {
			if err == nil {
				won++
			} else if store.OutcomeOf(err) == store.Unknown {
				unknown++
			}
		}
	}
	return won, unknown
}

// killedAtWrite is a bucket for a process that is killed at its first write below a prefix. That write
// comes late.
func killedAtWrite(below object.Bucket, prefix string) *objecttest.Faulty {
	late := false
	return objecttest.NewFaulty(below, func(c objecttest.Call) objecttest.Fault {
		switch {
		case late:
			return objecttest.Cut
		case c.Write() && strings.HasPrefix(c.Key, prefix):
			late = true
			return objecttest.Late
		}
		return objecttest.Pass
	})
}

// TestRenameLateCopy: the copy of a rename that was killed comes late, while another one that
// has displaced it is at work, or when that is done. It does not stay.
func TestRenameLateCopy(t *testing.T) {
	for kind, r := range renamers() {
		for n := 1; n <= 7; n++ { // before this request of the second one; there are six
			synctest.Test(t, func(t *testing.T) {
				below := r.open()
				c := newClient(t, below, r.opts)
				if _, err := c.Put(t.Context(), "job", body("precious"), nil); err != nil {
					t.Fatal(err)
				}
				killed := killedAtWrite(below, "w1")
				told := map[string][]error{"w1": {claim(t.Context(), newClient(t, killed, r.opts), "w1")}}
				time.Sleep(time.Hour)
				b := objecttest.NewFaulty(below, func(c objecttest.Call) objecttest.Fault {
					if c.N == n {
						killed.Deliver()
					}
					return objecttest.Pass
				})
				told["w2"] = []error{claim(t.Context(), newClient(t, b, r.opts), "w2")}
				killed.Deliver()
				what := fmt.Sprintf("%s, late at request %d", kind, n)
				// Where the client puts the copy, nothing refuses it after the end; then the next
				// call removes it.
				checkJob(t, what, c, told, kind != "streaming")
				told["w1"] = append(told["w1"], claim(t.Context(), c, "w1"))
				checkJob(t, what+", called again", c, told, true)
			})
		}
	}
}

// TestRenameLateMark: the mark of a rename that has lost comes late, when the winner is done.
// The winner, which is called again, has still won.
func TestRenameLateMark(t *testing.T) {
	for kind, r := range renamers() {
		synctest.Test(t, func(t *testing.T) {
			below := r.open()
			c := newClient(t, below, r.opts)
			if _, err := c.Put(t.Context(), "job", body("precious"), nil); err != nil {
				t.Fatal(err)
			}
			killed := killedAtWrite(below, ".holdfast/rename/")
			_ = claim(t.Context(), newClient(t, killed, r.opts), "w2")
			if err := claim(t.Context(), c, "w1"); err != nil {
				t.Fatal(err)
			}
			killed.Deliver()
			if err := claim(t.Context(), c, "w1"); err != nil {
				t.Errorf("%s: called again, the winner is told %v (%v)", kind, err, store.OutcomeOf(err))
			}
			if err := claim(t.Context(), c, "w2"); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s: the loser is told %v", kind, err)
			}
		})
	}
}

// TestRenameOfTheSameBytes: an object that another program makes again with the same bytes
// is another object. A rename of the first one, done or begun, does not count for it.
func TestRenameOfTheSameBytes(t *testing.T) {
	for kind, r := range renamers() {
		for n := 1; n <= 8; n++ { // requests of the first rename, which is then cut
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				below := r.open()
				make := func() {
					if _, err := below.Put(ctx, "job", body("precious"), nil); err != nil {
						t.Fatal(err)
					}
				}
				make()
				b := objecttest.NewFaulty(below, objecttest.Nth(n, objecttest.Cut))
				_ = claim(ctx, newClient(t, b, r.opts), "w1")
				c := newClient(t, below, r.opts)
				if err := c.Delete(ctx, "job", nil); err != nil {
					t.Fatal(err)
				}
				there := content(t, c, "w1")
				time.Sleep(time.Second)
				make()
				err := claim(ctx, c, "w1")
				if there == "absent" && (err != nil || content(t, c, "job") != "absent") {
					t.Errorf("%s, cut at %d: a new rename: %v", kind, n, err)
				}
				if there != "absent" && (!errors.Is(err, store.ErrConflict) || content(t, c, "job") != "precious") {
					t.Errorf("%s, cut at %d: a rename over an earlier one: %v, and the source is %s", kind, n, err, content(t, c, "job"))
				}
			})
		}
	}
}

// TestRenameLeavesNoMark: the intent of a rename that is done, or was refused, is removed.
func TestRenameLeavesNoMark(t *testing.T) {
	for kind, r := range renamers() {
		below := r.open()
		c := newClient(t, below, r.opts)
		for _, key := range []string{"job", "taken"} {
			if _, err := c.Put(t.Context(), key, body("precious"), nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := claim(t.Context(), c, "taken"); !errors.Is(err, store.ErrConflict) {
			t.Errorf("%s: %v", kind, err)
		}
		if err := claim(t.Context(), c, "w1"); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		for info, err := range below.List(t.Context(), ".holdfast/", nil) {
			t.Errorf("%s: %s is left, %v", kind, info.Key, err)
		}
	}
}

// TestRenameWhereADeleteIsUnclear: a store that checks the condition of a delete, and
// answers success where there is no object, can rename without a reservation.
func TestRenameWhereADeleteIsUnclear(t *testing.T) {
	c := newClient(t, &lacking{Bucket: &membucket.Bucket{Hashed: true}, t: t, lacks: []object.Ability{object.DeleteIfMatch}}, nil)
	info, err := c.Put(t.Context(), "job", body("precious"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), "job", &object.WriteOptions{Base: &info}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a delete: %v", err)
	}
	if err := claim(t.Context(), c, "w1"); err != nil || content(t, c, "w1") != "precious" {
		t.Errorf("a rename: %v", err)
	}
}
