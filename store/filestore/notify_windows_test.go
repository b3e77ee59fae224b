package filestore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store/filestore"
)

// wantReport waits for a report of the system.
func wantReport(t *testing.T, what string, woken <-chan struct{}) {
	t.Helper()
	if woken == nil {
		t.Fatalf("%s: the system gives no reports", what)
	}
	select {
	case <-woken:
	case <-time.After(30 * time.Second):
		t.Fatalf("%s: the system reported nothing", what)
	}
}

// TestReports: the system reports the first write of a store, the first write of a key, later durable
// writes, and the end of a process. A waiter that has ended has no goroutine and no handle.
func TestReports(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	woken, stop := filestore.WatchLog(dir, "key")
	put(t, s, "other", "", "1")
	wantReport(t, "the first key", woken)
	stop()
	woken, stop = filestore.WatchLog(dir, "key")
	v := put(t, s, "key", "", "1")
	wantReport(t, "a new key", woken)
	stop()
	for range 3 {
		woken, stop = filestore.WatchLog(dir, "key")
		v = put(t, s, "key", v, "2")
		wantReport(t, "a durable write", woken)
		stop()
	}
	cmd, line := startPresent(t, dir, "alone", nil)
	name := strings.Split(line.Text, "/")[1]
	woken, stop = filestore.WatchProcess(dir, name)
	select {
	case <-woken:
		t.Error("the system reported the end of a process that runs")
	case <-time.After(100 * time.Millisecond):
	}
	kill(cmd)
	wantReport(t, "the end of a process", woken)
	stop()
	if woken, _ := filestore.WatchProcess(dir, name); woken != nil {
		t.Error("a waiter for a dead process does not poll")
	}
	if n := filestore.Reports(); n != 0 {
		t.Errorf("%d waiters are left", n)
	}
}

// TestReportsBounded: waiters beyond the bound poll, and further ones get reports when others end.
func TestReportsBounded(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, nil)
	var stops []func()
	for range filestore.MaxReports {
		woken, stop := filestore.WatchLog(dir, "key")
		if woken == nil {
			t.Fatal("the system gives no reports")
		}
		stops = append(stops, stop)
	}
	if woken, _ := filestore.WatchLog(dir, "key"); woken != nil {
		t.Error("there is no bound")
	}
	for _, stop := range stops {
		stop()
	}
	woken, stop := filestore.WatchLog(dir, "key")
	if woken == nil {
		t.Error("the bound counts waiters that have ended")
	}
	stop()
	if n := filestore.Reports(); n != 0 {
		t.Errorf("%d waiters are left", n)
	}
}
