//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package avisofile_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// floors are the sequences that were acknowledged.
type floors struct {
	mu sync.Mutex
	at map[string]uint64
}

func newFloors() *floors { return &floors{at: map[string]uint64{}} }

func (f *floors) raise(key string, sequence uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at[key] = max(f.at[key], sequence)
}

func (f *floors) copy() map[string]uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make(map[string]uint64, len(f.at))
	for key, sequence := range f.at {
		all[key] = sequence
	}
	return all
}

// TestLiveWithAnotherProgram advances keys from several processes of both kinds
// at once, keys of their own and shared ones, while another process reads: the file can be
// read at any time, no key goes back, and nothing that was acknowledged is lost.
func TestLiveWithAnotherProgram(t *testing.T) {
	path := statePath(t)
	rounds := 40
	if torture() {
		rounds = 1000
	}
	acked := newFloors()
	var wg sync.WaitGroup
	s := open(t, path, nil)
	for w := range 4 {
		wg.Go(func() {
			for n := range uint64(rounds) {
				for _, name := range []string{fmt.Sprint("store", w), "shared"} {
					seq := 5*n + uint64(w)
					r, err := s.Advance(t.Context(), resumeKey(name), checkpoint.Position{Sequence: seq, EventID: fmt.Sprint(seq)}, nil)
					if err != nil || r.Status == checkpoint.RolledBack || name != "shared" && r.Status != checkpoint.Advanced {
						t.Errorf("%s at %d: got %+v, %v", name, seq, r, err)
					}
					acked.raise(resumeKey(name), max(seq, r.Current.Sequence))
				}
			}
		})
	}
	for i := range 2 {
		p := startPeer(t, path)
		wg.Go(func() {
			for n := range uint64(rounds) {
				for _, name := range []string{fmt.Sprint("peer", i), "shared"} {
					seq := 5*n + uint64(i)
					if answer := p.ask("put %s %d \"%d\"", name, seq, seq); answer != "ok" {
						t.Errorf("put %s %d: got %q", name, seq, answer)
					}
					acked.raise(resumeKey(name), seq)
				}
			}
		})
		q := start(t, command(t, "store", nil))
		q.want("ok", "open %s", path)
		wg.Go(func() {
			for n := range uint64(rounds) {
				name := fmt.Sprint("process", i)
				if answer := q.ask("put %s %d null", name, n); answer != "advanced" {
					t.Errorf("put %s %d: got %q", name, n, answer)
				}
				acked.raise(resumeKey(name), n)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	reader := open(t, path, nil)
	looks := 0
	for last := false; !last; looks++ {
		select {
		case <-done:
			last = true
		default:
		}
		floor := acked.copy()
		raw, err := loadPeer(path)
		if err != nil {
			t.Fatalf("the file cannot be read: %v", err)
		}
		for key, sequence := range floor {
			if raw[key].Sequence < sequence {
				t.Fatalf("%s is at %d, %d was acknowledged", key, raw[key].Sequence, sequence)
			}
			if c := get(t, reader, key); c.Sequence < raw[key].Sequence {
				t.Fatalf("%s is at %d after %d was there", key, c.Sequence, raw[key].Sequence)
			}
		}
		time.Sleep(time.Millisecond)
	}
	t.Logf("%d looks", looks)
	if n := len(acked.copy()); n != 9 {
		t.Errorf("%d keys", n)
	}
	assertSameBytes(t, path)
}

// assertSameBytes wants the file as the other program would write it, in the order
// of the keys: which it is if one of ours wrote it last.
func assertSameBytes(t *testing.T, path string) {
	t.Helper()
	advance(t, open(t, path, nil), resumeKey("last"), at(1), checkpoint.Advanced)
	got, err := os.ReadFile(path)
	do(t, err)
	all, err := loadPeer(path)
	do(t, err)
	want, err := encodePeer(all)
	do(t, err)
	if string(got) != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	p := startPeer(t, path)
	for key, m := range all {
		_ = key
		if m.Event == nil {
			continue
		}
		event, err := json.Marshal(*m.Event)
		do(t, err)
		if !strings.Contains(string(got), string(event)) {
			t.Errorf("no %s", event)
		}
	}
	p.want("{\"last_committed_sequence\":1,\"last_event_id\":null}", "get last")
}

// TestStarvation: a program without this package gets the lock while callers of a Store
// never stop.
func TestStarvation(t *testing.T) {
	path := statePath(t)
	s := open(t, path, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for n := uint64(0); ctx.Err() == nil; n++ {
				_, err := s.Advance(ctx, resumeKey(fmt.Sprint(w)), at(n), nil)
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	other := open(t, path, nil)
	p := startPeer(t, path)
	var longest time.Duration
	for n := range uint64(15) {
		begin := time.Now()
		p.want("ok", "put peer %d null", n)
		advance(t, other, resumeKey("other"), at(n), checkpoint.Advanced)
		longest = max(longest, time.Since(begin))
	}
	cancel()
	wg.Wait()
	t.Logf("the longest of 15 turns took %v", longest)
}

// acknowledged is what writers have printed.
type acknowledged struct {
	sequences, tokens, epochs *floors
}

func newAcknowledged() acknowledged {
	return acknowledged{newFloors(), newFloors(), newFloors()}
}

// read notes what a process of writers prints, until it ends. It calls begun at the
// first acknowledgement, and returns the lines that are none.
func (a acknowledged) read(out io.Reader, begun func()) (errs []string) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var what, name string
		var number uint64
		n, _ := fmt.Sscan(lines.Text(), &what, &name, &number)
		switch {
		case n == 3 && what == "ack":
			a.sequences.raise(resumeKey(name), number)
			begun()
		case n == 3 && what == "epoch":
			a.epochs.raise(resumeKey(name), number)
		case n == 3 && what == "token":
			a.tokens.raise(resumeKey(name), number)
		default:
			errs = append(errs, lines.Text())
		}
	}
	return errs
}

// check wants everything that was acknowledged in the file.
func (a acknowledged) check(t *testing.T, path string) {
	t.Helper()
	raw, err := loadPeer(path)
	if err != nil {
		t.Fatalf("the file cannot be read: %v", err)
	}
	s := open(t, path, nil)
	for key, sequence := range a.sequences.copy() {
		if raw[key].Sequence < sequence {
			t.Fatalf("%s is at %d, %d was acknowledged", key, raw[key].Sequence, sequence)
		}
	}
	for key, token := range a.tokens.copy() {
		if c := get(t, s, key); c.Token < token {
			t.Fatalf("%s has token %d, %d was acknowledged", key, c.Token, token)
		}
	}
	for key, epoch := range a.epochs.copy() {
		c := get(t, s, key)
		// Resets that were not answered may have raised the epoch, each with its
		// state or without.
		if c.Epoch < epoch || c.Sequence < resetSequence(c.Epoch) || c.Sequence > resetSequence(epoch) {
			t.Fatalf("%s is at %+v, epoch %d was acknowledged", key, c, epoch)
		}
	}
	closeStore(t, s)
}

// runUntilKilled runs a process of writers for a while and kills it.
func (a acknowledged) runUntilKilled(t *testing.T, path string, first, count int, life time.Duration) {
	cmd := command(t, "writers", nil, path, strconv.Itoa(first), strconv.Itoa(count))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Error(err)
		return
	}
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return
	}
	// Life begins with the first acknowledgement, so that a busy machine does not
	// make a test of nothing; a process that acknowledges nothing is killed, too.
	kill := sync.OnceFunc(func() {
		time.AfterFunc(life, func() { _ = cmd.Process.Kill() })
	})
	guard := time.AfterFunc(20*time.Second, kill)
	defer guard.Stop()
	for _, line := range a.read(out, kill) {
		t.Errorf("a writer said %q", line)
	}
	_ = cmd.Wait() // it was killed
}

// TestKill kills writers with signal 9 again and again, two at a time: what they
// have acknowledged stays, the file can always be read, and what they leave behind
// is swept.
func TestKill(t *testing.T) {
	path := statePath(t)
	kills := 16
	if torture() {
		kills = 10000
	}
	acked := newAcknowledged()
	for round := 0; 2*round < kills; round++ {
		var wg sync.WaitGroup
		for i := range 2 {
			wg.Go(func() { acked.runUntilKilled(t, path, 3*i, 3, rand.N(25*time.Millisecond)) })
		}
		wg.Wait()
		acked.check(t, path)
		if t.Failed() {
			return
		}
	}
	advance(t, open(t, path, nil), keyA, at(1), checkpoint.Advanced)
	assertNoLeftOvers(t, path)
	total := uint64(0)
	for _, sequence := range acked.sequences.copy() {
		total += sequence
	}
	t.Logf("%d kills, %d positions were acknowledged", kills, total)
}
