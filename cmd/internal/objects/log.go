package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/cmd/internal/transfer"
	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// entryView is an entry of a log as it is printed with --json. Its fields are stable.
type entryView struct {
	Log      string     `json:"log"`
	Number   uint64     `json:"number"` // 0: the log is empty
	ID       string     `json:"id,omitempty"`
	Modified *time.Time `json:"modified,omitempty"`
	Data     *string    `json:"data,omitempty"`
	Base64   []byte     `json:"data_base64,omitempty"`
}

// trimmedView is what commit-log trim prints with --json. Its fields are stable.
type trimmedView struct {
	Log   string `json:"log"`
	First uint64 `json:"first_number"` // of the entry that is the first one now
}

func viewEntry(log string, e object.LogEntry, body bool) entryView {
	v := entryView{Log: log, Number: e.Number, ID: e.ID, Modified: printable.Time(e.Modified)}
	if text := string(e.Body); body && utf8.ValidString(text) {
		v.Data = &text
	} else if body {
		v.Base64 = e.Body
	}
	return v
}

func (a *access) commitLogCommand() *cobra.Command {
	return cmdline.Group(&cobra.Command{
		Use:        "commit-log",
		SuggestFor: []string{"log"},
		Short:      "Write and read logs of numbered entries",
		GroupID:    cmdline.GroupObjects,
		Long: `Write and read a commit log. A log is a series of numbered entries below the key in the URL.
Entries never change. If several programs append after the same entry, only one succeeds.`,
		Example: `  number=$(holdfast commit-log append s3://bucket/commits commit.json --expect 17)
  holdfast commit-log read s3://bucket/commits --from 17`,
	}, a.logAppend(), a.logRead(), a.logLatest(), a.logTrim())
}

// withLog opens the log of a URL, calls do, and closes it.
func (a *access) withLog(ctx context.Context, raw string, do func(ctx context.Context, l *object.Log, name string) error) error {
	at, err := a.ParseLog(raw, false)
	if err != nil {
		return err
	}
	return a.withLogAt(ctx, at, do)
}

// withLogAt does what withLog does, for a URL that was already taken apart.
func (a *access) withLogAt(ctx context.Context, at *stores.ObjectURL, do func(ctx context.Context, l *object.Log, name string) error) error {
	return a.withBucket(ctx, at, func(ctx context.Context, b stores.Bucket) error {
		l, err := object.OpenLog(b.Client, at.Key, nil)
		if err != nil {
			return err
		}
		return do(ctx, l, urlOf(b, at.Key))
	})
}

func (a *access) logAppend() *cobra.Command {
	var expect uint64
	cmd := &cobra.Command{
		Use:   "append URL FILE",
		Short: "Append an entry, and print its number",
		Long: `Append the content of FILE as an entry, and print the number of the entry. If FILE is "-", append
reads standard input. The first entry has number 1. The first append creates the log.

Give --expect the number of the last entry that you have read, or 0 for an empty log. If another
program has appended a newer entry, the status is 73. Then read the new entries, decide
again, and append again. Without --expect, append always writes after the last entry.

Status 74: the reply of the store was lost. append may have written the entry, or not.`,
		Example: `  holdfast commit-log append s3://bucket/commits commit.json --expect 17
  echo '{"add":"data/7.parquet"}' | holdfast commit-log append file:/srv/table/log -`,
		ValidArgsFunction: cmdline.CompleteAt(objectURLs, 0),
		Args:              cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmdline.EmptyFlag(cmd.Flags(), "expect") {
				return exit.Usagef("--expect is empty: give the number of the last entry, or 0 for an empty log")
			}
			at, err := a.ParseLog(args[0], true)
			if err != nil {
				return err
			}
			// Read the entry first: if it cannot be read, the command makes nothing.
			ctx, stop := cmdline.UntilInterrupted(cmd.Context())
			defer stop()
			body, err := a.entryBody(ctx, args[1])
			if err != nil {
				return cmdline.StoppedBy(ctx, err)
			}
			return a.withLogAt(ctx, at, func(ctx context.Context, l *object.Log, name string) error {
				var e object.LogEntry
				if cmd.Flags().Changed("expect") {
					e, err = l.Append(ctx, expect, body)
					err = notLast(err, name, expect)
				} else {
					e, err = appendLast(ctx, l, body)
				}
				return a.printEntry(name, e, err)
			})
		},
	}
	cmd.Flags().Uint64Var(&expect, "expect", 0, "append only if the last entry has this number; 0: only if the log is empty")
	return cmd
}

// notLast explains why an append after the entry with number expect was refused: that entry
// does not exist yet, or another entry follows it.
func notLast(err error, name string, expect uint64) error {
	var conflict *object.ConflictError
	switch {
	case errors.Is(err, store.ErrInvalid):
		err = fmt.Errorf("%s has no entry %d yet: give --expect the number of the last entry", name, expect)
	case errors.As(err, &conflict) && store.OutcomeOf(err) == store.NotApplied:
		err = fmt.Errorf("%s already has an entry %d: read the new entries, and decide again", name, expect+1)
	default:
		return err
	}
	return exit.With(exit.Condition, err)
}

// entryBody reads the body of the entry to append.
func (a *access) entryBody(ctx context.Context, name string) ([]byte, error) {
	src, err := transfer.OpenSource(ctx, a.Stdin, name, -1)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	body, err := io.ReadAll(io.LimitReader(src, object.MaxEntry+1))
	if err == nil && len(body) > object.MaxEntry {
		err = exit.Usagef("%s is larger than %s: write the content as an object, and append the URL of the object", src.Name, output.Bytes(object.MaxEntry))
	}
	return body, err
}

// appendLast appends after the last entry, whichever that is. Other writers can be faster
// several times; the pauses let them finish.
func appendLast(ctx context.Context, l *object.Log, body []byte) (object.LogEntry, error) {
	for try := 1; ; try++ {
		last, err := l.Latest(ctx)
		if err != nil {
			return object.LogEntry{}, store.MarkNotApplied(err)
		}
		e, err := l.Append(ctx, last.Number, body)
		if !errors.Is(err, store.ErrConflict) || store.OutcomeOf(err) != store.NotApplied {
			return e, err
		}
		if err := backoff.Wait(ctx, try, 10*time.Millisecond, time.Second); err != nil {
			return object.LogEntry{}, store.MarkNotApplied(err)
		}
	}
}

// printEntry prints the number of an entry, or with --json the entry without its body; if there was no error.
func (a *access) printEntry(name string, e object.LogEntry, err error) error {
	if err != nil {
		return err
	}
	return a.Print(viewEntry(name, e, false), e.Number)
}

// followEvery is how often commit-log read --follow looks for new entries.
const followEvery = time.Second

func (a *access) logRead() *cobra.Command {
	var (
		from   uint64
		follow bool
	)
	cmd := &cobra.Command{
		Use:   "read URL",
		Short: "Print the entries of a log",
		Long: `Print the contents of the entries in the order of their numbers. With --json each entry is one
line with its number. On a terminal, read escapes control characters.

If the log does not exist, read prints nothing. If "commit-log trim" has removed the entry of
--from, the status is 73.`,
		Example: `  holdfast commit-log read s3://bucket/commits --from 17
  holdfast commit-log read file:/srv/table/log --follow --json | jq -r .data`,
		ValidArgsFunction: cmdline.CompleteFirst(objectURLs),
		Args:              cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmdline.EmptyFlag(cmd.Flags(), "from") {
				return exit.Usagef("--from is empty: give the number of an entry, or remove the flag to begin with the first entry")
			}
			return a.withLog(cmd.Context(), args[0], func(ctx context.Context, l *object.Log, name string) error {
				for {
					for e, err := range l.Read(ctx, from) {
						if err == nil {
							err = a.printBody(name, e)
						}
						if err != nil {
							return err
						}
						from = e.Number + 1
					}
					if !follow || backoff.Sleep(ctx, followEvery) != nil {
						return nil
					}
				}
			})
		},
	}
	cmd.Flags().Uint64Var(&from, "from", 0, "number of the first entry to print (default: the first entry of the log)")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "after the last entry, wait for new entries and print them, until you interrupt the command")
	return cmd
}

func (a *access) printBody(log string, e object.LogEntry) error {
	if a.JSON {
		return printable.JSON(a.Stdout).Encode(viewEntry(log, e, true))
	}
	if output.Terminal(a.Stdout) != nil {
		for line := range strings.Lines(string(e.Body)) {
			text, end := strings.CutSuffix(line, "\n")
			if text = printable.Text(text); end {
				text += "\n"
			}
			if _, err := io.WriteString(a.Stdout, text); err != nil {
				return err
			}
		}
		return nil
	}
	_, err := a.Stdout.Write(e.Body)
	return err
}

func (a *access) logLatest() *cobra.Command {
	return &cobra.Command{
		Use:               "latest URL",
		Short:             "Print the number of the last entry, or 0 if the log is empty",
		Example:           `  last=$(holdfast commit-log latest s3://bucket/commits)`,
		ValidArgsFunction: cmdline.CompleteFirst(objectURLs),
		Args:              cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withLog(cmd.Context(), args[0], func(ctx context.Context, l *object.Log, name string) error {
				e, err := l.Latest(ctx)
				return a.printEntry(name, e, err)
			})
		},
	}
}

func (a *access) logTrim() *cobra.Command {
	var below uint64
	cmd := &cobra.Command{
		Use:   "trim URL --before N",
		Short: "Remove old entries",
		Long: `Remove the entries before number N. Entry N must exist, and becomes the first entry.

Other programs can append and read during a trim. A program that reads a removed entry gets an
error. If you interrupt trim, the next trim finishes the work.`,
		Example:           `  holdfast commit-log trim s3://bucket/commits --before 1000`,
		ValidArgsFunction: cmdline.CompleteFirst(objectURLs),
		Args:              cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if below == 0 {
				return exit.Usagef("--before N is missing: trim removes all entries before entry N")
			}
			return a.withLog(cmd.Context(), args[0], func(ctx context.Context, l *object.Log, name string) error {
				err := l.Trim(ctx, below)
				if err == nil {
					err = l.Sweep(ctx)
				}
				if err == nil && a.JSON {
					err = a.PrintJSON(trimmedView{name, below})
				}
				return err
			})
		},
	}
	cmd.Flags().Uint64Var(&below, "before", 0, "remove all entries with a lower number than this")
	return cmd
}
