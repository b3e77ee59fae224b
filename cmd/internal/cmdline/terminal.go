package cmdline

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
)

// Interactive reports whether the command can ask a user.
func (a *Invocation) Interactive() bool {
	return output.Terminal(a.Stdin) != nil
}

// Confirm asks on the terminal. No answer means no: then Confirm returns an error that says what was not done.
func (a *Invocation) Confirm(question, notDone string) error {
	fmt.Fprintf(a.Stderr, "%s [y/N] ", printable.Text(question))
	answer, _ := bufio.NewReader(a.Stdin).ReadString('\n') // an error leaves it empty
	answer = strings.ToLower(strings.TrimSpace(answer))
	if answer == "y" || answer == "yes" {
		return nil
	}
	return exit.With(exit.Failed, errors.New(notDone))
}

// Screen returns the file of standard output if it is a terminal that can show pictures.
func (a *Invocation) Screen() (f *os.File, ok bool) {
	f = output.Terminal(a.Stdout)
	return f, f != nil && os.Getenv("TERM") != "dumb"
}
