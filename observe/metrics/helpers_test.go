package metrics_test

import (
	"io"
	"strconv"
	"strings"
	"testing"
)

// values returns the values that w writes, by series.
func values(t *testing.T, w io.WriterTo) map[string]float64 {
	t.Helper()
	var text strings.Builder
	if _, err := w.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	return parse(t, text.String())
}

// parse returns the values in a text of metrics, by series.
func parse(t *testing.T, text string) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		if i < 0 {
			t.Fatalf("the line %q has no value", line)
		}
		v, err := strconv.ParseFloat(line[i+1:], 64)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := all[line[:i]]; ok {
			t.Fatalf("%s stands twice", line[:i])
		}
		all[line[:i]] = v
	}
	return all
}

// sum returns the sum of the series of a metric whose labels contain text.
func sum(all map[string]float64, metric, text string) (n float64) {
	for series, v := range all {
		name, labels, _ := strings.Cut(series, "{")
		if name == metric && strings.Contains(labels, text) {
			n += v
		}
	}
	return n
}
