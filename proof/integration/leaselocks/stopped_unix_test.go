//go:build unix

package leaselocks_test

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// A holder is stopped past its lease and continued. It learns that its lease is lost, and does not change the lease of
// the other program.
func TestStoppedHolder(t *testing.T) {
	t.Parallel()
	eachPeer(t, func(t *testing.T, start func(string) (peer, error)) {
		dir := t.TempDir()
		p := mustStart(t, start, dir)
		ours, lines := startHolder(t, dir)
		if line := <-lines; line != "1" {
			t.Fatalf("got %q from our process", line)
		}
		if err := ours.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		time.Sleep(ttl + ttl/10)
		if generation, err := p.try("job", "theirs", time.Hour); generation != 2 || err != nil {
			t.Fatalf("got generation %d, %v", generation, err)
		}
		if err := ours.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if line := <-lines; !strings.Contains(line, "lost: not renewed in time") {
			t.Errorf("our process says %q", line)
		}
		_ = ours.Wait()
		if generation, err := p.try("job", "another", time.Hour); generation != 0 || err != nil {
			t.Errorf("the lease of the other program has ended: generation %d, %v", generation, err)
		}
	})
}
