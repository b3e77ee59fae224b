package holding

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/observe/metrics/promtext"
)

// What run writes has the names of the common table, and Prometheus reads it.
func TestMetricsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.prom")
	earlier := "# of an earlier version, and of a stranger\n" +
		`holdfast_runs_total{lock="a\"b",store="file:///s"} 41` + "\nother{x=\"1\"} 5\nholdfast_unknown_total{lock=\"a\"} 5\n"
	if err := os.WriteFile(path, []byte(earlier), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, run := range []struct {
		acquired time.Time
		result   error
	}{{time.Now(), nil}, {time.Time{}, lease.ErrHeld}, {time.Time{}, nil}, {time.Time{}, errors.New("no store")}, {time.Now(), exit.With(exit.Lost, lease.ErrLost)}} {
		tally := &tally{file: path, names: []string{`a"b`}, store: "file:///s", began: time.Now().Add(-time.Second), acquired: run.acquired}
		if err := tally.add(t.Context(), run.result); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			got = append(got, strings.TrimSpace(name))
		}
	}
	for _, m := range promtext.WrittenBy(promtext.Run) {
		want = append(want, m.Name+" "+string(m.Kind))
	}
	if !slices.Equal(got, want) {
		t.Errorf("run writes %q, the table says %q", got, want)
	}
	for name, value := range map[string]string{"runs_total": "43", "acquired_total": "2", "busy_total": "1", "ran_already_total": "1", "failed_total": "1", "lost_total": "1"} {
		if line := "\nholdfast_" + name + `{lock="a\"b",store="file:///s"} ` + value + "\n"; !strings.Contains(string(text), line) {
			t.Errorf("the file lacks %q:\n%s", line, text)
		}
	}
	if strings.Contains(string(text), "other{") || strings.Contains(string(text), "unknown") {
		t.Errorf("the file keeps the metrics of others:\n%s", text)
	}
	check := exec.CommandContext(t.Context(), suitetest.NeedProgram(t, "promtool"), "check", "metrics")
	check.Stdin = strings.NewReader(string(text))
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s\n%s", err, out, text)
	}
}
