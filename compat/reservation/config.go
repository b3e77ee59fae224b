package reservation

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/compat/reserve"
	"github.com/holdfast-go/holdfast/store"
)

// Config is a value of the object_store settings conditional_put and copy_if_not_exists. It names a
// table.
type Config struct {
	Table   string
	Timeout time.Duration // 0 means 20 s, the default of object_store and of package reserve
}

// ParseConfig reads a setting: dynamo:TABLE or dynamo:TABLE:MILLISECONDS. It ignores spaces at both
// ends of the text and around the name of the table. ParseConfig refuses every text that
// object_store refuses for conditional_put. It also refuses an empty table, and a timeout that
// package reserve does not allow. The error matches store.ErrMisconfigured. It does not contain the
// text, because the text may contain a secret.
func ParseConfig(text string) (Config, error) {
	wrong := func(what string) (Config, error) {
		return Config{}, fmt.Errorf("%w: the setting must have the form dynamo:TABLE or dynamo:TABLE:MILLISECONDS, but %s", store.ErrMisconfigured, what)
	}
	kind, rest, found := strings.Cut(strings.TrimSpace(text), ":")
	if !found || kind != "dynamo" {
		return wrong(`it does not begin with "dynamo:"`)
	}
	table, ms, timed := strings.Cut(rest, ":")
	s := Config{Table: strings.TrimSpace(table)}
	if s.Table == "" {
		return wrong("the table is missing")
	}
	if !timed {
		return s, nil
	}
	// Rust's numbers may begin with a plus.
	n, err := strconv.ParseUint(strings.TrimPrefix(ms, "+"), 10, 63)
	least, most := uint64(reserve.MinTimeout.Milliseconds()), uint64(reserve.MaxTimeout.Milliseconds())
	switch {
	case err != nil:
		return wrong("the timeout is not a number of milliseconds")
	case n < least || n > most:
		return wrong(fmt.Sprintf("the timeout must be from %d to %d milliseconds", least, most))
	}
	s.Timeout = time.Duration(n) * time.Millisecond
	return s, nil
}

// String returns the text of the setting for object_store.
func (s Config) String() string {
	if s.Timeout == 0 {
		return "dynamo:" + s.Table
	}
	return fmt.Sprintf("dynamo:%s:%d", s.Table, s.Timeout.Milliseconds())
}
