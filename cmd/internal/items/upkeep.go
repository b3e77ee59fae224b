package items

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/items/largeitem"
)

// paceFlags are the flags of the commands that read a whole table or bucket.
type paceFlags struct {
	attrs    []string
	parallel int
	rate     int
	resume   string
	with     string // the flags that decide what is checked: with other flags, a progress is not of this command
}

func (p *paceFlags) add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&p.attrs, "attr", nil, "check only large attributes with this `NAME`; repeat the flag for more")
	p.parallel = largeitem.DefaultSweepParallel
	flags.Var(cmdline.Whole(&p.parallel, 1, largeitem.MaxParallel), "parallel", "maximum number of requests at the same time, 1 to 64")
	flags.Var(cmdline.Whole(&p.rate, 0, math.MaxInt32), "rate", "maximum number of requests per second (default: no limit)")
	flags.StringVar(&p.resume, "progress-file", "", "save the progress in `FILE`; after an interruption, the same command continues from there (a complete run removes FILE)")
}

func (p *paceFlags) check(flags *pflag.FlagSet) error {
	if cmdline.EmptyFlag(flags, "progress-file") {
		return exit.Usagef("--progress-file is empty: name a file")
	}
	if slices.Contains(p.attrs, "") {
		return exit.Usagef("--attr is empty: name a large attribute")
	}
	for _, name := range []string{"quick", "attr", "layout", "reference-base"} {
		if flag := flags.Lookup(name); flag != nil && flag.Value.String() != flag.DefValue {
			p.with += fmt.Sprintf(" with --%s=%s", name, flag.Value)
		}
	}
	return nil
}

// file returns the progress file of a sweep or a verification.
func (p *paceFlags) file(what string, s items, f *itemFlags) progressFile {
	bare, _, _ := strings.Cut(f.bucket, "?")
	return progressFile{p.resume, fmt.Sprintf("%s of %s for %s%s", what, bare, s.schema.ID, p.with)}
}

// progressFile remembers how far a long command has come. Its zero value remembers nothing.
type progressFile struct {
	name string
	of   string // what the progress is of: another one is refused
}

// progress is the content of a [progressFile].
type progress struct {
	Of string `json:"of"`
	At string `json:"at"`
}

// maxProgress is the largest progress file that is read, in bytes.
const maxProgress = 64 << 10

// read returns where to continue; the beginning if there is no file.
func (p progressFile) read() (string, error) {
	if p.name == "" {
		return "", nil
	}
	bad := exit.Usagef("%s is not a progress file: name another file, or remove this file", p.name)
	info, err := os.Stat(p.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	case !info.Mode().IsRegular(): // a pipe is not even opened
		return "", bad
	}
	f, err := os.Open(p.name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxProgress+1))
	if err != nil {
		return "", err
	}
	var at progress
	if err := json.Unmarshal(text, &at); err != nil || len(text) > maxProgress {
		return "", bad
	}
	if at.Of != p.of {
		return "", exit.Usagef("%s contains the progress of %s, not of %s: name another file, or remove this file", p.name, printable.Text(at.Of), p.of)
	}
	return at.At, nil
}

// write remembers where to continue. The file has a name.
func (p progressFile) write(at string) error {
	text, err := json.Marshal(progress{p.of, at})
	if err != nil {
		return err
	}
	dir, err := safefile.OpenAnyDir(filepath.Dir(p.name))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Replace(filepath.Base(p.name), ".holdfast-resume-", 0o600, text)
}

// done removes the file.
func (p progressFile) done() error {
	if p.name == "" {
		return nil
	}
	if err := os.Remove(p.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sweptItemsView is what item sweep has done. Its fields are stable.
type sweptItemsView struct {
	DryRun       bool     `json:"dry_run"`
	Complete     bool     `json:"complete"`
	Seen         int64    `json:"scanned"`
	Bytes        int64    `json:"bytes"`
	Removed      int64    `json:"removed"` // with dry_run: would be removed
	RemovedBytes int64    `json:"removed_bytes"`
	Referenced   int64    `json:"referenced"`        // of those that are older than the orphan age
	Young        int64    `json:"too_recent"`        // younger than the orphan age
	NotOwned     int64    `json:"not_owned"`         // their names do not say that they are this table's
	AgeUnknown   int64    `json:"age_unknown"`       // the bucket does not say their age
	Unreadable   int64    `json:"unreadable"`        // their item has something else than a reference there
	Shared       int64    `json:"content_addressed"` // named by their content alone
	Skipped      int64    `json:"skipped"`           // not examined, or changed meanwhile
	Failed       int64    `json:"failed"`
	Failures     []string `json:"failures"` // the first ones
	Uploads      int      `json:"uploads"`  // unfinished ones that were removed
	Seconds      float64  `json:"seconds"`
}

func (a *access) itemSweep() *cobra.Command {
	f := &itemFlags{}
	p := &paceFlags{}
	o := &largeitem.SweepOptions{}
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Remove objects that no item refers to",
		Long: `Remove objects of large attributes, if no item of the table refers to them. sweep prints their
keys. Other programs may read and write during a sweep.

The name of an object contains the key of an item. sweep removes an object if it is older than
--orphan-age by the bucket's clock, and if two reads of its item find no reference to it. sweep
refuses an --orphan-age that is shorter than the orphan age of the table (see "item init").

With --layout pynamodb_mate or --scan, sweep reads the table once, and stores the references in
temporary files (TMPDIR). A program with pynamodb_mate can use an old object again. So sweep
removes objects of that layout only in a bucket with versions, or with --no-other-writers.`,
		Example: `  holdfast item sweep --dry-run
  holdfast item sweep --orphan-age 48h --rate 200 --progress-file /var/tmp/pages.sweep`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := p.check(cmd.Flags()); err != nil {
				return err
			}
			if o.Limit < 0 {
				return exit.Usagef("--limit must be at least 1")
			}
			if p.resume != "" && (o.Scan || f.layout == layoutMate) {
				return exit.Usagef("--scan and --layout pynamodb_mate cannot continue an interrupted sweep: remove --progress-file")
			}
			if o.Exclusive && f.layout != layoutMate {
				return exit.Usagef("--no-other-writers needs --layout %s: programs of the other layout never use old objects again", layoutMate)
			}
			o.Attributes, o.Parallel, o.Rate = p.attrs, p.parallel, p.rate
			return a.withItems(cmd, f, false, func(ctx context.Context, s items) error { return a.sweepItems(ctx, s, f, p, o) })
		},
	}
	f.add(cmd)
	p.add(cmd.Flags())
	flags := cmd.Flags()
	flags.BoolVar(&o.DryRun, "dry-run", false, "print what would be removed, and remove nothing")
	flags.BoolVar(&o.Scan, "scan", false, "read the whole table first, and also keep objects to which other items refer by a copied reference")
	flags.BoolVar(&o.Exclusive, "no-other-writers", false, "with --layout pynamodb_mate: promise that no program writes with pynamodb_mate during the sweep")
	flags.BoolVar(&o.Uploads, "uploads", false, "also remove the parts of interrupted uploads below the prefix")
	flags.Int64Var(&o.Limit, "limit", 0, "maximum number of objects to remove (default: no limit)")
	return cmd
}

func (a *access) sweepItems(ctx context.Context, s items, f *itemFlags, p *paceFlags, o *largeitem.SweepOptions) error {
	file := p.file("a sweep", s, f)
	var err error
	if o.After, err = file.read(); err != nil {
		return err
	}
	if p.resume != "" && !o.DryRun {
		o.Checkpoint = file.write
	}
	bar := a.Counter("objects")
	o.Progress = func(w largeitem.SweepStats) { bar.Set(w.Seen) }
	o.Report = func(x largeitem.Orphan, err error) {
		if err == nil && !a.JSON {
			bar.Clear()
			a.Printf("%s\n", printable.Text(x.Object))
		}
	}
	w, err := s.Sweep(ctx, o)
	bar.End()
	if err != nil && w.Seen == 0 {
		return err // it was refused, or could not begin
	}
	if w.Complete && err == nil && !o.DryRun {
		err = file.done()
	}
	v := sweptItemsView{
		DryRun: o.DryRun, Complete: w.Complete, Seen: w.Seen, Bytes: w.Bytes, Removed: w.Deleted, RemovedBytes: w.DeletedBytes,
		Referenced: w.Referenced, Young: w.TooYoung, NotOwned: w.Foreign, AgeUnknown: w.Undated, Unreadable: w.Unreadable, Shared: w.Shared, Skipped: w.NotReached + w.ChangedMeanwhile,
		Failed: w.Failed, Failures: []string{}, Uploads: w.Uploads.Removed, Seconds: w.Elapsed.Seconds(),
	}
	for _, x := range w.Failures {
		v.Failures = append(v.Failures, x.Object+": "+output.OneLine(x.Err))
		a.Warnf("%s: %s", x.Object, output.OneLine(x.Err))
	}
	if a.JSON {
		return errors.Join(a.PrintJSON(v), err)
	}
	kept := fmt.Sprintf("%d younger than the orphan age, %d older and referenced", v.Young, v.Referenced)
	for _, k := range []struct {
		n   int64
		why string
	}{
		{v.NotOwned, "that may belong to another table"}, {v.AgeUnknown, "of unknown age"},
		{v.Unreadable, "with an item that has another value instead of the reference"}, {v.Shared, "named by their content (see --no-other-writers)"},
		{v.Skipped, "not checked, or changed during the sweep"}, {v.Failed, "failed"},
	} {
		if k.n > 0 {
			kept += fmt.Sprintf(", %d %s", k.n, k.why)
		}
	}
	a.Notef("%d of %d objects (%s of %s) %s; kept: %s", v.Removed, v.Seen, output.Bytes(v.RemovedBytes), output.Bytes(v.Bytes), output.Done(o.DryRun, "removed"), kept)
	return err
}

// verifiedView is what item verify has found. Its fields are stable.
type verifiedView struct {
	Complete   bool          `json:"complete"`
	Items      int64         `json:"items"`
	References int64         `json:"references"`
	Bytes      int64         `json:"bytes"`
	Changed    int64         `json:"changed"` // replaced or removed meanwhile
	Missing    int64         `json:"missing"`
	Damaged    int64         `json:"damaged"`
	Foreign    int64         `json:"foreign"`
	Unreadable int64         `json:"unreadable"`
	Problems   []problemView `json:"problems"` // the first ones
	Seconds    float64       `json:"seconds"`
}

type problemView struct {
	Kind  string          `json:"kind"` // missing, damaged, foreign or unreadable
	Key   json.RawMessage `json:"key"`
	Attr  string          `json:"attr"`
	URI   string          `json:"uri,omitempty"`
	Error string          `json:"error"`
}

func viewProblem(p largeitem.Problem) problemView {
	v := problemView{Kind: string(p.Kind), Attr: p.Attr, URI: p.URI, Error: output.OneLine(p.Err)}
	v.Key, _ = p.Key.MarshalText() // a key of the table
	return v
}

func (a *access) itemVerify() *cobra.Command {
	f := &itemFlags{}
	p := &paceFlags{}
	o := &largeitem.VerifyOptions{}
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Read every large attribute, and check its size and hash",
		Long: `Read the whole table and the object of every reference, and check sizes and hashes. verify
changes nothing. Other programs may read and write at the same time.

verify checks each problem twice before it prints a line. The line has the kind (missing, damaged,
foreign or unreadable), the key, the attribute and the reason, separated by tabs. If there is a
problem, the status is 78.`,
		Example: `  holdfast item verify
  holdfast item verify --quick --attr html`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := p.check(cmd.Flags()); err != nil {
				return err
			}
			o.Attributes, o.Parallel, o.Rate = p.attrs, p.parallel, p.rate
			return a.withItems(cmd, f, false, func(ctx context.Context, s items) error { return a.verifyItems(ctx, s, f, p, o) })
		},
	}
	f.add(cmd)
	p.add(cmd.Flags())
	cmd.Flags().BoolVar(&o.Quick, "quick", false, "check only that each object exists and has the right size")
	return cmd
}

func (a *access) verifyItems(ctx context.Context, s items, f *itemFlags, p *paceFlags, o *largeitem.VerifyOptions) error {
	file := p.file("a verification", s, f)
	var err error
	if o.After, err = file.read(); err != nil {
		return err
	}
	if p.resume != "" {
		o.Checkpoint = file.write
	}
	bar := a.Counter("references")
	o.Progress = func(w largeitem.VerifyStats) { bar.Set(w.References) }
	o.Report = func(x largeitem.Problem) {
		if v := viewProblem(x); !a.JSON {
			bar.Clear()
			a.Printf("%s\t%s\t%s\t%s\n", v.Kind, printable.Text(string(v.Key)), printable.Text(v.Attr), printable.Text(v.Error))
		}
	}
	w, err := s.Verify(ctx, o)
	bar.End()
	if w.Complete {
		err = errors.Join(err, file.done())
	}
	v := verifiedView{
		Complete: w.Complete, Items: w.Items, References: w.References, Bytes: w.Bytes, Changed: w.Moved,
		Missing: w.Missing, Damaged: w.Damaged, Foreign: w.Foreign, Unreadable: w.Unreadable, Problems: []problemView{}, Seconds: w.Elapsed.Seconds(),
	}
	for _, x := range w.Problems {
		v.Problems = append(v.Problems, viewProblem(x))
	}
	if a.JSON {
		err = errors.Join(a.PrintJSON(v), err)
	}
	bad := v.Missing + v.Damaged + v.Foreign + v.Unreadable
	if bad > 0 && w.Complete {
		return exit.With(exit.Unsafe, fmt.Errorf("%d of %d references of %d items have a problem", bad, v.References, v.Items))
	}
	if err == nil && len(p.attrs) > 0 && v.References == 0 && v.Items > 0 && o.After == "" {
		return exit.With(exit.NotFound, fmt.Errorf("none of %d items has a large attribute %s", v.Items, strings.Join(p.attrs, " or ")))
	}
	if err == nil && !a.JSON {
		a.Notef("%d references of %d items have no problem (%s)", v.References, v.Items, output.Bytes(v.Bytes))
	}
	return err
}
