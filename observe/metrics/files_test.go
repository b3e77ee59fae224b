package metrics_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/observe/metrics"
	"github.com/holdfast-go/holdfast/observe/metrics/promtext"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// promtool runs promtool, and returns its error with its output.
func promtool(t *testing.T, input string, args ...string) error {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), suitetest.NeedProgram(t, "promtool"), args...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("promtool %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// everything returns metrics with a value of each metric of the table.
func everything(t *testing.T) string {
	t.Helper()
	m := metrics.New(&metrics.Options{Store: "mem", Label: metrics.ByName})
	m.AddSeen(func() (metrics.Seen, bool) { return metrics.Seen{Held: 1}, true })
	at := time.Now()
	for _, e := range []lease.Event{
		{Kind: lease.EventAcquired, Token: 1, Deadline: at.Add(time.Minute)}, {Kind: lease.EventReleased, Token: 1},
		{Kind: lease.EventAcquired, Token: 2, Deadline: at.Add(time.Minute)}, {Kind: lease.EventRenewed, Token: 2, Deadline: at.Add(time.Minute)},
	} {
		e.Name, e.Time = "x", at
		m.OnEvent(e)
	}
	_, _, _ = m.Store(memstore.New()).Get(t.Context(), "x")
	var text strings.Builder
	if _, err := m.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// known returns the names that a program, the page or run writes, with those of the parts of histograms.
func known() map[string]bool {
	names := map[string]bool{}
	for _, m := range promtext.Metrics() {
		if m.Kind != promtext.Histogram {
			names[m.Name] = true
			continue
		}
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			names[m.Name+suffix] = true
		}
	}
	return names
}

// TestTable: what is written has the names, kinds and labels of the table, and all of them.
func TestTable(t *testing.T) {
	text := everything(t)
	for _, m := range slices.Concat(promtext.WrittenBy(promtext.Program), promtext.WrittenBy(promtext.Page)) {
		if n := strings.Count(text, fmt.Sprintf("# HELP %[1]s %[2]s\n# TYPE %[1]s %[3]s\n%[1]s", m.Name, m.Help, m.Kind)); n != 1 {
			t.Errorf("%s has %d headings", m.Name, n)
		}
	}
	label := regexp.MustCompile(`[{,](\w+)="`)
	for series := range parse(t, text) {
		name, _, _ := strings.Cut(series, "{")
		if !known()[name] {
			t.Errorf("%s is not in the table", name)
		}
		for _, m := range promtext.Metrics() {
			if m.Name != strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count") {
				continue
			}
			for _, l := range label.FindAllStringSubmatch(series, -1) {
				if !slices.Contains(append(m.Labels, "store", "le"), l[1]) {
					t.Errorf("%s has the label %s, the table has %q", series, l[1], m.Labels)
				}
			}
		}
	}
	if err := promtool(t, text, "check", "metrics"); err != nil {
		t.Error(err)
	}
	if err := promtool(t, "holdfast_x{lock=\"\n} 1\n", "check", "metrics"); err == nil {
		t.Error("promtool accepts a damaged text: the check is worth nothing")
	}
}

var metricName = regexp.MustCompile(`\bholdfast_\w+`)

func TestAlerts(t *testing.T) {
	if err := errors.Join(promtool(t, "", "check", "rules", "alerts.yml"), promtool(t, "", "test", "rules", "alerts_test.yml")); err != nil {
		t.Fatal(err)
	}
	rules, tests := readFile(t, "alerts.yml"), readFile(t, "alerts_test.yml")
	for _, match := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(rules, -1) {
		for _, part := range []string{"alertname: " + match[1] + ", exp_alerts: []}", "alertname: " + match[1] + "\n        exp_alerts:\n          - exp_labels"} {
			if !strings.Contains(tests, part) {
				t.Errorf("alerts_test.yml lacks %q", part)
			}
		}
	}
	for _, name := range metricName.FindAllString(rules, -1) {
		if !known()[name] {
			t.Errorf("alerts.yml uses %s, which does not exist", name)
		}
	}
}

// TestAlertsNotice is the control: with another bound in the rules, their tests fail.
func TestAlertsNotice(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "alerts.yml"), strings.Replace(readFile(t, "alerts.yml"), "(increase(holdfast_lost_total[10m])) > 0", "(increase(holdfast_lost_total[10m])) > 10", 1))
	writeFile(t, filepath.Join(dir, "alerts_test.yml"), readFile(t, "alerts_test.yml"))
	if err := promtool(t, "", "test", "rules", filepath.Join(dir, "alerts_test.yml")); err == nil {
		t.Error("the tests of the alerts do not notice a wrong bound")
	}
}

// TestDashboard loads the dashboard: each expression is one of Prometheus, and each metric exists.
// And the dashboard shows every metric.
func TestDashboard(t *testing.T) {
	var board struct {
		Title  string
		UID    string
		Panels []struct {
			ID      int
			Title   string
			Type    string
			GridPos struct{ H, W, X, Y int }
			Targets []struct{ Expr, LegendFormat string }
		}
		Templating struct {
			List []struct{ Name string }
		}
	}
	if err := json.Unmarshal([]byte(readFile(t, "dashboard.json")), &board); err != nil {
		t.Fatal(err)
	}
	variables := regexp.MustCompile(`\$(\w+)`)
	shown, ids, places := map[string]bool{}, map[int]bool{}, map[[2]int]string{}
	var rules strings.Builder
	rules.WriteString("groups:\n- name: x\n  rules:\n")
	for _, p := range board.Panels {
		if ids[p.ID] {
			t.Errorf("two panels have the number %d", p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := places[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("panel %q lies over %q, or outside of the page", p.Title, other)
				}
				places[[2]int{x, y}] = p.Title
			}
		}
		if (len(p.Targets) == 0) != (p.Type == "row") {
			t.Errorf("panel %q of type %s has %d expressions", p.Title, p.Type, len(p.Targets))
		}
		for _, target := range p.Targets {
			for _, v := range variables.FindAllStringSubmatch(target.Expr, -1) {
				if v[1] != "__rate_interval" && !slices.ContainsFunc(board.Templating.List, func(of struct{ Name string }) bool { return of.Name == v[1] }) {
					t.Errorf("panel %q uses the variable %s, which does not exist", p.Title, v[0])
				}
			}
			for _, name := range metricName.FindAllString(target.Expr, -1) {
				if shown[name] = true; !known()[name] {
					t.Errorf("panel %q uses %s, which does not exist", p.Title, name)
				}
			}
			fmt.Fprintf(&rules, "  - record: x\n    expr: %q\n", strings.ReplaceAll(target.Expr, "$__rate_interval", "5m"))
		}
	}
	if len(shown) < 20 {
		t.Fatalf("the dashboard shows only %v", shown)
	}
	for _, m := range promtext.Metrics() {
		if !shown[m.Name] && !shown[m.Name+"_bucket"] {
			t.Errorf("the dashboard does not show %s", m.Name)
		}
	}
	file := filepath.Join(t.TempDir(), "rules.yml")
	writeFile(t, file, rules.String())
	if err := promtool(t, "", "check", "rules", "--lint=none", file); err != nil {
		t.Error(err)
	}
	writeFile(t, file, strings.Replace(rules.String(), "sum by (", "sum by ((", 1))
	if err := promtool(t, "", "check", "rules", "--lint=none", file); err == nil {
		t.Error("promtool accepts a wrong expression: the check is worth nothing")
	}
}

// TestDocs compares the table of docs/metrics.md with the code.
func TestDocs(t *testing.T) {
	doc := readFile(t, "../../docs/metrics.md")
	row := regexp.MustCompile("(?m)^\\| `(holdfast_\\w+)` \\| (\\w+) \\| ([^|]*) \\| ([^|]*) \\| ([^|]*) \\|$")
	var got, want []string
	for _, match := range row.FindAllStringSubmatch(doc, -1) {
		got = append(got, strings.Join(match[1:], " | "))
	}
	for _, m := range promtext.Metrics() {
		writers := make([]string, len(m.Writers))
		for i, w := range m.Writers {
			writers[i] = string(w)
		}
		want = append(want, strings.Join([]string{m.Name, string(m.Kind), strings.Join(m.Labels, ", "), strings.Join(writers, ", "), m.Help}, " | "))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the table of docs/metrics.md should be:\n\n| %s |", strings.Join(want, " |\n| "))
	}
	for _, name := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(readFile(t, "alerts.yml"), -1) {
		if !strings.Contains(doc, name[1]) {
			t.Errorf("docs/metrics.md does not explain the alert %s", name[1])
		}
	}
}

// TestPrometheus runs a real server, which scrapes programs and loads the rules.
func TestPrometheus(t *testing.T) {
	path := suitetest.NeedProgram(t, "prometheus")
	m := metrics.New(&metrics.Options{Store: "mem://a", Label: metrics.ByName})
	st := m.Store(memstore.New())
	c, err := lease.New(st, &lease.Options{OnEvent: m.OnEvent})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := c.Do(t.Context(), `jobs/"nightly\`, func(context.Context, *lease.Guard) error { return nil }, nil); err != nil {
			t.Fatal(err)
		}
	}
	g, err := c.Acquire(t.Context(), "held", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range hostile {
		m.OnEvent(lease.Event{Kind: lease.EventWaiting, Name: name})
	}
	if err := c.FlushEvents(t.Context()); err != nil {
		t.Fatal(err)
	}
	program := httptest.NewServer(m)
	defer program.Close()

	dir := t.TempDir()
	rules, err := filepath.Abs("alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "prometheus.yml"), fmt.Sprintf("global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\nrule_files: [%q]\nscrape_configs:\n- job_name: h\n  static_configs: [{targets: [%q]}]\n", rules, program.Listener.Addr()))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	server := exec.Command(path, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--log.level=error")
	var log strings.Builder
	server.Stdout, server.Stderr = &log, &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = server.Wait()
	}()
	defer func() {
		_ = server.Process.Kill()
		<-exited
		if t.Failed() {
			t.Logf("Prometheus says:\n%s", &log)
		}
	}()

	// query returns the value of an expression; ok is false if it has none yet.
	query := func(expr string) (value string, ok bool) {
		response, err := http.Get("http://" + address + "/api/v1/query?query=" + url.QueryEscape(expr))
		if err != nil {
			return "", false
		}
		defer response.Body.Close()
		var answer struct {
			Data struct{ Result []struct{ Value [2]any } }
		}
		body, err := io.ReadAll(response.Body)
		if err != nil || json.Unmarshal(body, &answer) != nil || len(answer.Data.Result) != 1 {
			return string(body), false
		}
		value, ok = answer.Data.Result[0].Value[1].(string)
		return value, ok
	}
	wants := map[string]string{
		`up`: "1",
		`holdfast_acquired_total{store="mem://a",lock="jobs/\"nightly\\"}`:        "3",
		`holdfast_held{lock="held"}`:                                              "1",
		`sum(holdfast_released_total{result="ok"})`:                               "3",
		`sum(holdfast_requests_total{outcome="unknown"})`:                         "0",
		`count(holdfast_waits_total == 1)`:                                        fmt.Sprint(len(hostile)),
		`holdfast_shortest_lease_seconds{lock="held"} > bool 10`:                  "1",
		`histogram_quantile(0.5, holdfast_hold_duration_seconds_bucket) > bool 0`: "1",
	}
	for expr, want := range wants {
		var got string
		ok := false
		for limit := time.Now().Add(time.Minute); got != want && time.Now().Before(limit); time.Sleep(50 * time.Millisecond) {
			select {
			case <-exited:
				t.Fatalf("Prometheus has ended")
			default:
				got, ok = query(expr)
			}
		}
		if !ok || got != want {
			t.Errorf("%s = %s, want %s", expr, got, want)
		}
	}
	if err := g.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
