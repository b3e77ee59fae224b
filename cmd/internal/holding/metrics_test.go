package holding

import (
	"errors"
	"fmt"
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
	}{{time.Now(), nil}, {time.Time{}, lease.ErrHeld}, {time.Time{}, nil}, {time.Time{}, errors.New("no store")}, {time.Time{}, exit.With(130, &signalled{os.Interrupt})}, {time.Now(), exit.With(exit.Lost, lease.ErrLost)}} {
		tally := &tally{file: path, names: []string{`a"b`}, store: "file:///s", began: time.Now().Add(-time.Second), acquired: run.acquired}
		if err := tally.add(t.Context(), run.result); err != nil {
			t.Fatal(err)
		}
	}
	first := &tally{file: path, names: []string{`a"b`, "new"}, store: "file:///s"} // has begun
	if err := first.begin(t.Context()); err != nil {
		t.Fatal(err)
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
	for name, value := range map[string]string{"runs_total": "43", "acquired_total": "2", "busy_total": "1", "ran_already_total": "1"} {
		if line := "\nholdfast_" + name + `{lock="a\"b",store="file:///s"} ` + value + "\n"; !strings.Contains(string(text), line) {
			t.Errorf("the file lacks %q:\n%s", line, text)
		}
	}
	for name, value := range map[string]string{`failed_total{%s,reason="store"`: "1", `failed_total{%s,reason="cancelled"`: "1", `failed_total{%s,reason="timeout"`: "0", `lost_total{%s,reason="other"`: "1"} {
		if line := "\nholdfast_" + fmt.Sprintf(name, `lock="a\"b",store="file:///s"`) + "} " + value + "\n"; !strings.Contains(string(text), line) {
			t.Errorf("the file lacks %q:\n%s", line, text)
		}
	}
	if strings.Contains(string(text), "other{") || strings.Contains(string(text), "unknown") {
		t.Errorf("the file keeps the metrics of others:\n%s", text)
	}
	// Prometheus sees no increase in a counter that begins with 1. The other times are of runs that ended.
	for line, want := range map[string]bool{`lost_total{lock="new",store="file:///s",reason="expired"} 0`: true, `runs_total{lock="new",store="file:///s"} 0`: true, `last_success_timestamp_seconds{lock="new"`: false} {
		if strings.Contains(string(text), "\nholdfast_"+line) != want {
			t.Errorf("%s in the file: %v, want %v:\n%s", line, !want, want, text)
		}
	}
	check := exec.CommandContext(t.Context(), suitetest.NeedProgram(t, "promtool"), "check", "metrics")
	check.Stdin = strings.NewReader(string(text))
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s\n%s", err, out, text)
	}
}
