package filestore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// TestBusy: a waiter for a register that changes frequently sees the last change, and uses
// no notifications meanwhile. When the register is quiet again, it does.
func TestBusy(t *testing.T) {
	ctx := t.Context()
	dir := memoryDir(t)
	s, other := open(t, dir, nil), open(t, dir, nil)
	v := put(t, s, "key", "", "0")
	next := make(chan store.Version)
	go func() { // each change is made at once after the one before was seen
		for i := 0; ; i++ {
			prev, ok := <-next
			if !ok {
				return
			}
			if _, err := s.Put(ctx, "key", prev, []byte(fmt.Sprint(i))); err != nil {
				t.Error(err)
			}
		}
	}()
	busy := 0
	for range 200 {
		next <- v
		if err := other.Watch(ctx, "key", v); err != nil {
			t.Fatal(err)
		}
		if other.Busy("key") {
			busy++
		}
		_, now, err := other.Get(ctx, "key")
		if err != nil || now == v {
			t.Fatalf("woken, and got %s, %v", now, err)
		}
		v = now
	}
	close(next)
	if busy == 0 {
		t.Error("200 changes at once after each other, and it never was busy")
	}
	quiet, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if err := other.Watch(quiet, "key", v); err != context.DeadlineExceeded && quiet.Err() == nil {
		t.Errorf("a wait without a change: got %v", err)
	}
	if other.Busy("key") {
		t.Error("nothing has changed for long, and it is busy")
	}
}

// TestBusyForgets: what is remembered of busy registers is bounded.
func TestBusyForgets(t *testing.T) {
	if got := filestore.NoteBusy(5000); got > 1000 {
		t.Errorf("%d names are remembered", got)
	}
}

// TestBusyPassesOver: while a register changes frequently, a watch passes over values that its caller
// does not want. It returns for a wanted value, and when the register is quiet. The control is a watch
// that wants each value.
func TestBusyPassesOver(t *testing.T) {
	wanting := store.WithWanted(t.Context(), func(value []byte) bool { return string(value) == "3" })
	for _, test := range []struct {
		name  string
		ctx   context.Context
		until int // the change at which the watch returns
		quiet bool
	}{
		{"wanted", wanting, 3, false},
		{"quiet", wanting, 2, true},
		{"control", t.Context(), 1, false},
	} {
	again:
		dir := memoryDir(t)
		s, other := open(t, dir, nil), open(t, dir, nil)
		v := put(t, s, "key", "", "0")
		other.SetBusy("key", time.Now().Add(time.Hour))
		woken := make(chan error, 1)
		go func() { woken <- other.Watch(test.ctx, "key", v) }()
		for i, last := 1, v; ; i++ {
			time.Sleep(10 * time.Millisecond) // longer than a register that is quiet stays busy
			var err error
			if last, err = s.Put(t.Context(), "key", last, []byte(fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
			if i == test.until {
				break
			}
			select {
			case err := <-woken:
				if err == nil && !other.Busy("key") {
					goto again // the watch began just before the change, so that the mark is no longer set
				}
				t.Fatalf("%s: the watch returned at change %d, %v; want %d", test.name, i, err, test.until)
			case <-time.After(20 * time.Millisecond):
			}
		}
		if test.quiet {
			other.SetBusy("key", time.Time{})
		}
		select {
		case err := <-woken:
			if err != nil {
				t.Errorf("%s: %v", test.name, err)
			}
		case <-time.After(30 * time.Second):
			t.Errorf("%s: the watch did not return at change %d", test.name, test.until)
		}
	}
}
