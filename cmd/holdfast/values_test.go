package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestWrongValues: each flag that takes no text, of each command, names itself, the value that
// it got, and what it takes.
func TestWrongValues(t *testing.T) {
	asked := 0
	everyCommand(func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if kindOfValue(f.Value.Type()) == "" {
				return
			}
			for value, want := range map[string]string{"abc": "it takes ", "": `"": it takes `, "1 2": `"1 2": it takes `, strings.Repeat("x", 1<<16): "xxx...: it takes "} {
				asked++
				said, status := executed(append(strings.Fields(cmd.CommandPath())[1:], "--"+f.Name+"="+value))
				if status != statusUsage || !strings.HasPrefix(said, "holdfast: --"+f.Name+" ") || !strings.Contains(said, want) || strings.Count(said, "\n") != 1 || len(said) > 300 || strings.Contains(said, "strconv") {
					t.Errorf("%s: status %d: %.400s", cmd.CommandPath(), status, said)
				}
			}
		})
	})
	if asked < 100 {
		t.Errorf("%d flags were asked", asked)
	}
	for line, want := range map[string]string{
		"run j --slots 501 -- x":                     "--slots 501: it takes a whole number from 1 to 500",
		"run j --slots 0 -- x":                       "--slots 0: it takes a whole number from 1 to 500",
		"run j --slots 1.5 -- x":                     "--slots 1.5: it takes a whole number from 1 to 500",
		"run j --slots 99999999999999999999 -- x":    "--slots 99999999999999999999: it takes a whole number from 1 to 500",
		"resize j --slots 1000000":                   "--slots 1000000: it takes a whole number from 1 to 500",
		"resize j":                                   "--slots is missing: holdfast resize j --slots N",
		"resize j 3":                                 "--slots is missing: holdfast resize j --slots 3",
		"resize a&b 3":                               "--slots is missing: holdfast resize 'a&b' --slots 3",
		"resize s3://u:p@b 3":                        "--slots is missing: holdfast resize ... --slots 3",
		"resize j 3 4 --slots 3":                     "2 arguments too many: holdfast resize NAME --slots N [flags]",
		"resize":                                     "NAME is missing: holdfast resize NAME --slots N [flags]",
		"ask j 5m":                                   "--wait is missing: holdfast ask j --wait 5m",
		"ask j soon":                                 "--reason is missing: holdfast ask j --reason soon",
		"ask j 5m please":                            "2 arguments too many: holdfast ask NAME [flags]",
		"run j --retries -1 --per day -- x":          "--retries -1: it takes a whole number from 0 to 1000",
		"run j -E 256 -- x":                          "--busy-status 256: it takes a whole number from 0 to 255",
		"run j --rho x -- x":                         "--rho x: it takes a number, such as 0.01",
		"run j --ttl 5 -- x":                         "--ttl 5: add the unit, such as 5s, 5m or 5h",
		"run j --max -1s -- true":                    "--max is not negative, as -1s is",
		"run j --at-least -1s -- true":               "--at-least is not negative, as -1s is",
		"run j -w NaN -- x":                          "--wait NaN: it takes a length of time, such as 5m or 300s, or a number of seconds up to 1,000,000,000",
		"run j --shared=x -- x":                      "--shared x: it takes true or false",
		"break j --token -1":                         "--token -1: it takes a whole number from 0 on",
		"break j --token 99999999999999999999999999": "--token 99999999999999999999999999: the number is too large",
	} {
		if said, status := executed(strings.Fields(line)); status != statusUsage || said != "holdfast: "+want+"\n" {
			t.Errorf("%s: status %d: %s", line, status, said)
		}
	}
	for name, c := range map[string]struct{ value, want string }{
		"HOLDFAST_SLOTS": {"abc", "HOLDFAST_SLOTS abc: it takes a whole number from 1 to 500"},
		"HOLDFAST_TTL":   {"7", "HOLDFAST_TTL 7: add the unit, such as 7s, 7m or 7h"},
		"HOLDFAST_WAIT":  {"soon", "HOLDFAST_WAIT soon: it takes a length of time"},
		"HOLDFAST_FAIR":  {"ja", "HOLDFAST_FAIR ja: it takes true or false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, c.value)
			if said, status := executed([]string{"run", "j", "--", "true"}); status != statusUsage || !strings.HasPrefix(said, "holdfast: "+c.want) {
				t.Errorf("status %d: %s", status, said)
			}
		})
	}
}

// executed runs a command line in this process, and returns what it said on stderr.
func executed(args []string) (said string, status int) {
	var errs bytes.Buffer
	status = execute(args, strings.NewReader(""), &bytes.Buffer{}, &errs)
	return errs.String(), status
}
