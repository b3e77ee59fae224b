package promtext

import "strings"

// Value is the value of a counter or gauge.
type Value struct {
	Name   string
	Labels [][2]string // names and values
	Value  float64
}

// Values returns the values of the counters and gauges, in no particular order.
func (s *Set) Values() (all []Value) {
	for name, values := range s.values {
		for labels, value := range values {
			all = append(all, Value{name, Pairs(labels), value})
		}
	}
	return all
}

// Pairs returns the names and values of labels that Labels has made.
func Pairs(labels string) (all [][2]string) {
	for labels != "" {
		name, rest, _ := strings.Cut(labels, `="`)
		end := 0
		for end < len(rest) && rest[end] != '"' {
			if rest[end] == '\\' {
				end++
			}
			end++
		}
		end = min(end, len(rest))
		all = append(all, [2]string{name, unescape.Replace(rest[:end])})
		labels = strings.TrimPrefix(strings.TrimPrefix(rest[end:], `"`), ",")
	}
	return all
}

var unescape = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n")
