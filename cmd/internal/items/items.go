package items

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/cmd/internal/transfer"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/store"
)

// itemFlags are the flags of every command of items.
type itemFlags struct {
	table, bucket, layout, base string
	orphanAge                   time.Duration
	adopt, remove, young        bool
}

func (f *itemFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.table, "table", "", "table of the items: "+stores.TableForms())
	flags.StringVar(&f.bucket, "bucket", "", "bucket of the large attributes: s3://BUCKET/PREFIX or file:DIR")
	flags.StringVar(&f.layout, "layout", layoutOwn, "format of object names and references: holdfast or pynamodb_mate")
	cmdline.CompleteFlag(cmd, "layout", layoutOwn, layoutMate)
	flags.StringVar(&f.base, "reference-base", "", "name of the bucket in references (default: the URL of the bucket); give the same name to all programs")
	flags.DurationVar(&f.orphanAge, "orphan-age", 0, "age at which an unreferenced object may be removed, at least 1h (default: the value that item init stored in the table, or 24h)")
}

const (
	layoutOwn  = "holdfast"
	layoutMate = "pynamodb_mate"
)

// items is a store of items, with what is known of its table.
type items struct {
	*largeitem.Store
	schema largeitem.Schema
}

// withItems opens the table and the bucket that the flags name, calls do with a context
// that a signal ends, and closes them. With makes, the bucket may be made if it is a
// directory.
func (a *access) withItems(cmd *cobra.Command, f *itemFlags, makes bool, do func(context.Context, items) error) error {
	opts, err := f.options(cmd.Flags(), a)
	if err != nil {
		return err
	}
	at, err := f.bucketURL(cmd.Flags(), a, makes)
	if err != nil {
		return err
	}
	opts.Prefix = at.Key
	return a.withTable(cmd, f, func(ctx context.Context, t largeitem.Table) error {
		schema, err := t.Schema(ctx)
		if err != nil {
			return err
		}
		if at.IsNew() && !makes {
			return exit.With(exit.Unsafe, fmt.Errorf("there is no bucket %s: check the name, or create the bucket with holdfast item init", at))
		}
		b, err := at.Open(ctx, &a.Access)
		if err != nil {
			return err
		}
		defer b.Close()
		s, err := largeitem.New(t, b.Bucket(), opts)
		if err != nil {
			return err
		}
		return inWords(do(ctx, items{s, schema}))
	})
}

// inWords says which command or flag helps where the marker of a prefix refuses a call.
func inWords(err error) error {
	var other *largeitem.OtherTableError
	var age *largeitem.OrphanAgeError
	switch {
	case errors.As(err, &other):
		help := "name another prefix, --bucket URL/PREFIX; or, if that table was deleted and you do not need its objects, take over the prefix with item init --adopt"
		if other.Copied() {
			help = "if one table is a copy of the other, name another prefix, --bucket URL/PREFIX; if you moved the table and no program uses the old place, take over the prefix with item init --adopt"
		}
		return exit.With(exit.Unsafe, fmt.Errorf("the objects next to %s belong to the table %s (%s), and not to %s (%s): %s",
			other.Object, other.Table, other.ID, other.Store, other.StoreID, help))
	case errors.As(err, &age):
		why, until := "longer, so another program's sweep could remove objects that this command writes", ""
		help := fmt.Sprintf("change the age of the table with item init --orphan-age %v --change-orphan-age", age.Given)
		if age.Sweep {
			why = "shorter, so this sweep could remove an object that another program has just written"
		}
		if !age.Until.IsZero() {
			until = fmt.Sprintf(" until %s, because a program made the orphan age shorter", age.Until.Local().Format(time.DateTime))
			help = "wait"
		}
		return exit.With(exit.Unsafe, fmt.Errorf("the orphan age of this table is %v%s, and --orphan-age %v is %s: remove --orphan-age, or %s", age.Table, until, age.Given, why, help))
	}
	return err
}

func (f *itemFlags) options(flags *pflag.FlagSet, a *access) (*largeitem.Options, error) {
	o := &largeitem.Options{BaseURI: f.base, OrphanAge: f.orphanAge, AdoptPrefix: f.adopt, RemoveSuperseded: f.remove, RemoveYoung: f.young, Logger: a.Log()}
	switch {
	case cmdline.EmptyFlag(flags, "reference-base"):
		return nil, exit.Usagef("--reference-base is empty: remove the flag to use the URL of the bucket")
	case f.young && !f.remove:
		return nil, exit.Usagef("--any-age needs --remove-superseded")
	case flags.Changed("orphan-age") && f.orphanAge < largeitem.MinOrphanAge:
		return nil, exit.Usagef("--orphan-age is %v; it must be at least %v, because another program may just have written a younger object", f.orphanAge, largeitem.MinOrphanAge)
	}
	switch f.layout {
	case layoutOwn:
	case layoutMate:
		o.Layout = largeitem.PynamoDBMateLayout()
	default:
		return nil, exit.Usagef("--layout must be %[2]s or %[3]s, not %[1]s", printable.Text(f.layout), layoutOwn, layoutMate)
	}
	return o, nil
}

// bucketURL takes the URL of the bucket apart: its key is the prefix.
func (f *itemFlags) bucketURL(flags *pflag.FlagSet, a *access, makes bool) (*stores.ObjectURL, error) {
	if cmdline.EmptyFlag(flags, "bucket") {
		return nil, exit.Usagef("--bucket, or %s, is empty: name the bucket of the large attributes", cmdline.VariableOf("bucket"))
	}
	if f.bucket == "" {
		return nil, exit.Usagef("name the bucket of the large attributes: --bucket s3://BUCKET/PREFIX or file:DIR, or %s", cmdline.VariableOf("bucket"))
	}
	at, err := a.parseBucket(f.bucket, makes)
	if err != nil {
		err = fmt.Errorf("--bucket: %w", err)
	}
	return at, err
}

// parseBucket takes the URL of a bucket, with a prefix if need be, apart. Where no bucket
// is above a directory, the whole path is the bucket.
func (a *access) parseBucket(raw string, makes bool) (*stores.ObjectURL, error) {
	u, err := stores.ParseURL(raw)
	if err != nil || u.Scheme != "file" {
		return a.ParseObject(raw, makes)
	}
	path, _, err := stores.DirectoryOf(u)
	if err != nil {
		return nil, err
	}
	if strings.Contains(path[1:], "//") {
		return a.ParseObject(raw, makes)
	}
	dir, _, err := stores.NearestBucket(path)
	if err != nil || dir != "" {
		return a.ParseObject(raw, makes)
	}
	switch empty, err := stores.IsEmpty(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case !empty:
		return nil, exit.Usagef("the directory %s is not a bucket, and contains other files: name a new or empty directory; or turn it into a bucket with file:%[1]s//", path)
	}
	if dir, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	return &stores.ObjectURL{Given: u, Makes: makes, Bucket: &url.URL{Scheme: "file", Path: filepath.ToSlash(dir), RawQuery: u.RawQuery}}, nil
}

// parseKey reads the key of an item as people write it: PARTITION, PARTITION/SORT where the
// table has a sort key, or JSON: an array of the values, or an object with the names of the
// key's attributes. The types are those of the table.
func parseKey(s largeitem.Schema, text string) (largeitem.Key, error) {
	if strings.HasPrefix(text, "[") || strings.HasPrefix(text, "{") {
		return parseJSONKey(s, text)
	}
	values := []string{text}
	if s.Sort.Name != "" {
		if values = strings.Split(text, "/"); len(values) != 2 {
			return largeitem.Key{}, exit.Usagef(`the key %s is not complete: the table has a partition key %s and a sort key %s; write PARTITION/SORT, or ["PARTITION","SORT"] if a value contains a slash`, printable.Text(text), s.Partition.Name, s.Sort.Name)
		}
	}
	typed := make([]any, len(values))
	for i, a := range []largeitem.KeyAttribute{s.Partition, s.Sort}[:len(values)] {
		typed[i] = values[i]
		if a.Number {
			typed[i] = largeitem.Number(values[i])
		}
	}
	return checkedKey(s, text, typed)
}

func checkedKey(s largeitem.Schema, text string, values []any) (largeitem.Key, error) {
	if text == "" {
		return largeitem.Key{}, exit.Usagef("KEY is empty: a variable of your script may not be set")
	}
	k, err := largeitem.NewKey(values[0], values[1:]...)
	if err == nil {
		err = s.CheckKey(k)
	}
	if err != nil {
		err = exit.Usagef("the key %s: %w", printable.Text(text), err)
	}
	return k, err
}

func parseJSONKey(s largeitem.Schema, text string) (largeitem.Key, error) {
	if strings.HasPrefix(text, "[") {
		var k largeitem.Key
		if err := k.UnmarshalText([]byte(text)); err != nil {
			return k, exit.Usagef("the key %s: %w", printable.Text(text), err)
		}
		if err := s.CheckKey(k); err != nil {
			return k, exit.Usagef("the key %s: %w", printable.Text(text), err)
		}
		return k, nil
	}
	named, err := largeitem.UnmarshalPlain([]byte(text))
	if err != nil {
		return largeitem.Key{}, exit.Usagef("the key %s: %w", printable.Text(text), err)
	}
	var values []any
	for _, a := range []largeitem.KeyAttribute{s.Partition, s.Sort} {
		if v, ok := named[a.Name]; ok && a.Name != "" {
			values = append(values, v)
			delete(named, a.Name)
		} else if a.Name != "" {
			return largeitem.Key{}, exit.Usagef("the key %s has no value for %s", printable.Text(text), printable.Text(a.Name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		return largeitem.Key{}, exit.Usagef("the key %s: %s is not a part of the key of the table", printable.Text(text), printable.Text(name))
	}
	return checkedKey(s, text, values)
}

// attributesFlag reads JSON with or without types; see --dynamodb-json.
func attributesFlag(name, text string, typed bool) (largeitem.Attributes, error) {
	read := largeitem.UnmarshalPlain
	if typed {
		read = largeitem.UnmarshalTyped
	}
	attrs, err := read([]byte(text))
	if err != nil {
		example := `{"status":200}`
		if typed {
			example = `{"status":{"N":"200"}}`
		}
		return nil, exit.Usagef("the value of --%s must be a JSON object, such as '%s': %w", name, example, err)
	}
	return attrs, nil
}

// itemView is an item as it is printed. Its fields are stable.
type itemView struct {
	Key        json.RawMessage          `json:"key"` // an array of one value or two
	Attributes json.RawMessage          `json:"attributes"`
	Large      map[string]referenceView `json:"large"`

	// Foreign are attributes that look like references and are not followed, with the reason.
	Foreign map[string]string `json:"foreign,omitempty"`
}

// referenceView is a large attribute.
type referenceView struct {
	URI    string `json:"uri"`
	Size   *int64 `json:"size,omitempty"` // in bytes; missing where the reference does not tell it
	SHA256 string `json:"sha256,omitempty"`
	MD5    string `json:"md5,omitempty"`
}

func viewReference(r largeitem.Reference) referenceView {
	v := referenceView{URI: r.URI, SHA256: fmt.Sprintf("%x", r.SHA256), MD5: fmt.Sprintf("%x", r.MD5)}
	if r.Size >= 0 {
		v.Size = &r.Size
	}
	return v
}

func viewItem(i *largeitem.Item, typed bool) (itemView, error) {
	v := itemView{Large: map[string]referenceView{}}
	var err error
	if v.Key, err = i.Key.MarshalText(); err != nil {
		return v, err
	}
	write := largeitem.MarshalPlain
	if typed {
		write = largeitem.MarshalTyped
	}
	attrs := i.Attributes
	if attrs == nil {
		attrs = largeitem.Attributes{}
	}
	if v.Attributes, err = write(attrs); err != nil {
		return v, err
	}
	for name, r := range i.Refs {
		v.Large[name] = viewReference(r)
	}
	for name, why := range i.Foreign {
		if v.Foreign == nil {
			v.Foreign = map[string]string{}
		}
		v.Foreign[name] = output.OneLine(why)
	}
	return v, nil
}

// wroteView is the result of put and rm. Its fields are stable.
type wroteView struct {
	Key        json.RawMessage `json:"key"`
	Existed    *bool           `json:"existed,omitempty"` // only of rm; missing if it is not known
	Puts       []putView       `json:"puts,omitempty"`
	Superseded []string        `json:"superseded"` // objects that the item does not refer to any more
	Removed    int             `json:"removed"`    // how many of them were removed
}

type putView struct {
	Attr     string `json:"attr"`
	Uploaded bool   `json:"uploaded"` // false: the item referred to the same content already
	referenceView
}

func viewWrote(k largeitem.Key, r *largeitem.Result) wroteView {
	v := wroteView{Superseded: []string{}, Removed: r.Removed}
	v.Key, _ = k.MarshalText() // the key was valid for the write
	for _, p := range r.Puts {
		v.Puts = append(v.Puts, putView{p.Attr, p.Uploaded, viewReference(p.Reference)})
	}
	for _, s := range r.Superseded {
		v.Superseded = append(v.Superseded, s.URI)
	}
	return v
}

func (a *access) itemCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "item",
		Short:   "Read and write items of a table, with large attributes in a bucket",
		GroupID: cmdline.GroupObjects,
		Long: `Read and write items of a table. Large attributes of an item are objects in a bucket. The item
stores a reference to each object, with the size and the SHA-256 of the content. An item never
refers to an object that does not exist, even after a crash. get checks size and hash.

KEY is the partition key, or PARTITION/SORT if the table has a sort key. If a key value has a
slash, or begins with a bracket, write KEY as JSON: ["a/b","c"] or {"pk":"a/b","sk":"c"}.

The variables HOLDFAST_TABLE and HOLDFAST_BUCKET can replace --table and --bucket.`,
		Example: `  holdfast item init --table 'dynamodb://pages?region=eu-central-1'
  holdfast item put example.org --attr html=@page.html --set '{"status":200}' --table dynamodb://pages --bucket s3://bucket/pages
  holdfast item get example.org --attr html --table dynamodb://pages --bucket s3://bucket/pages > page.html`,
		Args: cmdline.KnownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.itemInit(), a.itemPut(), a.itemGet(), a.itemRm(), a.itemLs(), a.itemSweep(), a.itemVerify())
	return cmd
}

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

// writes adds the flags of commands that write.
func (f *itemFlags) writes(flags *pflag.FlagSet) {
	flags.BoolVar(&f.remove, "remove-superseded", false, "remove at once the objects of replaced or removed attributes, if they are older than --orphan-age")
	flags.BoolVar(&f.young, "any-age", false, "with --remove-superseded: remove objects of any age; safe only if no proxy repeats requests")
}

// putFlags are the flags of put.
type putFlags struct {
	attrs, remove, types         []string
	classes, tags, metadata      []string
	caches, dispositions         []string
	encodings, languages         []string
	set                          string
	typed, repair                bool
	ifAbsent, ifExists, replaces bool
}

func (w *putFlags) add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&w.attrs, "attr", nil, "set the large attribute NAME to the content of FILE, as `NAME=@FILE`; repeat the flag for more")
	flags.StringArrayVar(&w.types, "content-type", nil, "set the MIME type of the large attribute NAME, as `NAME=TYPE`")
	for flag, to := range map[string]*[]string{"cache-control": &w.caches, "content-disposition": &w.dispositions, "content-encoding": &w.encodings, "content-language": &w.languages} {
		flags.StringArrayVar(to, flag, nil, "set this header of the large attribute NAME, as `NAME=VALUE`")
	}
	flags.StringArrayVar(&w.metadata, "metadata", nil, "set metadata of the large attribute NAME, as `NAME:KEY=VALUE`")
	flags.StringArrayVar(&w.classes, "storage-class", nil, "set the S3 storage class of the large attribute NAME, as `NAME=CLASS`")
	flags.StringArrayVar(&w.tags, "tag", nil, "set an S3 tag of the large attribute NAME, as `NAME:KEY=VALUE`")
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
	chosen := 0
	for _, is := range []bool{w.ifAbsent, w.ifExists, w.replaces} {
		if is {
			chosen++
		}
	}
	switch {
	case chosen > 1:
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
	for _, f := range []struct {
		flag  string
		given []string
		keyed bool
		set   func(s *largeitem.Source, key, value string) (twice bool)
	}{
		{"content-type", w.types, false, func(s *largeitem.Source, _, value string) bool { return setOnce(&s.ContentType, value) }},
		{"cache-control", w.caches, false, func(s *largeitem.Source, _, value string) bool { return setOnce(&s.Headers.CacheControl, value) }},
		{"content-disposition", w.dispositions, false, func(s *largeitem.Source, _, value string) bool { return setOnce(&s.Headers.ContentDisposition, value) }},
		{"content-encoding", w.encodings, false, func(s *largeitem.Source, _, value string) bool { return setOnce(&s.Headers.ContentEncoding, value) }},
		{"content-language", w.languages, false, func(s *largeitem.Source, _, value string) bool { return setOnce(&s.Headers.ContentLanguage, value) }},
		{"storage-class", w.classes, false, func(s *largeitem.Source, _, value string) bool { return setOnce(&s.StorageClass, value) }},
		{"metadata", w.metadata, true, func(s *largeitem.Source, key, value string) bool { return addOnce(&s.Metadata, key, value) }},
		{"tag", w.tags, true, func(s *largeitem.Source, key, value string) bool { return addOnce(&s.Tags, key, value) }},
	} {
		for _, given := range f.given {
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
	return a.withItems(cmd, f, false, func(ctx context.Context, s items) error {
		key, err := parseKey(s.schema, keyText)
		if err != nil {
			return err
		}
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
		if err != nil {
			return existsAlready(err)
		}
		return a.printWrote(viewWrote(key, r))
	})
}

// existsAlready explains a refused create.
func existsAlready(err error) error {
	var refused *largeitem.ConditionFailedError
	if errors.As(err, &refused) && refused.HasCurrent && refused.Current != nil && store.OutcomeOf(err) == store.NotApplied {
		return exit.With(exit.Condition, fmt.Errorf("the item %v already exists", refused.Key))
	}
	return err
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

func (a *access) printWrote(v wroteView) error {
	if a.JSON {
		return a.PrintJSON(v)
	}
	for _, p := range v.Puts {
		what := "unchanged"
		if p.Uploaded {
			what = "uploaded"
		}
		if _, err := fmt.Fprintf(a.Stdout, "%s\t%s\t%s\n", printable.Text(p.Attr), what, printable.Text(p.URI)); err != nil {
			return err
		}
	}
	return nil
}

func (a *access) itemGet() *cobra.Command {
	f := &itemFlags{}
	var attr, output string
	var typed bool
	cmd := &cobra.Command{
		Use:   "get KEY",
		Short: "Print an item, or read one of its large attributes",
		Long: `Print an item as JSON: its key, its attributes, and the references of its large attributes.

With --attr, get prints the content of one large attribute. With --output, get writes the content
to a file, but only if its size and hash are right. If the hash is wrong, the status is 78.
Without --output, get has then already printed the wrong content.

If there is no such item or attribute, the status is 66. If the item refers to an object that
does not exist, the status is 78.`,
		Example: `  holdfast item get example.org
  holdfast item get example.org --attr html --output page.html`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case cmdline.EmptyFlag(cmd.Flags(), "attr"):
				return exit.Usagef("--attr is empty: name a large attribute")
			case attr == "" && cmd.Flags().Changed("output"):
				return exit.Usagef("--output is for one large attribute: name it with --attr")
			case attr != "" && typed:
				return exit.Usagef("--dynamodb-json is for a whole item: remove it, or remove --attr")
			case attr != "" && a.JSON && (output == "" || output == "-"):
				return exit.Usagef("--json and the attribute would both go to standard output: name a file with --output")
			}
			return a.withItems(cmd, f, false, func(ctx context.Context, s items) error {
				key, err := parseKey(s.schema, args[0])
				if err != nil {
					return err
				}
				if attr != "" {
					return a.itemAttribute(ctx, s, key, attr, output, cmd.Flags().Changed("output"))
				}
				i, err := s.GetMeta(ctx, key)
				if err != nil {
					return err
				}
				v, err := viewItem(i, typed)
				if err != nil {
					return err
				}
				return a.PrintJSON(v)
			})
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&attr, "attr", "", "read the large attribute `NAME`")
	cmd.Flags().StringVarP(&output, "output", "o", "", "write the large attribute to `FILE` (default: standard output)")
	cmd.Flags().BoolVar(&typed, "dynamodb-json", false, `print attributes with DynamoDB's types: {"n":{"N":"7"}}`)
	return cmd
}

// itemAttribute reads one large attribute.
func (a *access) itemAttribute(ctx context.Context, s items, key largeitem.Key, attr, output string, given bool) error {
	to, err := transfer.OpenTarget(a.Stdout, output, given)
	if err != nil {
		return err
	}
	defer to.Discard()
	i, err := s.Get(ctx, key, &largeitem.ReadOptions{Attributes: []string{attr}})
	if err != nil {
		return err
	}
	defer i.Close()
	body := i.Body(attr)
	if body == nil {
		if why := i.Foreign[attr]; why != nil {
			return why
		}
		if _, small := i.Attributes[attr]; small {
			return exit.With(exit.NotFound, fmt.Errorf("the attribute %s of the item %v is not a large attribute: item get without --attr prints it", attr, key))
		}
		return exit.With(exit.NotFound, fmt.Errorf("the item %v has no attribute %s", key, attr))
	}
	bar := a.Bar(attr, body.Reference.Size)
	_, err = io.Copy(to, bar.Reader(body))
	bar.End()
	if err == nil {
		err = to.Commit()
	}
	if err != nil {
		return fmt.Errorf("attribute %s of the item %v: %w", attr, key, err)
	}
	if a.JSON {
		return a.PrintJSON(viewReference(body.Reference))
	}
	return nil
}

func (a *access) itemRm() *cobra.Command {
	f := &itemFlags{}
	var ifExists bool
	cmd := &cobra.Command{
		Use:        "rm KEY",
		SuggestFor: []string{"delete"},
		Short:      "Remove an item",
		Long: `Remove an item. rm keeps the objects of the item, because other programs may read them. "item
sweep" removes the objects later. --remove-superseded removes them at once.

If the item does not exist, the status is 0. With --if-exists it is 66.`,
		Example: `  holdfast item rm example.org`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withItems(cmd, f, false, func(ctx context.Context, s items) error {
				key, err := parseKey(s.schema, args[0])
				if err != nil {
					return err
				}
				opts := &largeitem.DeleteOptions{}
				if ifExists {
					// After a refused delete it is not certain who has deleted the item; a read shows
					// at least that there is none to begin with.
					if _, err := s.GetMeta(ctx, key); err != nil {
						return err
					}
					opts.If.Exists = true
				}
				r, err := s.Delete(ctx, key, opts)
				if err != nil {
					return err
				}
				if !a.JSON {
					return nil
				}
				v := viewWrote(key, r)
				existed := r.Item != nil
				v.Existed = &existed
				return a.PrintJSON(v)
			})
		},
	}
	f.add(cmd)
	f.writes(cmd.Flags())
	cmd.Flags().BoolVar(&ifExists, "if-exists", false, "end with status 66 if the item does not exist")
	return cmd
}

func (a *access) itemLs() *cobra.Command {
	f := &itemFlags{}
	var typed bool
	cmd := &cobra.Command{
		Use:        "ls [PREFIX]",
		SuggestFor: []string{"list"},
		Short:      "List the items of a table",
		Long: `List the items of a table, in no fixed order. Each line has the key as JSON, and the large
attributes with their sizes in bytes, separated by tabs. With --json each item is one line.

PREFIX selects items by the beginning of PARTITION or PARTITION/SORT. So user-7/ selects one
partition. ls always reads the whole table.

If items are damaged, ls prints their keys at the end, and the status is 78.`,
		Example: `  holdfast item ls
  holdfast item ls user-7/
  holdfast item ls --json | jq -c '.key'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			prefix := strings.Join(args, "")
			return a.withItems(cmd, f, false, func(ctx context.Context, s items) error {
				var bad []error
				for i, err := range s.List(ctx, nil) {
					switch {
					case errors.Is(err, store.ErrCorrupt):
						bad = append(bad, err)
					case err != nil:
						return errors.Join(append(bad, err)...)
					case strings.HasPrefix(writtenKey(i.Key), prefix):
						if err := a.printItem(i, typed); err != nil {
							return err
						}
					}
				}
				return errors.Join(bad...)
			})
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&typed, "dynamodb-json", false, `print attributes with DynamoDB's types: {"n":{"N":"7"}}`)
	return cmd
}

// writtenKey returns a key as [parseKey] reads it, or would if no value had a slash.
func writtenKey(k largeitem.Key) string {
	if !k.HasSort() {
		return k.Partition.Text
	}
	return k.Partition.Text + "/" + k.Sort.Text
}

func (a *access) printItem(i *largeitem.Item, typed bool) error {
	v, err := viewItem(i, typed)
	if err != nil {
		return err
	}
	if a.JSON {
		return printable.JSON(a.Stdout).Encode(v)
	}
	line := printable.Text(string(v.Key))
	for _, name := range slices.Sorted(maps.Keys(v.Large)) {
		size := "?"
		if n := v.Large[name].Size; n != nil {
			size = fmt.Sprint(*n)
		}
		line += "\t" + printable.Text(name) + "=" + size
	}
	for _, name := range slices.Sorted(maps.Keys(v.Foreign)) {
		line += "\t" + printable.Text(name) + "=foreign"
	}
	_, err = fmt.Fprintln(a.Stdout, line)
	return err
}
