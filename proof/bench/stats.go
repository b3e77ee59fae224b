package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// samples are measured times.
type samples []time.Duration

// at returns the sample with the fraction q of the samples below it.
func (s samples) at(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

func (s samples) median() time.Duration { return s.at(0.5) }

// timed runs f and returns how long it took.
func timed(f func() error) (time.Duration, error) {
	start := time.Now()
	err := f()
	return time.Since(start), err
}

// together does f n times at once.
func together(n int, f func(i int) error) (time.Duration, error) {
	errs := make([]error, n)
	return timed(func() error {
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() { errs[i] = f(i) })
		}
		all.Wait()
		return errors.Join(errs...)
	})
}

// short prints a duration with three digits.
func short(d time.Duration) string {
	switch {
	case d == 0:
		return "–"
	case d < time.Millisecond:
		return fmt.Sprintf("%.0f µs", float64(d)/1e3)
	case d < time.Second:
		return fmt.Sprintf("%.3g ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.3g s", d.Seconds())
}

// ratio prints a in terms of b.
func ratio(a, b time.Duration) string {
	if a == 0 || b == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", float64(a)/float64(b))
}

// table is a table in Markdown.
type table struct {
	head []string
	rows [][]string
}

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

// rowsTogether measures a row of each name, all at once, and prints the table.
func (t *table) rowsTogether(w io.Writer, names []string, measure func(i int) ([]string, error)) error {
	t.rows = make([][]string, len(names))
	_, err := together(len(names), func(i int) error {
		cells, err := measure(i)
		if err != nil {
			return fmt.Errorf("%s: %w", names[i], err)
		}
		t.rows[i] = append([]string{names[i]}, cells...)
		return nil
	})
	if err == nil {
		t.print(w)
	}
	return err
}

func (t *table) print(w io.Writer) {
	line := func(cells []string) { fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | ")) }
	line(t.head)
	fmt.Fprintf(w, "|%s\n", strings.Repeat(" --- |", len(t.head)))
	for _, r := range t.rows {
		line(r)
	}
	fmt.Fprintln(w)
}
