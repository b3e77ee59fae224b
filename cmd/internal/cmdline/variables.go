package cmdline

import (
	"errors"
	"os"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
)

// The variables that the command sets for the programs that it starts.
const (
	LockVariable  = "HOLDFAST_LOCK"
	TokenVariable = "HOLDFAST_TOKEN"
	LocksVariable = "HOLDFAST_LOCKS"
	SlotVariable  = "HOLDFAST_SLOT"
	HookVariable  = "HOLDFAST_HOOK" // the event that a hook is for
)

// FlagVariables are the variables that set flags, by the name of the flag: of those whose value is
// the same for all commands of a crontab, a unit or a container. A flag that says what one command
// does has none, nor has one that takes a protection away: it must not come from a variable that a
// user has forgotten.
var FlagVariables = map[string]string{
	"store": "HOLDFAST_STORE", "also-store": "HOLDFAST_ALSO_STORE", "holder": "HOLDFAST_HOLDER",
	"ttl": "HOLDFAST_TTL", "grace": "HOLDFAST_GRACE", "margin": "HOLDFAST_MARGIN", "max-clock-drift": "HOLDFAST_MAX_CLOCK_DRIFT",
	"wait": "HOLDFAST_WAIT", "metrics": "HOLDFAST_METRICS", "file": "HOLDFAST_CHECKPOINT_FILE",
	"table": "HOLDFAST_TABLE", "bucket": "HOLDFAST_BUCKET", "quiet": "HOLDFAST_QUIET", "verbose": "HOLDFAST_VERBOSE",
	"history": "HOLDFAST_HISTORY", "lock": LockVariable, // of objects; run sets it
}

// VariableOf returns the name of the variable of the flags that are called so; empty if they have
// none.
func VariableOf(flag string) string { return FlagVariables[flag] }

// NoVariable marks a flag that is set by no variable although others of its name are.
const NoVariable = "holdfast_no_variable"

// FromEnvironment sets each flag that is not on the command line from its variable, if it has one.
func FromEnvironment(flags *pflag.FlagSet) error {
	var err error
	flags.VisitAll(func(f *pflag.Flag) {
		name := VariableOf(f.Name)
		if _, none := f.Annotations[NoVariable]; none || name == "" {
			return
		}
		value := os.Getenv(name)
		if value == "" || f.Changed || err != nil {
			return
		}
		err = flags.Set(f.Name, value)
		_ = flags.SetAnnotation(f.Name, fromVariable, []string{name}) // fails only for a flag that does not exist
		if wrong := (*pflag.InvalidValueError)(nil); errors.As(err, &wrong) {
			err = wrongValue(AsGiven(f), wrong)
		}
	})
	return err
}

// fromVariable marks a flag whose value comes from its variable.
const fromVariable = "holdfast_variable"

// AsGiven returns the name of a flag, or of the variable if that has its value.
func AsGiven(f *pflag.Flag) string {
	if name := f.Annotations[fromVariable]; name != nil {
		return name[0]
	}
	return "--" + f.Name
}

// EmptyFlag reports whether a flag, or else its variable, is set but empty. That can be an
// unset secret, and does not mean the default.
func EmptyFlag(flags *pflag.FlagSet, name string) bool {
	f := flags.Lookup(name)
	if f == nil {
		return false
	}
	variable := VariableOf(name)
	value, set := os.LookupEnv(variable)
	return f.Changed && f.Value.String() == "" || !f.Changed && variable != "" && set && value == ""
}

// NotEmpty refuses flags that are empty: see [EmptyFlag].
func NotEmpty(flags *pflag.FlagSet, names ...string) error {
	for _, name := range names {
		if EmptyFlag(flags, name) {
			given := "--" + name
			if v := VariableOf(name); v != "" {
				given += ", or " + v + ","
			}
			return exit.Usagef("%s is empty: remove it to use the default", given)
		}
	}
	return nil
}
