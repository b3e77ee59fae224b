package main

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
)

// scheme is one kind of store: all that the command knows about it. A further kind of store is a file
// that returns its scheme, and a line in [schemes].
type scheme struct {
	name       string // what its URLs begin with, before the colon
	form       string // of the URL of a store, for the help
	what       string // what keeps the locks, for the help
	parameters string // of its URLs, for the help; each line after the first is indented

	// open opens the registers at a URL. standard says that the user has named no store.
	open func(ctx context.Context, a *app, u *url.URL, standard bool) (opened, error)

	// init creates what a URL names, if that does not exist, and tests it. It returns the result for
	// --json. Nil: see [app.usable].
	init func(ctx context.Context, a *app, raw string) (result map[string]any, err error)

	// doctor returns what doctor tests. The caller calls leave at the end. Nil: doctor tests the
	// registers as they are.
	doctor func(ctx context.Context, a *app, u *url.URL) (target *doctor.Target, leave func(), err error)

	// forgetAbilities makes the next command test again what the server of the objects can do. Nil:
	// no test is necessary.
	forgetAbilities func(a *app, u *url.URL)

	// openBucket opens the bucket of an object. The URL of an object is the URL of a store, followed
	// by the key of the object. Nil: this kind of store has no objects.
	openBucket func(ctx context.Context, a *app, at *objectURL) (bucket, error)
	objectForm string // of the URL of an object

	tables    tableKind // nil: this kind of store has no tables of items
	tableForm string    // of the URL of a table of items
}

// schemes is the table of the kinds of stores, in the order of the help.
func schemes() []*scheme {
	return []*scheme{fileScheme(), sqliteScheme(), postgresScheme(), s3Scheme(), versionedScheme(), dynamoScheme()}
}

// schemeOf returns the scheme of a name; nil if there is none. Upper case counts as lower case.
func schemeOf(name string) *scheme {
	for _, s := range schemes() {
		if s.name == strings.ToLower(name) {
			return s
		}
	}
	return nil
}

// begins returns the beginning of all URLs of a scheme.
func (s *scheme) begins() string {
	if strings.Contains(s.form, "://") {
		return s.name + "://"
	}
	return s.name + ":"
}

// beginnings returns the beginnings of the URLs of stores, or of objects.
func beginnings(ofObjects bool) (all []string) {
	for _, s := range schemes() {
		if !ofObjects || s.openBucket != nil {
			all = append(all, s.begins())
		}
	}
	slices.Sort(all)
	return all
}

// formsOf lists the forms of the URLs of objects or tables, for a message.
func formsOf(form func(*scheme) string) string {
	var all []string
	for _, s := range schemes() {
		if f := form(s); f != "" {
			all = append(all, f)
		}
	}
	last := len(all) - 1
	return strings.Join(all[:last], ", ") + " or " + all[last]
}

func objectForms() string { return formsOf(func(s *scheme) string { return s.objectForm }) }
func tableForms() string  { return formsOf(func(s *scheme) string { return s.tableForm }) }

// storeForms lists the forms of the URLs of stores, for the help.
func storeForms() string {
	var list strings.Builder
	for _, s := range schemes() {
		fmt.Fprintf(&list, "  %-32s  %s\n", s.form, s.what)
	}
	return list.String()
}

// storeParameters lists the parameters of the URLs of stores, for the help.
func storeParameters() string {
	var list strings.Builder
	for _, s := range schemes() {
		fmt.Fprintf(&list, "  %-14s %s\n", s.name+":", strings.ReplaceAll(s.parameters, "\n", "\n"+strings.Repeat(" ", 17)))
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
	known := strings.Join(beginnings(false), ", ")
	if missesColon(raw) {
		name, _, _ := strings.Cut(raw, "//")
		return exit.Usagef("the URL of a store lacks a colon: write %s://...; for a directory of that name write file:./%s//...", name, name)
	}
	if strings.ContainsAny(raw, ":@?#=%") {
		name, _, _ := strings.Cut(raw, "://")
		var names []string
		for _, s := range schemes() {
			names = append(names, s.name)
		}
		return exit.Usagef("unknown kind of store (known: %s)%s", known, didYouMean(nearest(name, names)))
	}
	return exit.Usagef("store %q: unknown kind of store (known: %s); for a directory write file:%s", raw, known, raw)
}
