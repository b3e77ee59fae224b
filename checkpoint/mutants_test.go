package checkpoint_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMutants puts deliberate faults into the package, one at a time, and demands
// that its tests notice each of them.
func TestMutants(t *testing.T) {
	if os.Getenv("HOLDFAST_TORTURE") == "" || os.Getenv("HOLDFAST_MUTANT") != "" {
		t.Skip("compiles the package once for each mutant: set HOLDFAST_TORTURE=1")
	}
	for _, m := range []struct{ name, file, old, new string }{
		{"an unknown outcome is a loss", "carry.go",
			"return l.settle(ctx, p, store.MarkUnknown(err))", "return state{}, store.ErrConflict"},
		{"a foreign state proves a loss", "carry.go",
			"		case known:\n", "		case known || s.known:\n"},
		{"only the current nonce counts", "record.go",
			"if r.nonce == nonce || slices.Contains(r.recent, nonce) {", "if r.nonce == nonce {"},
		{"epochs are not compared", "change.go",
			"case c.Epoch != 0 && c.Epoch != now.Epoch:", "case false:"},
		{"the epoch is taken anew in each try", "carry.go",
			"		if c.Epoch == 0 && base.certain {", "		if l.epoch == 0 {"},
		{"the epoch is that of a peek", "carry.go",
			"		if c.Epoch == 0 && base.certain {", "		if c.Epoch == 0 {"},
		{"a delete keeps the epoch", "change.go",
			"	next.Epoch++", "	if c.Verb == VerbReset {\n		next.Epoch++\n	}"},
		{"an unknown outcome is said to be a definite one", "carry.go",
			"if unknown && c.Sent {", "if unknown && !c.Sent {"},
		{"whoever leaves is told that nothing was written", "internal/group/group.go",
			"	if t.Sent {", "	if t.Sent && !t.Gone {"},
		{"memory stays certain after an unknown outcome", "carry.go",
			"		l.last.certain = false\n", ""},
		{"behind and fenced are answered from memory", "carry.go",
			"		if !p.write && !fresh {", "		if !p.write && !fresh && l == nil {"},
		{"calls are written whose callers have left", "carry.go",
			"		if c.Gone {\n", "		if c.Gone && l == nil {\n"},
		{"a conflict still counts as sent", "carry.go",
			"		l.unsend(batch)\n", ""},
		{"a lower token passes", "change.go",
			"c.Token != 0 && c.Token < now.Token ||", ""},
		{"a token is not kept", "change.go",
			"next.Token = max(now.Token, c.Token)", "next.Token = c.Token"},
		{"another event at the same sequence is dropped", "change.go",
			"now.Position.Agrees(c.Position)", "true"},
		{"a store that went back is not noticed", "carry.go",
			"		if base.back && c.Verb == VerbAdvance {", "		if base.back && c.Verb == VerbFence {"},
		{"what was peeked at is certain", "carry.go",
			"			return s, false, err\n", "			return s, true, err\n"},
		{"what is read back is durable", "carry.go",
			"		case yes && s.durable:\n", "		case yes:\n			_ = s.durable\n			return s, nil\n		case yes && s.certain:\n"},
		{"what others wrote is durable", "carry.go",
			"	if !p.write && !base.durable && p.relies(batch) {", "	if !p.write && !base.known && p.relies(batch) {"},
		{"unknown fields are dropped", "record.go",
			"		r.unknown = all\n", "		r.unknown = nil\n"},
		{"the holder of the lease is not asked", "carry.go",
			"	if held && h.Token != c.Token {", "	if held && c == nil {"},
		{"the holder is asked after the write was planned against an old state", "carry.go",
			"	s, err = l.reread(ctx)\n	return s, true, err", "	if before.certain {\n		return before, true, nil\n	}\n	s, err = l.reread(ctx)\n	return s, true, err"},
		{"a flight ends with its first caller", "line.go",
			"go l.fly(context.WithoutCancel(ctx))", "go l.fly(ctx)"},
		{"a flight goes on when nobody waits", "line.go",
			"		f.cancel()\n", ""},
		{"each caller writes alone", "line.go",
			"return first.shared() && c.shared() })", "return false })"},
	} {
		t.Run(m.name, func(t *testing.T) {
			source, err := os.ReadFile(m.file)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(source), m.old); n != 1 {
				t.Fatalf("%q occurs %d times in %s, want 1", m.old, n, m.file)
			}
			dir := t.TempDir()
			mutant := filepath.Join(dir, filepath.Base(m.file))
			if err := os.WriteFile(mutant, []byte(strings.Replace(string(source), m.old, m.new, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			original, err := filepath.Abs(m.file)
			if err != nil {
				t.Fatal(err)
			}
			overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: mutant}})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-vet=off", "-timeout=2m", "-overlay", filepath.Join(dir, "overlay.json"), ".")
			cmd.Env = append(os.Environ(), "HOLDFAST_MUTANT=1", "HOLDFAST_TORTURE=")
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
