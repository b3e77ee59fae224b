// Package output prints results, messages and progress for people and as JSON.
package output

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/printable"
)

// Printer prints the results and messages of one invocation of the command.
type Printer struct {
	Stdout, Stderr io.Writer
	JSON           bool // results and messages are JSON
	Quiet          bool // only results and errors are printed
	NoBars         bool // several transfers run at once, none of which has a bar of its own
	Wait           Wait

	queue *Queue // of the messages
	err   error  // the first error of Printf
}

// maxMessages is how many messages wait for a reader of stderr. The oldest ones are left out then.
const maxMessages = 1000

// QueueMessages makes messages wait for the reader of stderr, and not the goroutines that have these messages.
// Otherwise a command that must act on the loss of its lock could not act while a pipe is full.
func (p *Printer) QueueMessages() {
	p.queue = NewQueue(p.Stderr, maxMessages)
	p.queue.leave = true // there is no other place for a message
}

// Messages returns what messages are written to: stderr, or the queue for it.
func (p *Printer) Messages() io.Writer {
	if p.queue != nil {
		return p.queue
	}
	return p.Stderr
}

// FlushMessages waits, for a time at most, until stderr has the messages that wait.
func (p *Printer) FlushMessages(within time.Duration) {
	if p.queue != nil {
		_ = p.queue.Flush(within)
	}
}

// Problem is a message on stderr in the form of --json: one object on one line. Its fields
// are stable.
type Problem struct {
	Level   string `json:"level"` // note or error; an error is the last message
	Message string `json:"message"`
	Status  int    `json:"status,omitempty"` // only of an error: the exit status
	Kind    string `json:"kind,omitempty"`   // the meaning of the status
	Lock    string `json:"lock,omitempty"`   // only if a lock is busy: its name, and who holds it
	Store   string `json:"store,omitempty"`
	Holder  string `json:"holder,omitempty"`
	Token   uint64 `json:"token,omitempty"`

	Since *time.Time `json:"since,omitempty"` // of a busy lock with one holder, by the clock of that holder
	Hints []string   `json:"hints,omitempty"` // what the reader can do
}

// Report writes a message to stderr. All messages go through it, so that no text of others
// can control a terminal or forge a line of a log.
func (p *Printer) Report(m Problem) {
	p.Wait.mu.Lock()
	defer p.Wait.mu.Unlock()
	p.Wait.clear(p.Messages())
	if p.JSON {
		_ = printable.JSON(p.Messages()).Encode(m) // there is no other place for the message
		return
	}
	text := "holdfast: " + printable.Text(m.Message) + "\n"
	for _, hint := range m.Hints {
		text += "  " + printable.Text(hint) + "\n"
	}
	_, _ = io.WriteString(p.Messages(), text) // at once: other processes write to stderr, too
}

// Notef writes a message for people. --quiet hides it.
func (p *Printer) Notef(format string, args ...any) {
	if !p.Quiet {
		p.Warnf(format, args...)
	}
}

// Warnf writes a message that people must not miss. --quiet does not hide it.
func (p *Printer) Warnf(format string, args ...any) {
	p.Report(Problem{Level: "note", Message: fmt.Sprintf(format, args...)})
}

// PrintJSON writes a result to stdout.
func (p *Printer) PrintJSON(v any) error {
	enc := printable.JSON(p.Stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// PrintIfJSON writes a result that only programs read to stdout. Without --json it writes nothing.
func (p *Printer) PrintIfJSON(v any) error {
	if p.JSON {
		return p.PrintJSON(v)
	}
	return nil
}

// Print writes a result to stdout: v with --json, otherwise a line of text.
func (p *Printer) Print(v, text any) error {
	if p.JSON {
		return p.PrintJSON(v)
	}
	_, err := fmt.Fprintln(p.Stdout, text)
	return err
}

// PrintLine is Print for one of several results: v also takes one line.
func (p *Printer) PrintLine(v, text any) error {
	if p.JSON {
		return printable.JSON(p.Stdout).Encode(v)
	}
	_, err := fmt.Fprintln(p.Stdout, text)
	return err
}

// Printf writes a line of a result to stdout while the command works. Err returns the first error.
func (p *Printer) Printf(format string, args ...any) {
	_, err := fmt.Fprintf(p.Stdout, format, args...)
	p.err = cmp.Or(p.err, err)
}

// Err returns the first error of Printf. The command has this error too.
func (p *Printer) Err() error { return p.err }

// PrintOrNote writes v to stdout with --json, and otherwise a note to stderr.
func (p *Printer) PrintOrNote(v any, format string, args ...any) error {
	if !p.JSON {
		p.Notef(format, args...)
	}
	return p.PrintIfJSON(v)
}
