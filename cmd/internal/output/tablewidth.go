package output

import (
	"bytes"
	"io"
	"text/tabwriter"
)

// Columns returns the writer for a table in columns.
func Columns(to io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(to, 0, 8, 2, ' ', 0) }

// Table returns the buffer of a table. If stdout is a terminal, lines are cut to its width. Close writes the table to
// stdout.
func (p *Printer) Table() *Table {
	t := &Table{to: p.Stdout}
	if f := Terminal(p.Stdout); f != nil {
		t.Width = widthOf(f)
	}
	return t
}

// Table cuts lines to a width in columns; zero cuts nothing. A line that was cut ends with
// an ellipsis.
type Table struct {
	bytes.Buffer
	to    io.Writer
	Width int
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
	var cut bytes.Buffer
	for line := range bytes.Lines(f.Bytes()) {
		text, ended := bytes.CutSuffix(line, []byte("\n"))
		cut.Write(truncateLine(text, f.Width))
		if ended {
			cut.WriteByte('\n')
		}
	}
	_, err := cut.WriteTo(f.to)
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
