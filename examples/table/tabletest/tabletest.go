// Package tabletest kills the programs that keep a table, and checks the table: on any
// bucket.
package tabletest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/examples/table"
	"github.com/holdfast-go/holdfast/store"
)

// Work is what a process of [Run] does until it is killed: a writer inserts rows and says
// so once they are acknowledged, a line for each; a compactor compacts; a reader reads and
// checks that no row is there twice. It returns only with an error.
func Work(ctx context.Context, t *table.Table, role string, out io.Writer) error {
	kind, name, _ := strings.Cut(role, " ")
	seen := 0
	for n := 0; ; n++ {
		switch kind {
		case "writer":
			rows := []string{fmt.Sprintf("%s.%d.a", name, n), fmt.Sprintf("%s.%d.b", name, n)}
			err := t.Insert(ctx, rows...)
			switch {
			case err == nil:
				// One write, so that the lines of several processes never mix.
				if _, err := io.WriteString(out, strings.Join(rows, "\n")+"\n"); err != nil {
					return err
				}
			case store.OutcomeOf(err) == store.Unknown, errors.Is(err, store.ErrUnavailable):
				// The rows may be in the table, once. They are not inserted again.
			default:
				return err
			}
		case "compactor":
			if err := t.Compact(ctx); err != nil && store.Permanent(err) {
				return err
			}
			time.Sleep(rand.N(50 * time.Millisecond))
		case "reader":
			rows, err := t.Rows(ctx)
			if err == nil {
				err = once(rows)
			}
			if err == nil && len(rows) < seen {
				err = fmt.Errorf("%d rows, after %d", len(rows), seen)
			}
			if err != nil && !errors.Is(err, store.ErrUnavailable) {
				return err
			}
			seen = max(seen, len(rows))
		default:
			return fmt.Errorf("no role %q", role)
		}
	}
}

// once reports a row that is there twice.
func once(rows []string) error {
	seen := make(map[string]bool, len(rows))
	for _, row := range rows {
		if seen[row] {
			return fmt.Errorf("row %s is there twice", row)
		}
		seen[row] = true
	}
	return nil
}

// Run lets several processes work on one table, kills them at random and starts others in
// their place, for a while. In the end every acknowledged row must be in the table once,
// every other row at most once, together with the one that was inserted with it, and no file
// missing or left over. command returns a process that calls Work in this role, with
// out for its standard output; open opens the table.
func Run(t *testing.T, open func() (*table.Table, error), command func(role string) *exec.Cmd, d time.Duration) {
	t.Helper()
	out, err := os.OpenFile(filepath.Join(t.TempDir(), "acknowledged"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	kinds := []string{"writer", "writer", "writer", "compactor", "compactor", "reader"}
	killed := 0
	running := make([]*process, len(kinds))
	for end := time.Now().Add(d); time.Now().Before(end); {
		for i, kind := range kinds {
			if running[i] == nil {
				running[i] = start(t, command(fmt.Sprintf("%s %d-%d", kind, i, killed)), out)
			}
		}
		time.Sleep(rand.N(d / 20))
		i := rand.IntN(len(running))
		running[i].kill(t)
		running[i] = nil
		killed++
	}
	for _, p := range running {
		if p != nil {
			p.kill(t)
		}
	}
	check(t, open, out, killed)
}

type process struct {
	cmd    *exec.Cmd
	errors strings.Builder
}

func start(t *testing.T, cmd *exec.Cmd, out *os.File) *process {
	t.Helper()
	p := &process{cmd: cmd}
	cmd.Stdout, cmd.Stderr = out, &p.errors
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// kill kills a process, which must still be running.
func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
	if err := p.cmd.Wait(); p.errors.Len() > 0 {
		t.Errorf("%v: %s", err, p.errors.String())
	}
}

// check checks the table after all processes have ended.
func check(t *testing.T, open func() (*table.Table, error), out *os.File, killed int) {
	t.Helper()
	tab, err := open()
	if err != nil {
		t.Fatal(err)
	}
	rows, err := tab.Rows(t.Context())
	if err == nil {
		err = once(rows)
	}
	if err != nil {
		t.Fatal(err)
	}
	there := make(map[string]bool, len(rows))
	for _, row := range rows {
		there[row] = true
	}
	for _, row := range rows {
		if other, ok := strings.CutSuffix(row, "a"); ok && !there[other+"b"] {
			t.Errorf("row %s is there without the one that was inserted with it", row)
		}
	}
	if _, err := out.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	acknowledged := 0
	for lines := bufio.NewScanner(out); lines.Scan(); acknowledged++ {
		if !there[lines.Text()] {
			t.Errorf("row %s was acknowledged, and is not in the table", lines.Text())
		}
	}
	// The second compaction removes the files from before the first.
	for range 2 {
		if err := tab.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	missing, unnamed, err := tab.Check(t.Context())
	if err != nil || len(missing) > 0 || len(unnamed) > 0 {
		t.Errorf("files missing: %q, files left over: %q, %v", missing, unnamed, err)
	}
	after, err := tab.Rows(t.Context())
	if err != nil || len(after) != len(rows) {
		t.Errorf("%d rows after a compaction, before it %d; %v", len(after), len(rows), err)
	}
	t.Logf("%d processes killed, %d rows acknowledged, %d in the table", killed, acknowledged, len(rows))
	if acknowledged == 0 {
		t.Error("nothing was inserted")
	}
}
