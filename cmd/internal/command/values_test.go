package command

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
)

// TestWrongValues: each flag that takes no text, of each command, names itself, the value that
// it got, and what it takes.
func TestWrongValues(t *testing.T) {
	asked := 0
	everyCommand(func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !slices.Contains([]string{"int", "int64", "uint64", "float64", "bool", "duration"}, f.Value.Type()) {
				return
			}
			for value, want := range map[string]string{"abc": "the value must be ", "": `"": the value must be `, "1 2": `"1 2": the value must be `, strings.Repeat("x", 1<<16): "xxx...: the value must be "} {
				asked++
				said, status := executed(append(strings.Fields(cmd.CommandPath())[1:], "--"+f.Name+"="+value))
				if status != exit.Usage || !strings.HasPrefix(said, "holdfast: --"+f.Name+" ") || !strings.Contains(said, want) || strings.Count(said, "\n") != 1 || len(said) > 300 || strings.Contains(said, "strconv") {
					t.Errorf("%s: status %d: %.400s", cmd.CommandPath(), status, said)
				}
			}
		})
	})
	if asked < 100 {
		t.Errorf("%d flags were asked", asked)
	}
	for line, want := range map[string]string{
		"run j --slots 501 -- x":                     "--slots 501: the value must be a whole number from 1 to 500",
		"run j --slots 0 -- x":                       "--slots 0: the value must be a whole number from 1 to 500",
		"run j --slots 1.5 -- x":                     "--slots 1.5: the value must be a whole number from 1 to 500",
		"run j --slots 99999999999999999999 -- x":    "--slots 99999999999999999999: the value must be a whole number from 1 to 500",
		"resize j --slots 1000000":                   "--slots 1000000: the value must be a whole number from 1 to 500",
		"resize j":                                   "--slots N is missing: holdfast resize NAME --slots N [flags]",
		"resize j 3":                                 "wrong number of arguments (2): holdfast resize NAME --slots N [flags]",
		"resize a&b 3":                               "wrong number of arguments (2): holdfast resize NAME --slots N [flags]",
		"resize s3://u:p@b 3":                        "wrong number of arguments (2): holdfast resize NAME --slots N [flags]",
		"resize j 3 4 --slots 3":                     "wrong number of arguments (3): holdfast resize NAME --slots N [flags]",
		"resize":                                     "wrong number of arguments (0): holdfast resize NAME --slots N [flags]",
		"ask j 5m":                                   "wrong number of arguments (2): holdfast ask NAME [flags]",
		"ask j soon":                                 "wrong number of arguments (2): holdfast ask NAME [flags]",
		"ask j 5m please":                            "wrong number of arguments (3): holdfast ask NAME [flags]",
		"run j --retries -1 --once-per day -- x":     "--retries -1: the value must be a whole number from 0 to 1000",
		"run j -E 256 -- x":                          "--conflict-exit-code 256: the value must be a whole number from 0 to 255",
		"run j --max-clock-drift x -- x":             "--max-clock-drift x: the value must be a number, such as 0.01",
		"run j --ttl 5 -- x":                         "--ttl 5: add the unit, such as 5s, 5m or 5h",
		"run j --timeout -1s -- true":                "--timeout is -1s; it must not be negative",
		"run j --min-interval -1s -- true":           "--min-interval is -1s; it must not be negative",
		"run j -w NaN -- x":                          "--wait NaN: the value must be a length of time, such as 5m or 300s, or a number of seconds up to 1,000,000,000",
		"run j --shared=x -- x":                      "--shared x: the value must be true or false",
		"break j --token -1":                         "--token -1: the value must be a whole number, at least 0",
		"break j --token 99999999999999999999999999": "--token 99999999999999999999999999: the number is too large",
	} {
		if said, status := executed(strings.Fields(line)); status != exit.Usage || said != "holdfast: "+want+"\n" {
			t.Errorf("%s: status %d: %s", line, status, said)
		}
	}
	for name, c := range map[string]struct{ value, want string }{
		"HOLDFAST_TTL":   {"7", "HOLDFAST_TTL 7: add the unit, such as 7s, 7m or 7h"},
		"HOLDFAST_WAIT":  {"soon", "HOLDFAST_WAIT soon: the value must be a length of time"},
		"HOLDFAST_QUIET": {"ja", "HOLDFAST_QUIET ja: the value must be true or false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, c.value)
			if said, status := executed([]string{"run", "j", "--", "true"}); status != exit.Usage || !strings.HasPrefix(said, "holdfast: "+c.want) {
				t.Errorf("status %d: %s", status, said)
			}
		})
	}
}

// TestBoundsNameTheFlag: a value that a flag's type takes and the lease does not is reported with the
// flag, or the variable, that has it: of several flags that do not go together, with those that
// were given.
func TestBoundsNameTheFlag(t *testing.T) {
	dir := t.TempDir()
	ownState(t, dir)
	t.Setenv("HOLDFAST_STORE", "file:"+filepath.Join(dir, "store"))
	if err := os.Mkdir(filepath.Join(dir, "store"), 0o700); err != nil { // ask makes none
		t.Fatal(err)
	}
	t.Setenv("HOLDFAST_MAX_CLOCK_DRIFT", "0.01") // of another flag: it is not reported
	long := strings.Repeat("x", 1<<20)
	for line, want := range map[string]string{
		"run j --ttl 1ms -- true":                      "--ttl: the TTL is 1ms; on this store it can be from 500ms to 24h0m0s",
		"hold j --ttl 48h":                             "--ttl: the TTL is 48h0m0s; on this store it can be from 500ms to 24h0m0s",
		"hold --commands --ttl -5s":                    "--ttl: the TTL is -5s; on this store it can be from 500ms to 24h0m0s",
		"lead j --ttl 1500001us -- true":               "--ttl: the TTL is 1.500001s; it must be a number of whole milliseconds",
		"lock j --margin 1ms":                          "--margin: the margin is 1ms; for a TTL of 1h0m5.001s it must be at least 1s",
		"run j --margin 20s -- true":                   "--margin: the TTL is 30s; it must be more than twice the margin (20s) and grace (5s) together",
		"run j --grace 20s -- true":                    "--grace: the TTL is 30s; it must be more than twice the margin (3s) and grace (20s) together",
		"lead j --ttl 10s --margin 2s --grace 3s -- x": "--ttl, --margin, --grace: the TTL is 10s; it must be more than twice the margin (2s) and grace (3s) together",
		"run j --max-clock-drift 7 --ttl 20s -- true":  "--max-clock-drift: the maximal clock drift is 7; it can be from 0.0001 to 0.2",
		"run j --max-clock-drift NaN -- true":          "--max-clock-drift: the maximal clock drift is NaN; it can be from 0.0001 to 0.2",
		"run j --min-interval 9000h -- true":           "--min-interval: the minimal interval between grants is 9000h0m0s; it can be from 0 to 8784h0m0s",
		"run j --holder " + long + " -- true":          "--holder: the holder has 1048576 bytes; at most 1024 are allowed",
		"ask j --holder " + long:                       "--holder: the holder has 1048576 bytes; at most 1024 are allowed",
		"ask j --reason " + long:                       "--reason has 1048576 bytes; at most 1024 are allowed",
		"lead j --value " + long + " -- true":          "--value has 1048576 bytes; at most 32768 are allowed",
		"sweep --older-than 1s":                        "--older-than must be at least 1h0m0s, not 1s",
		"sweep --older-than -1s":                       "--older-than must be at least 1h0m0s, not -1s",
		"run j --once-per 0 -- true":                   "--once-per: invalid argument: the period is 0s; it can be from 1s to 8784h0m0s",
		"run j --once-per 0s -- true":                  "--once-per: invalid argument: the period is 0s; it can be from 1s to 8784h0m0s",
	} {
		args := strings.Fields(line)
		if args[0] == "lead" {
			args[len(args)-1] = "true" // a program that is there
		}
		if said, status := executed(args); status != exit.Usage || said != "holdfast: "+want+"\n" {
			t.Errorf("%.60s: status %d: %.300s\nwant %s", line, status, said, want)
		}
	}
	t.Run("of the environment", func(t *testing.T) {
		t.Setenv("HOLDFAST_TTL", "1ms")
		const want = "holdfast: HOLDFAST_TTL: the TTL is 1ms; "
		if said, status := executed([]string{"run", "j", "--", "true"}); status != exit.Usage || !strings.HasPrefix(said, want) {
			t.Errorf("status %d: %s", status, said)
		}
	})
	for per, want := range map[string]string{
		"day Nowhere/Land": `--once-per: invalid argument: period "day Nowhere/Land": unknown time zone Nowhere/Land`,
		"day " + long:      `--once-per: invalid argument: period "day xxx`,
		long:               `--once-per: invalid argument: period "xxx`,
	} {
		if said, status := executed([]string{"run", "j", "--once-per", per, "--", "true"}); status != exit.Usage || !strings.HasPrefix(said, "holdfast: "+want) || len(said) > 500 {
			t.Errorf("--once-per %.30s: status %d, %d bytes: %.300s", per, status, len(said), said)
		}
	}
	if said, status := executed([]string{"show", "j"}); status != exit.NotFound {
		t.Errorf("the lock is there: status %d: %s", status, said)
	}
}

// TestCommandAfterDash: a command line of run, lead or hold that lacks --, the lock or the
// command gets the line to write. It repeats nothing that may be a password.
func TestCommandAfterDash(t *testing.T) {
	for line, want := range map[string]string{
		"lead":                                "put -- before the command: holdfast lead NAME -- COMMAND",
		"lead j":                              "put -- before the command: holdfast lead j -- COMMAND",
		"lead j true":                         "put -- before the command: holdfast lead j -- true",
		"lead a&b ./x y z":                    "put -- before the command: holdfast lead 'a&b' -- ./x ...",
		"lead s3://u:p@b true":                "put -- before the command: holdfast lead ... -- true",
		"lead j true --password=x":            "unknown flag: --password (see holdfast lead --help); put -- before the command",
		"lead j --":                           "name the command: holdfast lead j -- COMMAND",
		"lead -- true":                        "name the lock: holdfast lead NAME -- COMMAND",
		"lead --":                             "name the lock: holdfast lead NAME -- COMMAND",
		"lead j k -- true":                    "lead needs exactly one lock, not 2: holdfast lead NAME -- COMMAND",
		"run":                                 "put -- before the command: holdfast run NAME -- COMMAND",
		"run j":                               "put -- before the command: holdfast run j -- COMMAND",
		"run j ls x":                          "put -- before the command: holdfast run j -- ls ...",
		"run j ls -l":                         "unknown shorthand flag: 'l' in -l (see holdfast run --help); put -- before the command",
		"run j --nonblok -- ls":               `unknown flag: --nonblok (see holdfast run --help). Did you mean "--nonblock"?`,
		"run j --":                            "name the command: holdfast run j -- COMMAND",
		"run -- true":                         "name the lock: holdfast run NAME -- COMMAND",
		"hold j k":                            "name one lock; to hold several locks, use --commands: holdfast hold NAME [flags]",
		"hold --commands j":                   "with --commands, hold reads the names of locks from its input, not from the command line",
		"hold j " + strings.Repeat("x", 5000): "name one lock; to hold several locks, use --commands: holdfast hold NAME [flags]",
	} {
		if said, status := executed(strings.Fields(line)); status != exit.Usage || said != "holdfast: "+want+"\n" {
			t.Errorf("%.60s: status %d: %.300s\nwant %s", line, status, said, want)
		}
	}
}

// executed runs a command line in this process, and returns what it said on stderr.
func executed(args []string) (said string, status int) {
	var errs bytes.Buffer
	status = execute(args, strings.NewReader(""), &bytes.Buffer{}, &errs)
	return errs.String(), status
}

// TestVariables: these variables set flags, and no others do: none that takes a protection away.
// The help names all of them.
func TestVariables(t *testing.T) {
	want := "HOLDFAST_ALSO_STORE HOLDFAST_BUCKET HOLDFAST_CHECKPOINT_FILE HOLDFAST_GRACE HOLDFAST_HISTORY HOLDFAST_HOLDER HOLDFAST_LOCK HOLDFAST_MARGIN " +
		"HOLDFAST_MAX_CLOCK_DRIFT HOLDFAST_METRICS HOLDFAST_QUIET HOLDFAST_STORE HOLDFAST_TABLE HOLDFAST_TTL HOLDFAST_VERBOSE HOLDFAST_WAIT"
	if got := strings.Join(slices.Sorted(maps.Values(cmdline.FlagVariables)), " "); got != want {
		t.Errorf("variables %s, want %s", got, want)
	}
	flags := flagNames((&app{}).command())
	for flag, name := range cmdline.FlagVariables {
		if !slices.Contains(flags, flag) || !strings.Contains(environmentTopic, "  "+name+" ") {
			t.Errorf("%s: there is no flag --%s, or the help does not name the variable", name, flag)
		}
	}
	dir := t.TempDir()
	ownState(t, dir)
	t.Setenv("HOLDFAST_STORE", "file:"+filepath.Join(dir, "store"))
	for name, value := range map[string]string{"HOLDFAST_FORCE": "true", "HOLDFAST_NONBLOCK": "true", "HOLDFAST_ONCE_PER": "day", "HOLDFAST_IF_MATCH": ""} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			flag := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, "HOLDFAST_"), "_", "-"))
			want := "holdfast: " + name + " is not a variable of holdfast, and is ignored: write --" + flag + " on the command line\n"
			if said, status := executed([]string{"version"}); status != exit.OK || !strings.Contains(said, want) {
				t.Errorf("status %d: %s", status, said)
			}
		})
	}
}
