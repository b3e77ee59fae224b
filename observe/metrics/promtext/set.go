package promtext

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ContentType is the media type of the text format.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Bounds are the upper bounds of the buckets of a histogram, in seconds.
var Bounds = [...]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}

// Distribution is the value of a histogram: the numbers of observations in each bucket, the last
// without a bound, and their sum in seconds.
type Distribution struct {
	Buckets [len(Bounds) + 1]uint64
	Sum     float64
}

// Bucket returns the index of the bucket that an observation belongs to.
func Bucket(d time.Duration) int {
	seconds := d.Seconds()
	for i, bound := range Bounds {
		if seconds <= bound {
			return i
		}
	}
	return len(Bounds)
}

// Observe adds an observation.
func (d *Distribution) Observe(took time.Duration) {
	took = max(took, 0)
	d.Buckets[Bucket(took)]++
	d.Sum += took.Seconds()
}

// Set is a set of values of metrics, by name and labels. One goroutine may use
// a Set at a time. The zero Set is empty.
type Set struct {
	values        map[string]map[string]float64
	distributions map[string]map[string]*Distribution
}

// Labels returns labels, for the methods of Set: pairs of names and values. It leaves out empty
// values, because Prometheus does not distinguish them from absent ones.
func Labels(pairs ...string) string {
	var text strings.Builder
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			continue
		}
		if text.Len() > 0 {
			text.WriteByte(',')
		}
		text.WriteString(pairs[i])
		text.WriteByte('=')
		text.WriteString(Quote(pairs[i+1]))
	}
	return text.String()
}

var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// Quote returns the value of a label as the text format has it. Bytes that are not valid UTF-8
// are replaced, because one of them would make Prometheus refuse all metrics of the program.
func Quote(value string) string {
	return `"` + escape.Replace(strings.ToValidUTF8(value, "\ufffd")) + `"`
}

// Add adds to a counter, or to a gauge.
func (s *Set) Add(name, labels string, by float64) { s.of(name)[labels] += by }

// Put sets the value of a gauge.
func (s *Set) Put(name, labels string, value float64) { s.of(name)[labels] = value }

// PutLeast sets the value of a gauge unless it is lower already.
func (s *Set) PutLeast(name, labels string, value float64) {
	if before, ok := s.Value(name, labels); !ok || value < before {
		s.Put(name, labels, value)
	}
}

// Value returns a value; ok is false if the set does not have it.
func (s *Set) Value(name, labels string) (value float64, ok bool) {
	value, ok = s.values[name][labels]
	return value, ok
}

func (s *Set) of(name string) map[string]float64 { return sub(&s.values, name) }

// Distribution returns the value of a histogram, which the caller may change.
func (s *Set) Distribution(name, labels string) *Distribution {
	all := sub(&s.distributions, name)
	if all[labels] == nil {
		all[labels] = &Distribution{}
	}
	return all[labels]
}

// sub returns the map below a name, and makes what is missing.
func sub[V any](of *map[string]map[string]V, name string) map[string]V {
	if *of == nil {
		*of = map[string]map[string]V{}
	}
	if (*of)[name] == nil {
		(*of)[name] = map[string]V{}
	}
	return (*of)[name]
}

// AddAll adds all values of another set, with further labels before the labels of each.
func (s *Set) AddAll(other *Set, labels string) {
	for name, values := range other.values {
		for l, v := range values {
			if name == ShortestLease || name == SeenShortestLease || name == SeenAge {
				s.PutLeast(name, join(labels, l), v)
				continue
			}
			s.Add(name, join(labels, l), v)
		}
	}
	for name, values := range other.distributions {
		for l, v := range values {
			d := s.Distribution(name, join(labels, l))
			for i, n := range v.Buckets {
				d.Buckets[i] += n
			}
			d.Sum += v.Sum
		}
	}
}

// AddCounters adds the counters of another set.
func (s *Set) AddCounters(other *Set) {
	for _, m := range metrics {
		if m.Kind != Counter {
			continue
		}
		for labels, v := range other.values[m.Name] {
			s.Add(m.Name, labels, v)
		}
	}
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "," + b
}

// AppendText appends the values in the text format, in the order of the table. It leaves out names
// that are not in the table.
func (s *Set) AppendText(b []byte) []byte {
	for _, m := range metrics {
		values, distributions := s.values[m.Name], s.distributions[m.Name]
		if len(values)+len(distributions) == 0 {
			continue
		}
		b = append(b, "# HELP "+m.Name+" "+m.Help+"\n# TYPE "+m.Name+" "+string(m.Kind)+"\n"...)
		for _, labels := range slices.Sorted(maps.Keys(values)) {
			b = appendSample(b, m.Name, labels, values[labels])
		}
		for _, labels := range slices.Sorted(maps.Keys(distributions)) {
			d, n := distributions[labels], uint64(0)
			for i, of := range d.Buckets {
				bound := "+Inf"
				if i < len(Bounds) {
					bound = strconv.FormatFloat(Bounds[i], 'f', -1, 64)
				}
				n += of
				b = appendSample(b, m.Name+"_bucket", join(labels, `le="`+bound+`"`), float64(n))
			}
			b = appendSample(b, m.Name+"_sum", labels, d.Sum)
			b = appendSample(b, m.Name+"_count", labels, float64(n))
		}
	}
	return b
}

func appendSample(b []byte, name, labels string, value float64) []byte {
	b = append(b, name...)
	if labels != "" {
		b = append(b, '{')
		b = append(b, labels...)
		b = append(b, '}')
	}
	b = append(b, ' ')
	b = strconv.AppendFloat(b, value, 'f', -1, 64)
	return append(b, '\n')
}

// ParseText puts in the values of the counters and gauges in a text that AppendText has written. It
// leaves out lines that it does not know.
func (s *Set) ParseText(text string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		i := strings.LastIndex(line, "} ")
		name, labels, ok := strings.Cut(line[:max(i, 0)], "{")
		known := slices.ContainsFunc(metrics, func(m Metric) bool { return m.Name == name && m.Kind != Histogram })
		if !ok || !known {
			continue
		}
		if value, err := strconv.ParseFloat(line[i+2:], 64); err == nil {
			s.Put(name, labels, value)
		}
	}
}
