package tofustate_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/adapters/tofustate"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// large is a state of two parts, which a compressor cannot make smaller.
func large(serial int, seed byte) string {
	data := make([]byte, 70_000)
	rand.NewChaCha8([32]byte{seed, byte(serial)}).Read(data)
	return stateOf(serial, base64.StdEncoding.EncodeToString(data))
}

// TestStoppedServer: a server stops in the middle of a request, at each of its calls of the store in turn. Another server
// forces the lock, and stores so many versions that each slot is used again. Then the first server continues: it changes
// nothing, and all versions remain whole. Without a lock, and with states that have no lineage, it stores its state after
// the others.
func TestStoppedServer(t *testing.T) {
	for at := 1; stopAt(t, at, true); at++ {
	}
	for at := 1; stopAt(t, at, false); at++ {
	}
}

// stopAt stops a server before a call of the store. It returns false if the request has fewer calls.
func stopAt(t *testing.T, at int, locked bool) (stops bool) {
	const keep = 2
	synctest.Test(t, func(t *testing.T) {
		inner := memstore.New()
		options := &tofustate.Options{Keep: keep}
		fast := handler(t, inner, options)
		stopped, proceed := make(chan struct{}), make(chan struct{})
		var calls atomic.Int64 // of the request that is stopped
		calls.Store(-1000)
		slow := handler(t, store.Intercept(inner, func(ctx context.Context, op *store.Op, next store.Handler) error {
			if calls.Add(1) == int64(at) {
				close(stopped)
				<-proceed
			}
			return next(ctx, op)
		}), options)
		// post stores a state under a lock of this ID.
		post := func(h http.Handler, id, body string) int {
			if !locked {
				status, _ := ask(t.Context(), h, "POST /state/s", strings.Replace(body, "lineage", "other", 1))
				return status
			}
			if id != "A" {
				ask(t.Context(), h, "LOCK /state/s", lockOf(id))
				defer ask(t.Context(), h, "UNLOCK /state/s", lockOf(id))
			}
			status, _ := ask(t.Context(), h, "POST /state/s?ID="+id, body)
			return status
		}
		ask(t.Context(), fast, "LOCK /state/s", lockOf("A"))
		if !locked {
			ask(t.Context(), fast, "UNLOCK /state/s", "")
		}
		last := 2
		for serial := 1; serial <= last; serial++ {
			if status := post(slow, "A", large(serial, 0)); status != 200 {
				t.Fatalf("serial %d: status %d", serial, status)
			}
		}
		calls.Store(0)
		late := make(chan int, 1)
		go func() { late <- post(slow, "A", large(99, 0)) }()
		synctest.Wait()
		select {
		case <-stopped:
			stops = true
		case status := <-late:
			if status != 200 || at < 8 {
				t.Errorf("call %d: the request was not stopped, and has the status %d", at, status)
			}
			return
		}
		ask(t.Context(), fast, "UNLOCK /state/s", "")
		for range 1 + at%7 {
			last++
			if status := post(fast, fmt.Sprint("B", last), large(last, 1)); status != 200 {
				t.Fatalf("stopped at call %d: serial %d: status %d", at, last, status)
			}
		}
		close(proceed)
		newest := map[bool]int{true: 409, false: 200}[locked]
		if status := <-late; status != newest {
			t.Errorf("stopped at call %d: the late request got status %d, want %d", at, status, newest)
		}
		wants := []string{}
		for serial := 3; serial <= last; serial++ {
			wants = append(wants, large(serial, 1))
		}
		if !locked {
			wants = append(wants, large(99, 0))
		}
		all := history(t, fast, "s")
		for i, v := range all {
			if back := len(all) - i; back <= len(wants) {
				want := wants[len(wants)-back]
				if !locked {
					want = strings.Replace(want, "lineage", "other", 1)
				}
				status, body := ask(t.Context(), fast, fmt.Sprint("GET /state/s?version=", v.Version), "")
				if status != 200 || body != want {
					t.Errorf("stopped at call %d, locked %t: version %d: status %d, %.100s, want %.100s", at, locked, v.Version, status, body, want)
				}
			}
		}
	})
	return stops
}

// TestFaults: clients lock, store and unlock through two servers, while the store loses requests and replies, and applies
// writes late. Some clients die with their lock, and others force it. Every accepted state is one version of the history,
// with its content, and no client writes after another has got the lock.
func TestFaults(t *testing.T) {
	injected, forced, accepted := 0, 0, 0
	seeds := 4
	if os.Getenv("HOLDFAST_TORTURE") == "1" {
		seeds = 400
	}
	for seed := range uint64(seeds) {
		synctest.Test(t, func(t *testing.T) {
			inner := memstore.New()
			faulty := faultstore.New(inner, faultstore.MustParse(fmt.Sprintf(
				"write * %%0.03 lose; write * %%0.03 drop; write * %%0.03 late +1; write * %%0.03 late 1s~9s; read * %%0.02 fail; * * %%0.3 delay 1ms~900ms; seed %d", seed)))
			options := &tofustate.Options{Keep: tofustate.MaxKeep}
			servers := []http.Handler{handler(t, faulty, options), handler(t, faulty, options)}
			var mu sync.Mutex
			stored := map[int]string{} // by serial
			var group sync.WaitGroup
			for client := range 4 {
				group.Go(func() {
					random := rand.New(rand.NewPCG(seed, uint64(client)))
					send := func(line, body string) int {
						for {
							status, _ := ask(t.Context(), servers[random.IntN(2)], line, body)
							if status < 500 {
								return status
							}
							time.Sleep(time.Second)
						}
					}
					for round := range 6 {
						id := fmt.Sprintf("%d-%d", client, round)
						for tries := 0; ; tries++ {
							status := send("LOCK /state/s", lockOf(id))
							if status == 200 {
								break
							}
							if status == 409 {
								id += "x" // another client has forced the lock before the reply arrived
							}
							time.Sleep(time.Second)
							if tries == 40 {
								send("UNLOCK /state/s", "")
								mu.Lock()
								forced++
								mu.Unlock()
								tries = 0
							}
						}
						serial := 0
						if status, body := ask(t.Context(), handler(t, inner, options), "GET /state/s", ""); status == 200 {
							fmt.Sscanf(body, `{"version":4,"serial":%d`, &serial)
						}
						for range random.IntN(4) {
							serial++
							body := stateOf(serial, id+strings.Repeat("x", random.IntN(100)))
							if random.IntN(4) == 0 {
								body = large(serial, byte(client))
							}
							if send("POST /state/s?ID="+id, body) != 200 {
								break // another client has forced the lock
							}
							mu.Lock()
							if stored[serial] != "" {
								t.Errorf("seed %d: serial %d was accepted twice", seed, serial)
							}
							stored[serial] = body
							mu.Unlock()
						}
						if random.IntN(6) > 0 {
							send("UNLOCK /state/s", lockOf(id))
						}
					}
				})
			}
			group.Wait()
			injected += len(faulty.Injected().Rules)
			if err := faulty.Drain(t.Context()); err != nil {
				t.Error(err)
			}
			faulty.Close()
			h, ids, before := handler(t, inner, options), map[string]bool{}, ""
			bySerial := map[int]int{}
			for i, v := range history(t, h, "s") {
				if v.Version != i+1 {
					t.Errorf("seed %d: version %d is at place %d", seed, v.Version, i+1)
				}
				if ids[v.LockID] && v.LockID != before {
					t.Errorf("seed %d: lock %s wrote again after lock %s", seed, v.LockID, before)
				}
				ids[v.LockID], before = true, v.LockID
				bySerial[v.Serial] = v.Version
			}
			for serial, want := range stored {
				status, body := ask(t.Context(), h, fmt.Sprint("GET /state/s?version=", bySerial[serial]), "")
				if status != 200 || body != want {
					t.Errorf("seed %d: serial %d: status %d, %.80s, want %.80s", seed, serial, status, body, want)
				}
				accepted++
			}
		})
	}
	if injected < 30*seeds || forced < seeds/2 || accepted < 15*seeds {
		t.Errorf("the test is weak: %d faults, %d forced locks, %d states", injected, forced, accepted)
	}
}

// TestManyWriters: writers without a lock compete. Each accepted state is a version of its own.
func TestManyWriters(t *testing.T) {
	s := memstore.New()
	var mu sync.Mutex
	var group sync.WaitGroup
	accepted := map[int]string{}
	for writer := range 8 {
		group.Go(func() {
			h := handler(t, s, nil)
			for serial := 1; serial <= 10; serial++ {
				body := large(serial, byte(writer))
				if status, _ := ask(t.Context(), h, "POST /state/s", body); status == 200 {
					mu.Lock()
					if accepted[serial] != "" {
						t.Errorf("serial %d was accepted twice", serial)
					}
					accepted[serial] = body
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	h := handler(t, s, nil)
	all := history(t, h, "s")
	if len(all) != len(accepted) {
		t.Errorf("%d versions, and %d were accepted", len(all), len(accepted))
	}
	for _, v := range all {
		if _, body := ask(t.Context(), h, fmt.Sprint("GET /state/s?version=", v.Version), ""); body != accepted[v.Serial] {
			t.Errorf("version %d does not have the content of its serial %d", v.Version, v.Serial)
		}
	}
}
