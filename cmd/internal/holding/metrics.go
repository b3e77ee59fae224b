package holding

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/internal/safefile"
)

// tally is what one run adds to the metrics of its locks.
type tally struct {
	file            string
	names           []string
	store           string
	began, acquired time.Time
}

// counters are the metrics of run, with their help texts. Their names and labels are
// stable.
var counters = []struct{ name, help string }{
	{"holdfast_runs_total", "Runs that had the lock."},
	{"holdfast_busy_total", "Runs that ended because the lock was busy."},
	{"holdfast_ran_already_total", "Runs that ended because the job had run in its period."},
	{"holdfast_lost_total", "Runs whose lease was lost."},
	{"holdfast_failed_total", "Runs that did not get the lock for another reason."},
	{"holdfast_wait_seconds_total", "Seconds for which runs have waited for the lock."},
	{"holdfast_held_seconds_total", "Seconds for which runs have held the lock."},
	{"holdfast_last_run_timestamp_seconds", "Unix time at which the last run with the lock ended."},
	{"holdfast_last_success_timestamp_seconds", "Unix time at which the last run with the lock and status 0 ended; 0 if there was none."},
	{lastStatus, "Exit status of the last run that had the lock."},
}

const lastStatus = "holdfast_last_exit_status"

// maxMetrics is how much of a file of metrics is read at most, in bytes.
const maxMetrics = 4 << 20

// metricsFile checks the place of the file before run takes any lock.
func metricsFile(path string) error {
	if path == "" {
		return nil
	}
	if !strings.HasSuffix(path, ".prom") {
		return exit.Usagef("--metrics %q must end with .prom, because the node exporter reads no other files", path)
	}
	dir, err := safefile.OpenAnyDir(filepath.Dir(path))
	if err != nil {
		return exit.Usagef("--metrics: %w", err)
	}
	dir.Close()
	return nil
}

// add adds a run with this result to the counters.
func (t *tally) add(ctx context.Context, result error) error {
	now := time.Now()
	add := map[string]float64{}
	switch {
	case !t.acquired.IsZero():
		add["holdfast_runs_total"] = 1
		add["holdfast_wait_seconds_total"] = t.acquired.Sub(t.began).Seconds()
		add["holdfast_held_seconds_total"] = now.Sub(t.acquired).Seconds()
		add["holdfast_last_run_timestamp_seconds"] = float64(now.Unix())
		add[lastStatus] = float64(exit.Status(result))
		if result == nil {
			add["holdfast_last_success_timestamp_seconds"] = float64(now.Unix())
		}
		if resultOf(true, result) == "lost" {
			add["holdfast_lost_total"] = 1
		}
	case resultOf(false, result) == "busy":
		add["holdfast_busy_total"] = 1
		add["holdfast_wait_seconds_total"] = now.Sub(t.began).Seconds()
	case resultOf(false, result) == "already_ran":
		add["holdfast_ran_already_total"] = 1
		add["holdfast_wait_seconds_total"] = now.Sub(t.began).Seconds()
	default:
		add["holdfast_failed_total"] = 1
	}
	dir, err := safefile.OpenAnyDir(filepath.Dir(t.file))
	if err != nil {
		return err
	}
	defer dir.Close()
	name := filepath.Base(t.file)
	unlock, err := lockMetrics(ctx, filepath.Dir(t.file), name+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	values, err := readMetrics(filepath.Dir(t.file), name)
	if err != nil {
		return err
	}
	for _, lock := range t.names {
		labels := fmt.Sprintf("{lock=%s,store=%s}", quoteLabel(lock), quoteLabel(t.store))
		for _, c := range counters {
			value, isNew := add[c.name]
			before, isOld := values[c.name+labels]
			switch {
			case strings.HasSuffix(c.name, "_total"):
				value += before
			case !isNew && !isOld && c.name == lastStatus:
				continue // 0 would say that it ran
			case !isNew:
				value = before
			}
			values[c.name+labels] = value
		}
	}
	file, err := dir.CreateMode(".metrics-", 0o644) // the exporter may run as another user
	if err != nil {
		return err
	}
	defer file.Discard()
	if err := writeMetrics(file, values); err != nil {
		return err
	}
	return file.Install(name)
}

// lockMetrics locks the file against other runs. It waits for at most a few seconds.
func lockMetrics(ctx context.Context, dir, name string) (unlock func(), err error) {
	root, err := os.OpenRoot(dir) // so that no link leads out of the directory
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for limit := time.Now().Add(5 * time.Second); !tryLock(f); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) || ctx.Err() != nil {
			f.Close()
			return nil, fmt.Errorf("%s is locked by another program", name)
		}
	}
	return func() { f.Close() }, nil
}

func quoteLabel(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text) + `"`
}

// readMetrics returns the values in a file of metrics by name and labels. It leaves out
// metrics that Holdfast does not write.
func readMetrics(path, name string) (map[string]float64, error) {
	values := map[string]float64{}
	dir, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	f, info, err := safefile.OpenFile(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return values, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size() > maxMetrics {
		return nil, fmt.Errorf("%s has more than %d bytes", name, maxMetrics)
	}
	lines := bufio.NewScanner(io.LimitReader(f, maxMetrics))
	for lines.Scan() {
		line := lines.Text()
		i := strings.LastIndex(line, "} ")
		if i < 0 || !strings.HasPrefix(line, "holdfast_") {
			continue
		}
		if v, err := strconv.ParseFloat(line[i+2:], 64); err == nil {
			values[line[:i+1]] = v
		}
	}
	return values, lines.Err()
}

func writeMetrics(w io.Writer, values map[string]float64) error {
	var text strings.Builder
	for _, c := range counters {
		kind := "counter"
		if !strings.HasSuffix(c.name, "_total") {
			kind = "gauge"
		}
		fmt.Fprintf(&text, "# HELP %s %s\n# TYPE %s %s\n", c.name, c.help, c.name, kind)
		var series []string
		for name := range values {
			if strings.HasPrefix(name, c.name+"{") {
				series = append(series, name)
			}
		}
		slices.Sort(series)
		for _, name := range series {
			fmt.Fprintf(&text, "%s %s\n", name, strconv.FormatFloat(values[name], 'f', -1, 64))
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}
