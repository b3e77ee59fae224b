// Package stores opens what URLs name: registers, buckets of objects, and tables of items. It has a
// file for each kind of store, and the table of these kinds.
package stores

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
)

// Scheme is one kind of store: all that the command knows about it. A further kind of store is a file
// that returns its scheme, and a line in [Schemes].
type Scheme struct {
	Name       string // what its URLs begin with, before the colon
	Form       string // of the URL of a store, for the help
	what       string // what keeps the locks, for the help
	parameters string // of its URLs, for the help; each line after the first is indented

	// open opens the registers at a URL. standard says that the user has named no store.
	open func(ctx context.Context, a *Access, u *url.URL, standard bool) (Opened, error)

	// init creates what a URL names, if that does not exist, and tests it. It returns the result for
	// --json. Nil: see [Access.usable].
	init func(ctx context.Context, a *Access, raw string) (result map[string]any, err error)

	// doctor returns what doctor tests. The caller calls leave at the end. Nil: doctor tests the
	// registers as they are.
	doctor func(ctx context.Context, a *Access, u *url.URL) (target *doctor.Target, leave func(), err error)

	// forgetAbilities makes the next command test again what the server of the objects can do. Nil:
	// no test is necessary.
	forgetAbilities func(a *Access, u *url.URL)

	// openBucket opens the bucket of an object. The URL of an object is the URL of a store, followed
	// by the key of the object. Nil: this kind of store has no objects.
	openBucket func(ctx context.Context, a *Access, at *ObjectURL) (Bucket, error)
	ObjectForm string // of the URL of an object

	tables    tableKind // nil: this kind of store has no tables of items
	TableForm string    // of the URL of a table of items
}

// Schemes is the table of the kinds of stores, in the order of the help.
func Schemes() []*Scheme {
	return []*Scheme{fileScheme(), sqliteScheme(), postgresScheme(), s3Scheme(), versionedScheme(), dynamoScheme()}
}

// schemeOf returns the scheme of a name; nil if there is none. Upper case counts as lower case.
func schemeOf(name string) *Scheme {
	for _, s := range Schemes() {
		if s.Name == strings.ToLower(name) {
			return s
		}
	}
	return nil
}

// Begins returns the beginning of all URLs of a scheme.
func (s *Scheme) Begins() string {
	if strings.Contains(s.Form, "://") {
		return s.Name + "://"
	}
	return s.Name + ":"
}

// Beginnings returns the beginnings of the URLs of stores, or of objects.
func Beginnings(ofObjects bool) (all []string) {
	for _, s := range Schemes() {
		if !ofObjects || s.openBucket != nil {
			all = append(all, s.Begins())
		}
	}
	slices.Sort(all)
	return all
}

// formsOf lists the forms of the URLs of objects or tables, for a message.
func formsOf(form func(*Scheme) string) string {
	var all []string
	for _, s := range Schemes() {
		if f := form(s); f != "" {
			all = append(all, f)
		}
	}
	last := len(all) - 1
	return strings.Join(all[:last], ", ") + " or " + all[last]
}

func objectForms() string { return formsOf(func(s *Scheme) string { return s.ObjectForm }) }
func TableForms() string  { return formsOf(func(s *Scheme) string { return s.TableForm }) }

// StoreForms lists the forms of the URLs of stores, for the help.
func StoreForms() string {
	var list strings.Builder
	for _, s := range Schemes() {
		fmt.Fprintf(&list, "  %-32s  %s\n", s.Form, s.what)
	}
	return list.String()
}

// StoreParameters lists the parameters of the URLs of stores, for the help.
func StoreParameters() string {
	var list strings.Builder
	for _, s := range Schemes() {
		fmt.Fprintf(&list, "  %-14s %s\n", s.Name+":", strings.ReplaceAll(s.parameters, "\n", "\n"+strings.Repeat(" ", 17)))
	}
	return list.String()
}

// missesColon reports whether a text is most likely a URL whose colon is missing, as in s3//BUCKET.
func missesColon(raw string) bool {
	name, _, found := strings.Cut(raw, "//")
	return found && schemeOf(name) != nil
}

// unknownStore is the error for a store whose scheme is unknown. It repeats only parts of
// the URL that cannot hold a password.
func unknownStore(raw string) error {
	known := strings.Join(Beginnings(false), ", ")
	if missesColon(raw) {
		name, _, _ := strings.Cut(raw, "//")
		return exit.Usagef("the URL of a store lacks a colon: write %s://...; for a directory of that name write file:./%s//...", name, name)
	}
	if strings.ContainsAny(raw, ":@?#=%") {
		name, _, _ := strings.Cut(raw, "://")
		var names []string
		for _, s := range Schemes() {
			names = append(names, s.Name)
		}
		return exit.Usagef("unknown kind of store (known: %s)%s", known, output.DidYouMean(output.Nearest(name, names)))
	}
	return exit.Usagef("store %q: unknown kind of store (known: %s); for a directory write file:%s", raw, known, raw)
}

// IsURL reports whether an argument that is the prefix of locks is a URL instead.
func IsURL(arg string) bool {
	scheme, _, found := strings.Cut(arg, ":")
	return missesColon(arg) || strings.Contains(arg, "://") || found && schemeOf(scheme) != nil
}
