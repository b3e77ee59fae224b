package cmdline

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/holdfast-go/holdfast/cmd/internal/printable"
)

// Interactive reports whether the command can ask a user.
func (a *Invocation) Interactive() bool {
	in, ok := a.Stdin.(*os.File)
	return ok && term.IsTerminal(int(in.Fd()))
}

// Confirmed asks on the terminal. No answer means no.
func (a *Invocation) Confirmed(question string) bool {
	fmt.Fprintf(a.Stderr, "%s [y/N] ", printable.Text(question))
	answer, _ := bufio.NewReader(a.Stdin).ReadString('\n') // an error leaves it empty
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

// Screen returns the file of standard output if it is a terminal that can show pictures.
func (a *Invocation) Screen() (f *os.File, ok bool) {
	f, ok = a.Stdout.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}
