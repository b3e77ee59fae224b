package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
)

// TestMissingArguments: every command with too few arguments names those that are missing,
// and shows its usage line. That line names as many arguments as the command takes.
func TestMissingArguments(t *testing.T) {
	asked := 0
	everyCommand(func(cmd *cobra.Command) {
		names, needed := cmdline.ArgumentsOf(cmd.Use)
		if cmd.Args == nil || !cmd.Runnable() || cmd.Hidden || cmd.HasSubCommands() || cmd.Name() == "help" || strings.Contains(cmd.CommandPath(), " completion") {
			return
		}
		asked++
		for n := range len(names) + 3 {
			err := cmd.Args(cmd, make([]string, n))
			switch {
			case n >= needed && n <= len(names):
				if err != nil {
					t.Errorf("%s: %d arguments: %v", cmd.CommandPath(), n, err)
				}
				continue
			case !errors.As(err, new(*exit.Error)) || exit.Status(err) != exit.Usage || !strings.HasSuffix(err.Error(), ": "+cmd.UseLine()):
				t.Errorf("%s: %d arguments: %v", cmd.CommandPath(), n, err)
				continue
			}
			said, _, _ := strings.Cut(err.Error(), ":")
			for i, name := range names[:needed] {
				if missing := i >= n; n < needed && strings.Contains(" "+strings.ReplaceAll(said, ",", "")+" ", " "+name+" ") != missing && strings.Count(cmd.Use, name) == 1 {
					t.Errorf("%s: %d arguments: %q does not tell what is missing", cmd.CommandPath(), n, said)
				}
			}
		}
	})
	if asked < 30 {
		t.Errorf("%d commands were asked, want at least 30", asked)
	}
}
