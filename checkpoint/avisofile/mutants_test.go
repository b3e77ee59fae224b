//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package avisofile_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMutants puts deliberate faults into the package, one at a time, and wants its
// tests to notice each of them.
func TestMutants(t *testing.T) {
	const inside = "HOLDFAST_MUTANT"
	if !torture() || os.Getenv(inside) != "" {
		t.Skip("compiles and tests the package once for each mutant: set HOLDFAST_TORTURE=1")
	}
	for _, m := range []struct{ name, file, old, new string }{
		{"no lock is taken", "lock.go", "		ok, err := tryLock(f)\n", "		ok, err := true, error(nil)\n"},
		{"a replaced lock is not noticed", "lock.go", "!os.SameFile(mine, now)", "!os.SameFile(mine, now) && f == nil"},
		{"only the file's own name is locked", "lock.go", "	for _, name := range p.names {\n		f, err", "	for _, name := range p.names[len(p.names)-1:] {\n		f, err"},
		{"links in the lock's place are followed", "sys_unix.go", "noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK", "noFollow = syscall.O_NONBLOCK"},
		{"a change is made on what is in memory", "commit.go", "	v, p, err := s.fresh(nil)\n", "	v, p, err := s.memory(), h.place, error(nil)\n	if v == nil {\n		v, p, err = s.fresh(nil)\n	}\n"},
		{"the file is not synced", "write.go", "	if err := f.Sync(); err != nil {\n		return nil, err\n	}\n", ""},
		{"the directory is not synced", "write.go", "if err := syncDir(filepath.Dir(path)); err != nil {", "if err := error(nil); err != nil {"},
		{"a failed sync of the directory is said to be no write", "write.go", "return store.MarkUnknown(fmt.Errorf(\"%s was replaced, but", "return store.MarkNotApplied(fmt.Errorf(\"%s was replaced, but"},
		{"a failed sync leaves no doubt", "commit.go", "if doubt || store.OutcomeOf(err) == store.Unknown {", "if doubt {"},
		{"what another wrote is taken for durable", "view.go", "	if v.durable.Load() {\n		return nil\n	}\n", "	if true {\n		return nil\n	}\n"},
		{"the state is written before the fences", "commit.go", "	if len(w.guards) > 0 || doubt", "	if w.written {\n		if err := s.writeState(h, next, v.state.with(w.entries), c); err != nil {\n			return err\n		}\n	}\n	if len(w.guards) > 0 || doubt"},
		{"a reset in the middle can be seen", "judge.go", "g.pending = v.Next.Epoch != now.Epoch", "g.pending = false"},
		{"a reset in the middle is not waited for", "store.go", "if v.fences.guard(key).pending {", "if false {"},
		{"what went back behind our back is not noticed", "../change.go", "(!now.Exists || now.Sequence < s.Sequence)", "false"},
		{"a delete does not yield", "../change.go", "s.Exists && now.Sequence > s.Sequence", "false"},
		{"a token is not kept", "judge.go", "v.Next.Token != now.Token || v.Next.Epoch", "v.Next.Epoch"},
		{"the holder is not asked again", "judge.go", "(c.asked == nil || *c.asked != g.token)", "c.asked == nil"},
		{"whoever leaves is told that nothing was written", "../internal/group/group.go", "	if t.Sent {", "	if false {"},
		{"calls are written whose callers have left", "../internal/group/group.go", "		if c.GroupTicket().Gone {\n", "		if false {\n"},
		{"each caller writes alone", "queue.go", "	batch := s.queue.Take(nil)\n", "	batch := s.queue.Take(func(_, _ *op) bool { return false })\n"},
		{"left-overs are not swept", "write.go", "strings.HasPrefix(name, base) && strings", "base == name && strings"},
		{"the owner is not kept", "sys_unix.go", "if is.Uid != was.Uid || is.Gid != was.Gid {", "if is == was {"},
		{"the mode is not kept", "sys_unix.go", "	return f.Chmod(old.Mode().Perm())\n}\n\n// cannotSync", "	return nil\n}\n\n// cannotSync"},
		{"a link is replaced", "place.go", "if info.Mode()&fs.ModeSymlink == 0 {", "if info.Mode()&fs.ModeSymlink == 0 || true {"},
		{"no good copy is kept", "write.go", "	if h.keepAs(good) == nil {", "	if true {"},
		{"a restore begins no epoch", "restore.go", "			g.epoch++\n", ""},
		{"keys are not sorted", "decode.go", "	slices.SortStableFunc(all, order)\n", "	slices.SortStableFunc(all[:0], order)\n"},
		{"files are not closed", "view.go", "	if v.stateImage != nil && (other == nil", "	if false && (other == nil"},
		{"network file systems are allowed", "place.go", "		if !local {", "		if !local && kind == \"\" {"},
	} {
		t.Run(m.name, func(t *testing.T) {
			source, err := os.ReadFile(m.file)
			do(t, err)
			if n := strings.Count(string(source), m.old); n != 1 {
				t.Fatalf("%q occurs %d times in %s, want 1", m.old, n, m.file)
			}
			dir := t.TempDir()
			original, err := filepath.Abs(m.file)
			do(t, err)
			mutant := filepath.Join(dir, filepath.Base(m.file))
			do(t, os.WriteFile(mutant, []byte(strings.Replace(string(source), m.old, m.new, 1)), 0o600))
			overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: mutant}})
			do(t, err)
			do(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
			cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-vet=off", "-failfast", "-timeout=2m",
				"-overlay", filepath.Join(dir, "overlay.json"), ".")
			cmd.Env = append(os.Environ(), inside+"=1", "HOLDFAST_TORTURE=")
			out, err := cmd.CombinedOutput()
			switch {
			case err == nil:
				t.Error("no test noticed")
			case strings.Contains(string(out), "[build failed]"):
				t.Errorf("the mutant does not compile:\n%s", out)
			default:
				for line := range strings.Lines(string(out)) {
					if strings.HasPrefix(line, "--- FAIL") || strings.HasPrefix(line, "panic:") {
						t.Log(strings.TrimSpace(line))
						break
					}
				}
			}
		})
	}
}
