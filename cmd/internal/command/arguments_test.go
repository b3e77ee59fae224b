package command

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
)

// TestWrongNumberOfArguments: every command with too few or too many arguments shows its usage line. That
// line names as many arguments as the command takes.
func TestWrongNumberOfArguments(t *testing.T) {
	asked := 0
	everyCommand(func(cmd *cobra.Command) {
		names, needed := argumentsOf(cmd.Use)
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
		}
	})
	if asked < 30 {
		t.Errorf("%d commands were asked, want at least 30", asked)
	}
}

// argumentsOf returns the names of the arguments in a usage line such as
// "get URL [FILE] --flag VALUE [--other]", and how many of them are needed.
func argumentsOf(use string) (names []string, needed int) {
	words := strings.Fields(use)[1:]
	for i := 0; i < len(words); i++ {
		switch word := words[i]; {
		case strings.HasPrefix(word, "--"):
			i++ // its value
		case strings.HasPrefix(word, "[-"):
			for ; i < len(words) && !strings.HasSuffix(words[i], "]"); i++ {
				continue
			}
		case strings.HasPrefix(word, "["):
			names = append(names, strings.Trim(word, "[]"))
		default:
			names = append(names, word)
			needed++
		}
	}
	return names, needed
}
