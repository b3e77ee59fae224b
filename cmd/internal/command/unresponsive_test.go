package command

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// If a store does not answer, the command names it in a message after a few seconds, both
// while it waits and in a single try.
func TestUnresponsiveStoreIsReported(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // it accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	bin := holdfastBinary(t)
	for _, line := range []string{"run job -- true", "run -n job -- true"} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), bin, strings.Fields(line)...)
			cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test",
				"HOLDFAST_STORE=s3://bucket/app?region=x&path_style=true&endpoint=http://"+l.Addr().String())
			errs, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			first, err := bufio.NewReader(errs).ReadString('\n')
			if err != nil || !strings.Contains(first, "answer") || !strings.Contains(first, "s3://bucket/app") {
				t.Errorf("it says %q (%v)", first, err)
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
}
