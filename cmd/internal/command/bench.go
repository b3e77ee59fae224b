package command

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/cmd/internal/trial"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/observe/picture"
	"github.com/holdfast-go/holdfast/store"
)

// benchResult is one line of bench. Its fields are stable.
type benchResult struct {
	Operation string  `json:"operation"`
	Requests  float64 `json:"requests"` // per operation
	MedianUS  float64 `json:"median_us"`
	P99US     float64 `json:"p99_us"`
	Ratio     float64 `json:"ratio"` // of the median to that of one conditional write
}

func (a *app) benchCommand() *cobra.Command {
	rounds, svg := 200, ""
	cmd := &cobra.Command{
		Use:     "bench",
		Short:   "Measure the requests and the time of each operation",
		GroupID: cmdline.GroupStore,
		Long: `Measure the requests and the time of each operation on a store. For comparison, bench also
measures one raw conditional write. bench uses its own keys below bench/, and removes them. If
bench is killed, "sweep" removes its keys.`,
		Example: `  holdfast bench --rounds 100
  holdfast bench --svg latencies.svg
  holdfast bench --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("svg") {
				return a.bench(cmd.Context(), rounds, nil)
			}
			file, err := cmdline.OpenReplaced("--svg", svg)
			if err != nil {
				return err
			}
			defer file.Close()
			return a.bench(cmd.Context(), rounds, file)
		},
	}
	cmd.Flags().Var(cmdline.Whole(&rounds, 1, 1_000_000), "rounds", "number of measurements of each operation")
	cmd.Flags().StringVar(&svg, "svg", "", "also draw the times as this SVG `file`")
	_ = cmd.MarkFlagFilename("svg", "svg")
	return cmd
}

// bencher measures operations one after the other.
type bencher struct {
	st       store.Store
	requests *atomic.Int64
	rounds   int
	results  []benchResult
	times    []picture.Latency
}

// bench measures, prints the results, and draws them as a file if it is not nil.
func (a *app) bench(ctx context.Context, rounds int, svg *cmdline.ReplacedFile) error {
	st, err := a.OpenURL(ctx, a.StoreURL)
	if err != nil {
		return err
	}
	defer st.Close()
	place := trial.BenchDir + "/" + trial.Name(time.Now())
	space, err := store.Prefix(st.Store, place)
	if err != nil {
		return err
	}
	b := &bencher{requests: &atomic.Int64{}, rounds: rounds}
	b.st = store.Intercept(space, func(ctx context.Context, op *store.Op, next store.Handler) error {
		if op.Kind != store.OpWatch {
			b.requests.Add(1)
		}
		return next(ctx, op)
	})
	err = errors.Join(b.run(ctx), trial.RemoveBelow(context.WithoutCancel(ctx), st.Store, place))
	if err != nil {
		return err
	}
	if svg != nil {
		subtitle := fmt.Sprintf("%s, %d measurements of each operation, on a logarithmic axis", printable.Text(st.URL), rounds)
		if err := svg.Write(picture.Latencies("holdfast bench", subtitle, b.times)); err != nil {
			return err
		}
	}
	if a.JSON {
		return a.PrintJSON(map[string]any{"store": st.URL, "rounds": rounds, "results": b.results})
	}
	w := tabwriter.NewWriter(a.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "operation\trequests\tmedian\tp99\tratio\t")
	for _, r := range b.results {
		fmt.Fprintf(w, "%s\t%.3g\t%v\t%v\t%.2f\t\n", r.Operation, r.Requests, micros(r.MedianUS), micros(r.P99US), r.Ratio)
	}
	return w.Flush()
}

func micros(us float64) time.Duration {
	return time.Duration(us * float64(time.Microsecond)).Round(100 * time.Nanosecond)
}

func (b *bencher) run(ctx context.Context) error {
	var version store.Version
	value := []byte(`{"of":"about the size of a lock record","` + rand.Text() + `":"` + fmt.Sprintf("%0250d", 0) + `"}`)
	client, err := lease.New(b.st, &lease.Options{TTL: 10 * time.Minute, Tuning: lease.Tuning{RenewInterval: time.Minute}})
	if err != nil {
		return err
	}
	defer client.Close(ctx)
	other, err := lease.New(b.st, nil)
	if err != nil {
		return err
	}
	defer other.Close(ctx)
	handle, err := client.Handle("again", nil)
	if err != nil {
		return err
	}
	var guard *lease.Guard
	acquire := func(int) (err error) { guard, err = handle.TryAcquire(ctx); return err }
	release := func(int) error { return guard.Release(ctx) }
	nothing := func(int) error { return nil }
	for _, step := range []struct {
		name              string
		before, op, after func(i int) error
	}{
		{"conditional write", nothing, func(int) (err error) { version, err = b.st.Put(ctx, "raw", version, value); return err }, nothing},
		{"read", nothing, func(int) error { _, _, err := b.st.Get(ctx, "raw"); return err }, nothing},
		{"acquire a new lock", nothing, func(i int) (err error) {
			guard, err = client.TryAcquire(ctx, fmt.Sprintf("new-%d", i), nil)
			return err
		}, release},
		{"acquire an existing lock", nothing, func(i int) (err error) {
			guard, err = other.TryAcquire(ctx, fmt.Sprintf("new-%d", i), nil)
			return err
		}, release},
		{"acquire again", func(i int) error {
			if i > 0 {
				return nil
			}
			return errors.Join(acquire(i), release(i)) // so that the first acquire is not the lock's first
		}, acquire, release},
		{"renew", func(i int) error {
			if i == 0 {
				return acquire(i)
			}
			return nil
		}, func(int) error { return guard.Renew(ctx) }, nothing},
		{"try a held lock", nothing, func(int) error {
			if _, err := other.TryAcquire(ctx, "again", nil); !errors.Is(err, lease.ErrHeld) {
				return fmt.Errorf("the store granted a lock that was already held: %w", err)
			}
			return nil
		}, nothing},
		{"release", func(i int) error {
			if i == 0 {
				return nil // the step before has acquired it
			}
			return acquire(i)
		}, release, nothing},
	} {
		if err := b.measure(step.name, step.before, step.op, step.after); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// measure measures the time of op alone, and counts its requests.
func (b *bencher) measure(name string, before, op, after func(i int) error) error {
	times := make([]time.Duration, b.rounds)
	requests := int64(0)
	for i := range b.rounds {
		if err := before(i); err != nil {
			return err
		}
		count, began := b.requests.Load(), time.Now()
		if err := op(i); err != nil {
			return err
		}
		times[i] = time.Since(began)
		requests += b.requests.Load() - count
		if err := after(i); err != nil {
			return err
		}
	}
	slices.Sort(times)
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
	r := benchResult{
		Operation: name, Requests: float64(requests) / float64(b.rounds),
		MedianUS: us(times[len(times)/2]), P99US: us(times[len(times)*99/100]), Ratio: 1,
	}
	if len(b.results) > 0 {
		r.Ratio = r.MedianUS / b.results[0].MedianUS
	}
	b.results = append(b.results, r)
	b.times = append(b.times, picture.Latency{
		Operation: name, RequestsPerOperation: r.Requests, Least: times[0], Most: times[len(times)-1],
		Median: times[len(times)/2], P90: times[len(times)*90/100], P99: times[len(times)*99/100],
	})
	return nil
}
