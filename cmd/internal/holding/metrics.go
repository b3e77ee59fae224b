package holding

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/observe/metrics/promtext"
)

// tally is what one run adds to the metrics of its locks.
type tally struct {
	file            string
	names           []string
	store           string
	began, acquired time.Time
}

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

// begin makes the counters of locks that are not in the file: Prometheus sees no increase in a counter that begins
// with 1.
func (t *tally) begin(ctx context.Context) error { return t.write(ctx, nil, "") }

// add adds a run with this result to the counters.
func (t *tally) add(ctx context.Context, result error) error {
	now := time.Now()
	add, reason := map[string]float64{}, ""
	switch {
	case !t.acquired.IsZero():
		add[promtext.Runs], add[promtext.Acquired] = 1, 1
		add[promtext.WaitSeconds] = t.acquired.Sub(t.began).Seconds()
		add[promtext.HeldSeconds] = now.Sub(t.acquired).Seconds()
		add[promtext.LastRun] = float64(now.Unix())
		add[promtext.LastStatus] = float64(exit.Status(result))
		if result == nil {
			add[promtext.LastSuccess] = float64(now.Unix())
		}
		if resultOf(true, true, result) == "lost" {
			add[promtext.Lost], reason = 1, promtext.LossReason(result)
		}
	case resultOf(false, false, result) == "busy":
		add[promtext.Busy] = 1
		add[promtext.WaitSeconds] = now.Sub(t.began).Seconds()
	case resultOf(false, false, result) == "already_ran":
		add[promtext.RanAlready] = 1
		add[promtext.WaitSeconds] = now.Sub(t.began).Seconds()
	default:
		add[promtext.Failed], reason = 1, promtext.FailureReason(result)
	}
	return t.write(ctx, add, reason)
}

// write adds values to the file. At the beginning of a run there are none.
func (t *tally) write(ctx context.Context, add map[string]float64, reason string) error {
	root, err := os.OpenRoot(filepath.Dir(t.file)) // so that no link leads out of the directory
	if err != nil {
		return err
	}
	defer root.Close()
	name := filepath.Base(t.file)
	unlock, err := lockMetrics(ctx, root, name+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	values, err := readMetrics(root, name)
	if err != nil {
		return err
	}
	if add == nil && !slices.ContainsFunc(t.names, func(lock string) bool {
		_, old := values.Value(promtext.Runs, promtext.Labels("lock", lock, "store", t.store))
		return !old
	}) {
		return nil
	}
	for _, lock := range t.names {
		labels := promtext.Labels("lock", lock, "store", t.store)
		for _, m := range promtext.WrittenBy(promtext.Run) {
			value, isNew := add[m.Name]
			_, isOld := values.Value(m.Name, labels)
			switch {
			case slices.Contains(m.Labels, "reason"):
				for _, r := range promtext.Reasons(m.Name) {
					by := 0.0
					if r == reason {
						by = value
					}
					values.Add(m.Name, labels+","+promtext.Labels("reason", r), by)
				}
			case m.Kind == promtext.Counter:
				values.Add(m.Name, labels, value)
			case isNew:
				values.Put(m.Name, labels, value)
			case add != nil && !isOld && m.Name != promtext.LastStatus: // there, 0 would say that it ran
				values.Put(m.Name, labels, 0)
			}
		}
	}
	return safefile.DirIn(root).Replace(name, ".metrics-", 0o644, values.AppendText(nil)) // the exporter may run as another user
}

// lockMetrics locks the file against other runs. It waits for at most a few seconds.
func lockMetrics(ctx context.Context, root *os.Root, name string) (unlock func(), err error) {
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

// readMetrics returns the values in a file of metrics. It leaves out metrics that Holdfast does not
// write.
func readMetrics(dir *os.Root, name string) (*promtext.Set, error) {
	values := &promtext.Set{}
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
	text, err := io.ReadAll(io.LimitReader(f, maxMetrics))
	values.ParseText(string(text))
	return values, err
}
