package output

import (
	"os"

	"golang.org/x/term"
)

// Terminal returns the file of a stream that is a terminal, and nil for any other stream.
func Terminal(stream any) *os.File {
	if f, ok := stream.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// widthOf returns the width of a terminal in columns; 0 if it is not known.
func widthOf(terminal *os.File) int {
	width, _, err := term.GetSize(int(terminal.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// progress returns the terminal that shows the progress of the command; nil if none does.
func (p *Printer) progress() *os.File {
	if p.Quiet {
		return nil
	}
	return Terminal(p.Stderr)
}
