package cmdline

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
)

// Whole returns the value of a flag that takes a whole number within bounds.
func Whole(n *int, least, most int) pflag.Value { return whole{n, least, most} }

type whole struct {
	n           *int
	least, most int
}

func (w whole) String() string {
	if w.n == nil { // pflag asks a zero value for its text
		return "0"
	}
	return strconv.Itoa(*w.n)
}

func (w whole) Type() string { return "int" }

func (w whole) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < w.least || n > w.most {
		return errors.New(w.takes())
	}
	*w.n = n
	return nil
}

func (w whole) takes() string { return fmt.Sprintf("a whole number from %d to %d", w.least, w.most) }

// Seconds is a duration that a user may also write as a number of seconds, as for flock(1).
type Seconds time.Duration

func (s *Seconds) String() string { return time.Duration(*s).String() }
func (s *Seconds) Type() string   { return "duration" }

func (s *Seconds) Set(text string) error {
	if n, err := strconv.ParseFloat(text, 64); err == nil && n >= 0 && n <= MaxSeconds {
		*s = Seconds(n * float64(time.Second))
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return errors.New(s.takes())
	}
	*s = Seconds(d)
	return nil
}

func (s *Seconds) takes() string {
	return "a length of time, such as 5m or 300s, or a number of seconds up to 1,000,000,000"
}

// MaxSeconds is longer than any real wait, and fits into a duration.
const MaxSeconds = 1e9

// wrongValue is the error for a value that a flag does not take. It names the flag, or the
// variable that sets it, the value, and what the flag takes.
func wrongValue(given string, wrong *pflag.InvalidValueError) error {
	const most = 100 // bytes of the value
	text, more := wrong.GetValue(), ""
	if len(text) > most {
		text, more = strings.ToValidUTF8(text[:most], ""), "..."
	}
	text = printable.Line(text) + more
	if text == "" || strings.Contains(text, " ") {
		text = strconv.Quote(text)
	}
	value := wrong.GetFlag().Value
	kind := map[string]string{
		"int": "a whole number", "int64": "a whole number", "uint64": "a whole number, at least 0", "float64": "a number, such as 0.01",
		"bool": "true or false", "duration": "a length of time, such as 90s, 15m, 1h30m or 48h",
	}[value.Type()]
	takes := "the value must be " + kind
	own, isOwn := value.(interface{ takes() string })
	switch _, err := strconv.ParseFloat(wrong.GetValue(), 64); {
	case isOwn:
		takes = "the value must be " + own.takes()
	case value.Type() == "duration" && err == nil:
		takes = fmt.Sprintf("add the unit, such as %[1]ss, %[1]sm or %[1]sh", text)
	case errors.Is(wrong, strconv.ErrRange):
		takes = "the number is too large"
	case kind == "":
		takes = wrong.Unwrap().Error()
	}
	return exit.Usagef("%s %s: %s", given, text, takes)
}
