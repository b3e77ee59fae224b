package items

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/cmd/internal/transfer"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/store"
)

func (a *access) itemPut() *cobra.Command {
	f := &itemFlags{}
	w := &putFlags{}
	cmd := &cobra.Command{
		Use:   "put KEY",
		Short: "Create or change an item, with large attributes from files",
		Long: `Create or change an item. --attr sets large attributes, and --set sets other attributes. put keeps
attributes that you do not name. With --replace, put removes these attributes. For each large
attribute, put prints the reference, and whether put has uploaded the content.

If the item exists, --if-absent ends with status 73. If the item does not exist, --if-exists ends
with status 66. Status 74: the reply of the store was lost. put may have written the item, or not.
Look with "item get".

put does not upload unchanged content again, unless you give --repair. put keeps the old object of
a changed attribute, because other programs may read this object. "item sweep" removes old objects
later. --remove-superseded removes them at once.`,
		Example: `  holdfast item put example.org --attr html=@page.html --set '{"status":200}'
  curl -s https://example.org | holdfast item put example.org --attr html=@- --content-type html=text/html
  holdfast item put user-7/2026 --attr photo=@cat.jpg --remove draft --if-exists`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.itemsWrite(cmd, f, w, args[0]) },
	}
	f.add(cmd)
	f.writes(cmd.Flags())
	w.add(cmd.Flags())
	return cmd
}

// putFlags are the flags of put.
type putFlags struct {
	attrs, remove                []string
	described                    map[string]*[]string // the values of the flags in descriptions
	set                          string
	typed, repair                bool
	ifAbsent, ifExists, replaces bool
}

// descriptions are the flags that say more of a large attribute. Each value of a keyed one has a key.
var descriptions = []struct {
	flag, usage string
	keyed       bool
	set         func(s *largeitem.Source, key, value string) (twice bool)
}{
	{"content-type", "set the MIME type of the large attribute NAME, as `NAME=TYPE`", false, func(s *largeitem.Source, _, value string) bool { return setOnce(&s.ContentType, value) }},
	{"cache-control", headerUsage, false, func(s *largeitem.Source, _, value string) bool { return setOnce(&s.Headers.CacheControl, value) }},
	{"content-disposition", headerUsage, false, func(s *largeitem.Source, _, value string) bool { return setOnce(&s.Headers.ContentDisposition, value) }},
	{"content-encoding", headerUsage, false, func(s *largeitem.Source, _, value string) bool { return setOnce(&s.Headers.ContentEncoding, value) }},
	{"content-language", headerUsage, false, func(s *largeitem.Source, _, value string) bool { return setOnce(&s.Headers.ContentLanguage, value) }},
	{"storage-class", "set the S3 storage class of the large attribute NAME, as `NAME=CLASS`", false, func(s *largeitem.Source, _, value string) bool { return setOnce(&s.StorageClass, value) }},
	{"metadata", "set metadata of the large attribute NAME, as `NAME:KEY=VALUE`", true, func(s *largeitem.Source, key, value string) bool { return addOnce(&s.Metadata, key, value) }},
	{"tag", "set an S3 tag of the large attribute NAME, as `NAME:KEY=VALUE`", true, func(s *largeitem.Source, key, value string) bool { return addOnce(&s.Tags, key, value) }},
}

const headerUsage = "set this header of the large attribute NAME, as `NAME=VALUE`"

func (w *putFlags) add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&w.attrs, "attr", nil, "set the large attribute NAME to the content of FILE, as `NAME=@FILE`; repeat the flag for more")
	w.described = map[string]*[]string{}
	for _, d := range descriptions {
		w.described[d.flag] = flags.StringArray(d.flag, nil, d.usage)
	}
	flags.StringVar(&w.set, "set", "", "set other attributes from a `JSON` object, from @FILE, or from standard input (@-)")
	flags.BoolVar(&w.typed, "dynamodb-json", false, `the JSON of --set contains DynamoDB's types: {"n":{"N":"7"}}`)
	flags.StringArrayVar(&w.remove, "remove", nil, "remove the attribute `NAME`; repeat the flag for more")
	flags.BoolVar(&w.repair, "repair", false, "upload the content even if it is unchanged; use this if an object is missing or damaged")
	flags.BoolVar(&w.ifAbsent, "if-absent", false, "write only if the item does not exist")
	flags.BoolVar(&w.ifExists, "if-exists", false, "write only if the item exists")
	flags.BoolVar(&w.replaces, "replace", false, "replace the whole item: remove the attributes that you do not name")
}

// change returns what the flags ask for, apart from the large attributes.
func (w *putFlags) change(ctx context.Context, a *access, flags *pflag.FlagSet) (largeitem.Change, error) {
	c := largeitem.Change{Remove: w.remove}
	switch {
	case w.ifAbsent && w.ifExists, w.ifAbsent && w.replaces, w.ifExists && w.replaces:
		return c, exit.Usagef("--if-absent, --if-exists and --replace exclude each other")
	case cmdline.EmptyFlag(flags, "set"):
		return c, exit.Usagef("--set is empty: give a JSON object, {} for no attributes")
	case len(c.Remove) > 0 && (w.ifAbsent || w.replaces):
		return c, exit.Usagef("--if-absent and --remove exclude each other, because a new item has no attribute to remove")
	case w.typed && w.set == "":
		return c, exit.Usagef("--dynamodb-json needs --set")
	}
	if w.set != "" {
		text, err := a.setText(ctx, w)
		if err != nil {
			return c, err
		}
		if c.Set, err = attributesFlag("set", text, w.typed); err != nil {
			return c, err
		}
	}
	for _, given := range w.attrs {
		name, _, _ := strings.Cut(given, "=@")
		if _, set := c.Set[name]; set || slices.Contains(c.Remove, name) {
			return c, exit.Usagef("the attribute %s is in --attr and in --set or --remove: name it once", printable.Text(name))
		}
	}
	return c, nil
}

// large opens the files of the large attributes. The caller closes what it returns, also
// with an error.
func (w *putFlags) large(ctx context.Context, a *access) (large largeitem.Large, size int64, opened []*transfer.Source, err error) {
	large = largeitem.Large{}
	stdin := ""
	for _, given := range w.attrs {
		name, file, ok := strings.Cut(given, "=@")
		_, twice := large[name]
		switch {
		case !ok || name == "" || file == "":
			return nil, 0, opened, exit.Usagef("--attr needs NAME=@FILE, or NAME=@- for standard input; put a small value into --set")
		case twice:
			return nil, 0, opened, exit.Usagef("--attr %s is given twice", printable.Text(name))
		case file == "-" && stdin != "":
			return nil, 0, opened, exit.Usagef("--attr %s and %s cannot both be standard input", printable.Text(stdin), printable.Text(name))
		case file == "-":
			stdin = name
		}
		src, err := transfer.OpenSource(ctx, a.Stdin, file, -1)
		if err != nil {
			return nil, 0, opened, err
		}
		opened = append(opened, src)
		// A file can be read again: to recognise content that the item has already.
		large[name] = largeitem.Source{Body: src.Reader, Size: max(src.Size, 0), ForceUpload: w.repair}
		if size < 0 || src.Size < 0 {
			size = -1
		} else {
			size += src.Size
		}
	}
	return large, size, opened, w.describe(large)
}

// describe adds to the contents what else the flags say of them.
func (w *putFlags) describe(large largeitem.Large) error {
	for _, f := range descriptions {
		for _, given := range *w.described[f.flag] {
			form := "NAME=VALUE"
			name, value, ok := strings.Cut(given, "=")
			key := "-"
			if f.keyed {
				form = "NAME:KEY=VALUE"
				// The name of an attribute may have colons, and its key none.
				i := strings.LastIndexByte(name, ':')
				if ok = ok && i >= 0; ok {
					name, key = name[:i], name[i+1:]
				}
			}
			if !ok || name == "" || key == "" || value == "" {
				return exit.Usagef("--%s needs %s", f.flag, form)
			}
			s, has := large[name]
			if !has {
				return exit.Usagef("--%s names the attribute %[2]s, but there is no --attr %[2]s", f.flag, printable.Text(name))
			}
			if f.set(&s, key, value) {
				return exit.Usagef("--%s %s is given twice", f.flag, printable.Text(strings.TrimSuffix(name+":"+key, ":-")))
			}
			large[name] = s
		}
	}
	return nil
}

func setOnce(to *string, value string) (twice bool) {
	twice = *to != ""
	*to = value
	return twice
}

func addOnce(to *map[string]string, key, value string) (twice bool) {
	if *to == nil {
		*to = map[string]string{}
	}
	_, twice = (*to)[key]
	(*to)[key] = value
	return twice
}

func (a *access) itemsWrite(cmd *cobra.Command, f *itemFlags, w *putFlags, keyText string) error {
	// Open the files first: if one cannot be read, the command makes nothing.
	ctx, stop := cmdline.UntilInterrupted(cmd.Context())
	defer stop()
	change, err := w.change(ctx, a, cmd.Flags())
	if err != nil {
		return cmdline.StoppedBy(ctx, err)
	}
	large, size, opened, err := w.large(ctx, a)
	defer func() {
		for _, src := range opened {
			src.Close()
		}
	}()
	if err != nil {
		return cmdline.StoppedBy(ctx, err)
	}
	return a.withItem(cmd, f, keyText, func(ctx context.Context, s items, key largeitem.Key) error {
		bar := a.Bar(keyText, size)
		opts := &largeitem.WriteOptions{Progress: func(done, _ int64) { bar.Set(done) }}
		write := func() (*largeitem.Result, error) { return s.Upsert(ctx, key, change, large, opts) }
		switch {
		case w.ifAbsent:
			write = func() (*largeitem.Result, error) { return s.Create(ctx, key, change.Set, large, opts) }
		case w.ifExists:
			write = func() (*largeitem.Result, error) { return s.Update(ctx, key, change, large, opts) }
		case w.replaces:
			write = func() (*largeitem.Result, error) { return s.Replace(ctx, key, change.Set, large, opts) }
		}
		r, err := write()
		bar.End()
		var refused *largeitem.ConditionFailedError
		if errors.As(err, &refused) && refused.HasCurrent && refused.Current != nil && store.OutcomeOf(err) == store.NotApplied {
			err = exit.With(exit.Condition, fmt.Errorf("the item %v already exists", refused.Key))
		}
		if err != nil {
			return err
		}
		return a.printWrote(viewWrote(key, r))
	})
}

// maxSet is the most that --set reads from a file, in bytes: a table refuses far less.
const maxSet = 8 << 20

// setText returns the JSON of --set, which can be in a file.
func (a *access) setText(ctx context.Context, w *putFlags) (string, error) {
	name, ok := strings.CutPrefix(w.set, "@")
	if !ok {
		return w.set, nil
	}
	switch {
	case name == "":
		return "", exit.Usagef("--set @: name a file, @FILE, or @- for standard input")
	case name == "-" && slices.ContainsFunc(w.attrs, func(given string) bool { return strings.HasSuffix(given, "=@-") }):
		return "", exit.Usagef("--set and --attr cannot both be standard input")
	}
	src, err := transfer.OpenSource(ctx, a.Stdin, name, -1)
	if err != nil {
		return "", err
	}
	defer src.Close()
	text, err := io.ReadAll(io.LimitReader(src.Reader, maxSet+1))
	if err == nil && len(text) > maxSet {
		err = exit.Usagef("--set %s: more than %d bytes; put a large value into --attr", printable.Text(w.set), maxSet)
	}
	return string(text), err
}
