//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suitetest"
)

// The rows of docs/instead-of.md on flock and setlock: where the lock is free, and where
// another has it, the other program's line and ours end with the same status, and both are
// quiet or both say something. What is not installed here is told.
func TestRowsOfOtherPrograms(t *testing.T) {
	page, err := os.ReadFile("../../docs/instead-of.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	bin := filepath.Dir(holdfastBinary(t))
	run := func(line string) (status int, said, ran bool) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
		cmd.Dir = dir
		cmd.Env = environ(dir, "PATH="+bin+":"+os.Getenv("PATH"))
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), errs.Len() > 0, strings.Contains(out.String(), "ran")
	}
	flags := regexp.MustCompile("`([^`]*)`")
	for _, c := range []struct{ tool, row, with string }{
		{"flock", "| `-n` |", ""}, {"flock", "| `-w 30` |", "0.1"}, {"flock", "| `-E 7` |", "-n"},
		{"setlock", "| `-n`, `-nX` (says", ""}, {"setlock", "| `-nx` (says nothing", ""},
	} {
		_, rest, found := strings.Cut(string(page), "\n"+c.row)
		theirs := flags.FindStringSubmatch(c.row)
		row, _, _ := strings.Cut(rest, "\n")
		ours := flags.FindStringSubmatch(row)
		if !found || theirs == nil {
			t.Errorf("no row %s", c.row)
			continue
		}
		if ours == nil { // the row was cut within its first column
			t.Errorf("no flags of ours in %s%s", c.row, row)
			continue
		}
		t.Run(c.row, func(t *testing.T) {
			suitetest.NeedProgram(t, c.tool)
			with := strings.NewReplacer("30", "0.2").Replace
			a := fmt.Sprintf("%s %s %s lock", c.tool, with(theirs[1]), map[bool]string{true: c.with}[c.with == "-n"])
			b := fmt.Sprintf("holdfast run %s %s job --", with(ours[1]), map[bool]string{true: c.with}[c.with == "-n"])
			for _, state := range []string{"free", "taken"} {
				x, y := a+" echo ran", b+" echo ran"
				if state == "taken" {
					x, y = fmt.Sprintf("%s lock sh -c '%s'", c.tool, x), fmt.Sprintf("holdfast run job -- env -u HOLDFAST_LOCKS sh -c '%s'", y)
				}
				status, said, ran := run(x)
				ourStatus, weSaid, weRan := run(y)
				if c.tool == "flock" && state == "taken" {
					said = weSaid // flock never says anything; ours does, unless -q
					if !strings.Contains(a, "-E") && status == 1 {
						status = statusBusy // theirs without -E
					}
				}
				if status != ourStatus || said != weSaid || ran != weRan || ran != (state == "free") {
					t.Errorf("%s: %q ends with %d, says %v, runs %v; %q with %d, %v, %v", state, x, status, said, ran, y, ourStatus, weSaid, weRan)
				}
			}
		})
	}
	// Lines that wait until the lock is free, and those with a shell.
	for _, c := range []struct{ tool, theirs, ours string }{
		{"flock", "flock lock -c 'true && echo ran'", "holdfast run job -- sh -c 'true && echo ran'"},
		{"setlock", "setlock lock echo ran", "holdfast run job -- echo ran"},
	} {
		t.Run(c.tool+" that waits", func(t *testing.T) {
			suitetest.NeedProgram(t, c.tool)
			for line, holder := range map[string]string{c.theirs: c.tool + " lock sh -c", c.ours: "holdfast run job -- sh -c"} {
				held := fmt.Sprintf("%s 'touch held; sleep 0.3; rm held' & while [ ! -e held ]; do sleep 0.01; done; %s && [ ! -e held ] && wait", holder, line)
				if status, _, ran := run(held); status != 0 || !ran {
					t.Errorf("%s: status %d, ran %v", line, status, ran)
				}
			}
		})
	}
}
