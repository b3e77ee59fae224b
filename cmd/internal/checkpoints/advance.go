package checkpoints

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/compat/resumekey"
)

// positionFlags are the values that a user can save together with a sequence.
type positionFlags struct {
	event, data string
}

func (p *positionFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.event, "event", "", "name of the event at this position")
	cmd.Flags().StringVar(&p.data, "data", "", "JSON data of the checkpoint")
}

// position returns the position with a sequence that a user gave.
func (p *positionFlags) position(text string) (checkpoint.Position, error) {
	sequence, err := parseSequence(text)
	pos := checkpoint.Position{Sequence: sequence, EventID: p.event}
	if err == nil && p.data != "" {
		if !json.Valid([]byte(p.data)) {
			return pos, exit.Usagef("--data is not JSON: %.60q", p.data)
		}
		pos.Data = []byte(p.data)
	}
	return pos, err
}

func (a *access) checkpointAdvance(f *checkpointFlags) *cobra.Command {
	p := &positionFlags{}
	opts := &checkpoint.AdvanceOptions{}
	cmd := &cobra.Command{
		Use:   "advance KEY SEQUENCE|-",
		Short: "Move a checkpoint forward",
		Long: `Move a checkpoint forward, and print the sequence that is saved now. If a higher sequence was
already saved, the status is 73. If the checkpoint carries a higher token than --fence, the status
is 76.

If SEQUENCE is "-", advance reads lines from standard input. Each line has a sequence, and
optionally a blank and the name of an event. advance saves the highest sequence that it has
read. While a write runs, advance reads more lines, and saves their highest sequence with the
next write. At the end of the input, advance saves the highest sequence that it
has read.`,
		Example: `  holdfast checkpoint advance orders 17 --event orders@17
  holdfast run ingest -- sh -c 'holdfast checkpoint advance orders 18 --fence $HOLDFAST_TOKEN'
  follow-orders | holdfast checkpoint advance orders -`,
		ValidArgsFunction: a.completeKey(f),
		Args:              cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[1] == "-" {
				if p.event != "" || p.data != "" {
					return exit.Usagef("--event and --data need one SEQUENCE; remove them to read sequences from standard input")
				}
				return a.withCheckpoints(cmd.Context(), f, func(ctx context.Context, k checkpoint.Store) error {
					return a.advanceStream(ctx, k, args[0], opts)
				})
			}
			to, err := p.position(args[1])
			if err != nil {
				return err
			}
			return a.withCheckpoints(cmd.Context(), f, func(ctx context.Context, k checkpoint.Store) error {
				return a.advance(ctx, k, args[0], to, opts)
			})
		},
	}
	p.add(cmd)
	f.addHistory(cmd)
	cmd.Flags().Uint64Var(&opts.Token, "fence", 0, "fencing token of your grant; if the checkpoint carries a higher token, the status is 76")
	cmd.Flags().BoolVar(&opts.Force, "force", false, "save without --fence, even if the checkpoint carries a token")
	cmd.Flags().Uint64Var(&opts.Epoch, "epoch", 0, "save only if the checkpoint has this epoch; \"checkpoint get --json\" prints the epoch")
	return cmd
}

func (a *access) advance(ctx context.Context, k checkpoint.Store, key string, to checkpoint.Position, opts *checkpoint.AdvanceOptions) error {
	r, refused := k.Advance(ctx, key, to, opts)
	if r.Status == 0 {
		return refused
	}
	if err := a.printCheckpoint(r.Current, r.Status.String(), nil); err != nil {
		return err
	}
	if err := notSaved(r, opts.Token); err != nil {
		return fmt.Errorf("checkpoint %q was not moved to %d, and has the sequence %d: %w", key, to.Sequence, r.Current.Sequence, err)
	}
	return nil
}

// errBehind says that a higher sequence is saved. For a program that is good enough. A
// person who named a lower sequence asked for a condition that did not hold.
var errBehind = errors.New("a higher sequence is saved")

// notSaved returns why an Advance did not save the position that it was given, or nil.
func notSaved(r checkpoint.Result, token uint64) error {
	if r.Status == checkpoint.Behind {
		return exit.With(exit.Condition, errBehind)
	}
	return r.Err(token)
}

// advanceStream saves the positions that come from stdin. Reading never waits for saving:
// the next write saves the positions that come in between.
func (a *access) advanceStream(ctx context.Context, k checkpoint.Store, key string, opts *checkpoint.AdvanceOptions) error {
	unsaved := make(chan checkpoint.Position, 1) // the highest position, until it is being saved
	var unread error
	go func() {
		defer close(unsaved)
		unread = readPositions(a.Stdin, func(to checkpoint.Position) {
			select {
			case <-unsaved: // a lower one
			default:
			}
			unsaved <- to
		})
	}()
	var last *checkpoint.Result
	for to := range unsaved {
		r, err := k.Advance(ctx, key, to, opts)
		if err == nil {
			err = notSaved(r, opts.Token)
		}
		if err != nil {
			return fmt.Errorf("checkpoint %q: sequence %d was not saved: %w", key, to.Sequence, err)
		}
		last = &r
	}
	if last != nil {
		if err := a.printCheckpoint(last.Current, last.Status.String(), nil); err != nil {
			return err
		}
	}
	return unread
}

// readPositions calls higher with each position that is higher than those of the lines before.
func readPositions(in io.Reader, higher func(checkpoint.Position)) (err error) {
	lines := bufio.NewScanner(in)
	var latest checkpoint.Position
	none, n := true, 0
	for err == nil && lines.Scan() {
		n++
		line, event := strings.TrimSpace(lines.Text()), ""
		if line == "" {
			continue
		}
		if i := strings.IndexAny(line, " \t"); i >= 0 {
			line, event = line[:i], strings.TrimSpace(line[i:])
		}
		to := checkpoint.Position{EventID: event}
		switch to.Sequence, err = parseSequence(line); {
		case err != nil:
		case none || to.Sequence > latest.Sequence:
			latest, none = to, false
			higher(to)
		case to.Sequence == latest.Sequence && !latest.Matches(to):
			err = fmt.Errorf("%w: two lines have the sequence %d, with the events %q and %q", checkpoint.ErrMismatch, to.Sequence, latest.EventID, event)
		}
	}
	if err == nil {
		n, err = n+1, lines.Err()
	}
	if errors.Is(err, bufio.ErrTooLong) {
		err = exit.Usagef("the line is longer than %d bytes", bufio.MaxScanTokenSize)
	}
	if err != nil {
		err = fmt.Errorf("line %d: %w", n, err)
	}
	return err
}

func (a *access) checkpointExport(f *checkpointFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "export [PREFIX]",
		Short:   "Print all checkpoints as JSON for checkpoint import",
		Example: `  holdfast checkpoint export > checkpoints.json`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withCheckpoints(cmd.Context(), f, func(ctx context.Context, k checkpoint.Store) error {
				views, err := a.checkpoints(ctx, k, args)
				if err != nil {
					return err // export prints all checkpoints, or nothing
				}
				return a.PrintJSON(views)
			})
		},
	}
}

func (a *access) checkpointImport(f *checkpointFlags) *cobra.Command {
	opts := &checkpoint.AdvanceOptions{}
	cmd := &cobra.Command{
		Use:   "import FILE|-",
		Short: "Import exported checkpoints; no position moves back",
		Long: `Read the output of one or several "checkpoint export", and move each checkpoint forward to the
sequence in that output. If the present sequence is higher, import does not change the checkpoint,
and prints a note. import ignores tokens and epochs, because they are valid only in the old store.`,
		Example: `  holdfast checkpoint --file state.json export > checkpoints.json
  holdfast checkpoint import checkpoints.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			views, err := a.readExport(args[0], maxExport)
			if err != nil {
				return err
			}
			return a.withCheckpoints(cmd.Context(), f, func(ctx context.Context, k checkpoint.Store) error {
				return a.importAll(ctx, k, views, opts)
			})
		},
	}
	cmd.Flags().BoolVar(&opts.Force, "force", false, "import without tokens, even if a checkpoint carries a token")
	return cmd
}

// maxExport is how much of an export is read at most, in bytes.
const maxExport = 256 << 20

func (a *access) readExport(path string, limit int64) ([]checkpointView, error) {
	in := a.Stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, exit.With(exit.NotFound, err)
		}
		defer file.Close()
		in = file
	}
	bounded := &io.LimitedReader{R: in, N: limit + 1}
	dec := json.NewDecoder(bounded)
	dec.DisallowUnknownFields()
	var all []checkpointView
	for n := 0; ; n++ { // exports, one after another
		var views []checkpointView
		err := dec.Decode(&views)
		switch {
		case bounded.N == 0:
			return nil, exit.Usagef("%s is larger than %d bytes: export and import it in parts", path, limit)
		case errors.Is(err, io.EOF) && n > 0:
			return all, nil
		case err == nil && views == nil:
			err = errors.New("null is not a list")
		case err == nil && slices.ContainsFunc(views, func(v checkpointView) bool { return v.Key == "" || !v.Exists }):
			err = errors.New("a checkpoint has no key, or does not exist")
		}
		if err != nil {
			return nil, exit.Usagef("%s is not an export of checkpoints: %w", path, err)
		}
		all = append(all, views...)
	}
}

func (a *access) importAll(ctx context.Context, k checkpoint.Store, views []checkpointView, opts *checkpoint.AdvanceOptions) error {
	var behind, advanced, unchanged int
	var failed error
	progress := a.Progress()
	defer progress("")
	for i, v := range views {
		progress(fmt.Sprintf("%d of %d", i, len(views)))
		r, err := k.Advance(ctx, v.Key, v.position(), opts)
		if r.Status == 0 {
			failed = fmt.Errorf("checkpoint %q: %w", v.Key, err)
			if i == 0 {
				return failed
			}
			break
		}
		switch r.Status {
		case checkpoint.Advanced:
			advanced++
		case checkpoint.Unchanged:
			unchanged++
		default:
			behind++
			progress("")
			a.Notef("checkpoint %q was not changed, and has the sequence %d: %v", v.Key, r.Current.Sequence, r.Status)
		}
	}
	progress("")
	result := map[string]int{"advanced": advanced, "unchanged": unchanged, "behind": behind}
	if err := a.PrintOrNote(result, "%d checkpoints were moved forward; %d needed no change", advanced, unchanged); err != nil {
		return err
	}
	if failed == nil && behind > 0 {
		failed = exit.With(exit.Condition, fmt.Errorf("%d checkpoints were not imported", behind))
	}
	return failed
}

func (a *access) resumeKeyCommand() *cobra.Command {
	var (
		fingerprint string
		opts        resumekey.Options
	)
	cmd := &cobra.Command{
		Use:     "resume-key URL EVENT FILTER-JSON",
		Short:   "Print the checkpoint key of an aviso consumer",
		Example: `  holdfast checkpoint resume-key https://aviso.example.org mars '{"class":"od"}'`,
		Args:    cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("fingerprint") {
				opts.Fingerprint = &fingerprint
			}
			key, err := resumekey.Key(args[0], args[1], []byte(args[2]), &opts)
			if err != nil {
				return exit.With(exit.Usage, err)
			}
			return a.Print(map[string]string{"key": key}, key)
		},
	}
	cmd.Flags().StringVar(&fingerprint, "fingerprint", "", "fingerprint of the event's schema")
	cmd.Flags().BoolVar(&opts.Bare, "exact-path", false, "do not add a slash to the path of the URL; by default resume-key adds one, because the consumer does so")
	return cmd
}
