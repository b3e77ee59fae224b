package objects

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// writeFlags are the flags of every command that writes an object.
type writeFlags struct {
	object.WriteOptions // without the fence and the metadata
	fence               uint64
	lock                string
	metadata            []string
}

// conditions adds the flags that decide whether the command may write the object.
func (f *writeFlags) conditions(flags *pflag.FlagSet, absent bool) {
	if absent {
		flags.BoolVar(&f.IfAbsent, "if-absent", false, "write only if the object does not exist yet")
	}
	flags.StringVar((*string)(&f.IfMatch), "if-match", "", "replace or remove the object only if it has this version")
	f.token(flags)
	flags.BoolVar(&f.Force, "force", false, "change the object without a check of the fencing token that it carries")
}

// token adds the flag for the token of a lock.
func (f *writeFlags) token(flags *pflag.FlagSet) {
	flags.Uint64Var(&f.fence, "fence", 0, "fencing token of your grant of the lock; if the object carries a higher token, the status is 76")
	flags.StringVar(&f.lock, "lock", "", "with --fence: name of the lock that the token belongs to (default: HOLDFAST_LOCK)")
}

// source adds the flag for the condition on the source of a copy.
func (f *writeFlags) source(flags *pflag.FlagSet) {
	flags.StringVar((*string)(&f.SourceIfMatch), "source-if-match", "", "copy or rename the source only if it has this version")
}

// content adds the flags for what is kept with the object. standard says what it gets
// without them.
func (f *writeFlags) content(flags *pflag.FlagSet, standard string) {
	flags.StringVar(&f.ContentType, "content-type", "", "MIME type of the object (default: "+standard+")")
	flags.StringVar(&f.Headers.CacheControl, "cache-control", "", "Cache-Control header of the object, such as max-age=3600")
	flags.StringVar(&f.Headers.ContentDisposition, "content-disposition", "", "Content-Disposition header of the object, such as attachment")
	flags.StringVar(&f.Headers.ContentEncoding, "content-encoding", "", "Content-Encoding header of the object, such as gzip; holdfast does not encode the content")
	flags.StringVar(&f.Headers.ContentLanguage, "content-language", "", "Content-Language header of the object, such as en")
	flags.StringArrayVar(&f.metadata, "metadata", nil, "add metadata to the object, as `NAME=VALUE`; repeat the flag for more")
}

// options returns the options of the write. It refuses a condition that is given but empty
// (by an unset variable, say): the write would have no condition. A command asks for the
// options before it opens a bucket, which it may make.
func (f *writeFlags) options(flags *pflag.FlagSet) (*object.WriteOptions, error) {
	o := f.WriteOptions
	for _, name := range []string{"if-match", "source-if-match"} {
		if cmdline.EmptyFlag(flags, name) {
			return nil, exit.Usagef("--%s is empty: name a version, or use --if-absent for an object that must not exist", name)
		}
	}
	if o.IfAbsent && o.IfMatch != "" {
		return nil, exit.Usagef("--if-absent and --if-match exclude each other: give one of them")
	}
	fenced := flags.Changed("fence")
	switch {
	case cmdline.EmptyFlag(flags, "fence"), fenced && f.fence == 0:
		return nil, exit.Usagef("--fence needs a token of at least 1")
	case fenced && f.lock == "":
		return nil, exit.Usagef("--fence needs --lock NAME, the lock that issued the token")
	case !fenced && f.lock != "" && os.Getenv(cmdline.VariableOf("lock")) != f.lock:
		return nil, exit.Usagef("--lock needs --fence TOKEN, the token of that lock")
	case fenced:
		o.Fence = &object.Fence{Lock: f.lock, Token: f.fence}
	}
	for _, pair := range f.metadata {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, exit.Usagef("--metadata needs NAME=VALUE")
		}
		if o.Metadata == nil {
			o.Metadata = map[string]string{}
		}
		if _, twice := o.Metadata[name]; twice {
			return nil, exit.Usagef("--metadata %s is given twice", printable.Text(name))
		}
		o.Metadata[name] = value
	}
	return &o, nil
}

// target takes the URL of the object that is to be written apart. A write that names the
// version which it replaces makes no bucket: there is no such version in a new one.
// If it names a bucket, or ends with a slash, the object gets this name there; an empty name
// refuses that.
func (a *access) target(raw string, f *writeFlags, makes bool, name string) (*stores.ObjectURL, error) {
	at, err := a.ParseObject(raw, makes && f.IfMatch == "")
	if err == nil {
		if at.Key == "" || strings.HasSuffix(at.Key, "/") {
			at.Key += name
		}
		err = at.Object()
	}
	if at != nil {
		at.Replaces = f.IfMatch != ""
	}
	return at, at.Absent(err)
}

// checkVersions refuses conditions that are no versions of these buckets.
func (f *writeFlags) checkVersions(from, to stores.Bucket) error {
	return cmp.Or(checkVersion(to, "if-match", f.IfMatch), checkVersion(from, "source-if-match", f.SourceIfMatch))
}

// checkVersion refuses a text that cannot be a version of this bucket. An ETag without its
// quotes, for one, would make every object look changed.
func checkVersion(b stores.Bucket, flag string, v object.Version) error {
	version := string(v)
	if version == "" || !b.ETags || strings.HasPrefix(strings.TrimPrefix(version, "W/"), `"`) && strings.HasSuffix(version, `"`) {
		return nil
	}
	return exit.Usagef(`--%s: a version of an object of %s is its ETag with the double quotes, as put prints it: '"..."'`, flag, b.URL)
}

// refusedWrite explains an error of a write of key whose condition did not hold: it says what is
// there now.
func refusedWrite(b stores.Bucket, err error, key string, o *object.WriteOptions) error {
	var conflict *object.ConflictError
	if !errors.As(err, &conflict) || store.OutcomeOf(err) != store.NotApplied {
		return err
	}
	switch {
	case conflict.RenamedTo != "":
		err = fmt.Errorf("another program has renamed the object to %s", urlOf(b, conflict.RenamedTo))
	case conflict.Key != key: // the source of a copy
		err = fmt.Errorf("the source %q does not have the version that you named", conflict.Key)
	case conflict.HasCurrent && conflict.Version == "":
		err = fmt.Errorf("%s does not exist", urlOf(b, key))
	case conflict.HasCurrent && o.IfAbsent:
		err = fmt.Errorf("%s already exists, with version %s", urlOf(b, key), conflict.Version)
	case conflict.HasCurrent:
		err = fmt.Errorf("%s has changed: its version is %s", urlOf(b, key), conflict.Version)
	case o.IfAbsent:
		err = fmt.Errorf("the store refuses to create %s, although the object does not exist: try again; if that does not help, the store treats deleted versions as objects: remove the versions, or write without --if-absent", urlOf(b, key))
	default:
		err = fmt.Errorf("%s has changed", urlOf(b, key))
	}
	return exit.With(exit.Condition, err)
}
