package checkpoint_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// TestSystemCallsFail lets the N-th call of each system call that writes fail, in a process
// of its own: acknowledged positions are saved, refused ones are not, and the next process
// can continue.
func TestSystemCallsFail(t *testing.T) {
	strace := suitetest.NeedStrace(t)
	calls, upto := []string{"write:ENOSPC", "fdatasync:EIO", "fsync:EIO"}, 3
	if os.Getenv("HOLDFAST_TORTURE") != "" {
		calls = append(calls, "write:EIO", "fdatasync:ENOSPC", "fsync:ENOSPC", "renameat2:EIO", "renameat:EIO", "renameat:ENOSPC", "linkat:EIO", "unlinkat:EIO", "mkdirat:ENOSPC", "openat:EMFILE", "pread64:EIO")
		upto = 60
	}
	injected := 0
	for _, call := range calls {
		name, fault, _ := strings.Cut(call, ":")
		for n := 1; n <= upto; n++ {
			if failOnce(t, strace, name, fault, n) {
				injected++
			}
			if t.Failed() {
				t.Fatalf("%s fails with %s at its call %d", name, fault, n)
			}
		}
	}
	t.Logf("%d faults", injected)
	if injected < len(calls) {
		t.Error("too few faults were injected: the test tests nothing")
	}
}

// failOnce runs one process in which one call fails, and reports whether it did.
func failOnce(t *testing.T, strace, name, fault string, n int) bool {
	dir := filepath.Join(t.TempDir(), "store")
	trace := filepath.Join(t.TempDir(), "trace")
	l := &ledger{advanced: map[uint64]int{}}
	// A process without faults makes the store, so that there is something to lose.
	before := l.start(t, dir, []string{"HOLDFAST_ADVANCES=2"})
	<-before.done
	if err := before.cmd.Wait(); err != nil || len(l.failed) > 0 {
		t.Fatalf("without faults: %v, %q", err, l.failed)
	}
	c := l.start(t, dir, []string{"HOLDFAST_ADVANCES=10", "GOMAXPROCS=1"},
		strace, "-f", "--seccomp-bpf", "-qq", "-o", trace, "-e", "trace="+name, "-e", fmt.Sprintf("inject=%s:error=%s:when=%d", name, fault, n))
	<-c.done
	_ = c.cmd.Wait() // a store that could not be opened is no fault of the test

	st, err := filestore.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	k := open(t, st, nil)
	got, err := k.Get(t.Context(), "k", nil)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		t.Fatal(err)
	}
	if got.Sequence < l.highest {
		t.Errorf("%d is saved, %d was acknowledged; failures: %q", got.Sequence, l.highest, l.failed)
	}
	for _, f := range l.failed {
		if strings.HasPrefix(f, fmt.Sprintf("failed %d true %s ", got.Sequence, got.EventID)) {
			t.Errorf("%d is saved, although %q", got.Sequence, f)
		}
	}
	advance(t, k, "k", at(got.Sequence+1), nil, checkpoint.Advanced)
	out, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(out), "(INJECTED)")
}
