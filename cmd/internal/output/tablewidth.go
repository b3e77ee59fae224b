package output

import (
	"bytes"
	"io"
	"os"

	"golang.org/x/term"
)

// Table returns the writer for a table: stdout. If stdout is a terminal, lines are cut to
// its width. Close writes an unfinished last line.
func (p *Printer) Table() *Table {
	f, ok := p.Stdout.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return &Table{to: p.Stdout}
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		width = 0
	}
	return &Table{to: p.Stdout, Width: width}
}

// Table cuts lines to a width in columns; zero cuts nothing. A line that was cut ends with
// an ellipsis.
type Table struct {
	to    io.Writer
	Width int
	line  []byte
}

func (f *Table) Write(p []byte) (int, error) {
	f.line = append(f.line, p...)
	for {
		end := bytes.IndexByte(f.line, '\n')
		if end < 0 {
			return len(p), nil
		}
		if _, err := f.to.Write(append(truncateLine(f.line[:end], f.Width), '\n')); err != nil {
			return 0, err
		}
		f.line = f.line[end+1:]
	}
}

// Name cuts a name to a third of the width: a long one must not push the other columns
// out of the terminal.
func (f *Table) Name(text string) string {
	if f.Width <= 0 {
		return text
	}
	return string(truncateLine([]byte(text), max(f.Width/3, 16)))
}

func (f *Table) Close() error {
	if len(f.line) == 0 {
		return nil
	}
	_, err := f.to.Write(truncateLine(f.line, f.Width))
	return err
}

// truncateLine returns a line that is at most width columns wide. A letter from U+1100 on counts for two
// columns, which it has at most.
func truncateLine(line []byte, width int) []byte {
	line = bytes.TrimRight(line, " ")
	used, end := 0, 0 // end is where the ellipsis fits
	for i, r := range string(line) {
		if used < width {
			end = i
		}
		if used++; r >= 0x1100 {
			used++
		}
	}
	if width <= 0 || used <= width {
		return bytes.Clone(line)
	}
	return append(bytes.Clone(line[:end]), "…"...)
}
