//go:build unix

package migrations_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
)

// jobVar makes the test binary a process that does one job. Its value is the job in JSON.
const jobVar = "HOLDFAST_TEST_MIGRATIONS"

func TestMain(m *testing.M) {
	_ = mysql.SetLogger(&mysql.NopLogger{}) // connections break
	if text := os.Getenv(jobVar); text != "" {
		var j job
		err := json.Unmarshal([]byte(text), &j)
		if err == nil {
			in := bufio.NewReader(os.Stdin)
			err = j.run(context.Background(), func(at string) {
				if at == j.Pause {
					fmt.Println("paused")
					_, _ = in.ReadString('\n')
				}
			})
		}
		if errors.Is(err, lease.ErrLost) {
			fmt.Println("error: the lease is lost")
			os.Exit(1)
		}
		if err != nil {
			fmt.Println("error:", strings.ReplaceAll(err.Error(), "\n", " | "))
			os.Exit(1)
		}
		fmt.Println("ok")
		os.Exit(0)
	}
	os.Exit(new(servers.Set).Main(m))
}

// process is a process that does a job.
type process struct {
	*exec.Cmd
	in    io.Writer
	lines chan string // what it prints; closed when it has ended
}

func start(t *testing.T, j job) *process {
	t.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: exec.Command(os.Args[0]), lines: make(chan string, 100)}
	p.Env = append(os.Environ(), jobVar+"="+string(text))
	p.Stderr = os.Stderr
	if p.in, err = p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			if line := scanner.Text(); line == "paused" || line == "ok" || strings.HasPrefix(line, "error:") {
				p.lines <- line
			}
		}
		_ = p.Wait()
		close(p.lines)
	}()
	t.Cleanup(func() {
		_ = p.Process.Kill()
		for range p.lines {
		}
	})
	return p
}

func (p *process) resume() { _, _ = io.WriteString(p.in, "\n") }

// expect waits for a line with this text.
func (p *process) expect(t *testing.T, text string) {
	t.Helper()
	if line := <-p.lines; !strings.Contains(line, text) {
		t.Fatalf("the process says %q, want %q", line, text)
	}
}
