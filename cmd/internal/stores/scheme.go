// Package stores opens what URLs name: registers, buckets of objects, and tables of items. It has a
// file for each kind of store, and the table of these kinds.
package stores

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
)

// Scheme describes one kind of store. A further kind of store is a line in [Schemes], and a file in
// package allstores that returns its [Driver].
type Scheme struct {
	Name       string // what its URLs begin with, before the colon
	Form       string // of the URL of a store, for the help
	what       string // what keeps the locks, for the help
	parameters string // of its URLs, for the help; each line after the first is indented
	ObjectForm string // of the URL of an object; empty: this kind of store has no objects
	TableForm  string // of the URL of a table of items; empty: this kind of store has none

	otherNames []string // that users write for it by mistake

	hasContainers bool // the first segment of the path of a URL is a part of the name of the bucket
}

// Schemes is the table of the kinds of stores, in the order of the help and of docs/stores.md.
func Schemes() []*Scheme { return schemes }

var schemes = []*Scheme{
	{
		Name: "file", Form: "file:/PATH", what: "a directory on a local disk",
		parameters: `network=allow: allow a file system that is not known to be local.
unsafe=owner, unsafe=writable, unsafe=link: accept a risk (docs/security.md)`,
		ObjectForm: "file:DIR/KEY", TableForm: "file:DIR",
	},
	{
		Name: "sqlite", Form: "sqlite:/PATH", what: "a file of SQLite",
		parameters: "network, unsafe, table, prefix",
		TableForm:  "sqlite:PATH",
	},
	{
		Name: "postgres", Form: "postgres://HOST/DATABASE/PREFIX", what: "tables in PostgreSQL", otherNames: []string{"postgresql", "pg", "pgsql"},
		parameters: "table, prefix, and the parameters of libpq: sslmode, host, user, ...",
		TableForm:  "postgres://HOST/DATABASE",
	},
	{
		Name: "mysql", Form: "mysql://HOST/DATABASE/PREFIX", what: "tables in MySQL or MariaDB", otherNames: []string{"mariadb"},
		parameters: `table, prefix, user, sslmode (disable, prefer, require, verify-full),
sslrootcert, sslcert, sslkey, socket, connect_timeout`,
		TableForm: "mysql://HOST/DATABASE",
	},
	{
		Name: "redis", Form: "redis://HOST/DATABASE/PREFIX", what: "keys in Redis or Valkey", otherNames: []string{"valkey"},
		parameters: `user, password_file, timeout (of a request).
cluster=true: the server is part of a cluster.
sentinel: the name of the primary server; the hosts are sentinels.
unsafe=appendonly, unsafe=appendfsync, unsafe=no-appendfsync-on-rewrite,
unsafe=maxmemory-policy: accept a risk (docs/stores.md)`,
	},
	{
		Name: "rediss", Form: "rediss://HOST/DATABASE/PREFIX", what: "keys in Redis or Valkey, by TLS", otherNames: []string{"redis+tls", "redis+ssl", "rediss+tls", "valkeys"},
		parameters: "those of redis:, and cacert, cert, key: files of certificates",
	},
	{
		Name: "etcd", Form: "etcd://HOST:PORT/PREFIX", what: "keys in etcd",
		parameters: `user (the password is in ETCDCTL_USER or ETCDCTL_PASSWORD), tls (true),
cacert, cert, key (files), timeout (of a request). Several members:
etcd://HOST:PORT,HOST:PORT,HOST:PORT/PREFIX`,
	},
	{
		Name: "k8s", Form: "k8s://NAMESPACE/PREFIX", what: "Lease objects of Kubernetes",
		parameters: `context, kubeconfig (file), timeout (of a request). The credentials are those
of kubectl, or of the pod's service account`,
	},
	{
		Name: "nats", Form: "nats://HOST:PORT/BUCKET/PREFIX", what: "a bucket of NATS JetStream",
		parameters: `user (the password is in NATS_PASSWORD; a token in NATS_TOKEN), creds (file),
tls (true), cacert, cert, key (files), timeout (of a request),
replicas (of a bucket that init creates)`,
	},
	{
		Name: "dynamodb", Form: "dynamodb://TABLE/PREFIX", what: "a table of DynamoDB", otherNames: []string{"dynamo", "ddb"},
		parameters: "region, endpoint, profile, anonymous, fips, dualstack, timeout, unsafe: as for s3:",
		TableForm:  "dynamodb://TABLE",
	},
	{
		Name: "s3", Form: "s3://BUCKET/PREFIX", what: "a bucket with conditional writes",
		parameters: `region, endpoint (http://HOST:PORT), profile, anonymous, fips, dualstack,
timeout (of a request), unsafe, path_style, sse, sse_key, acl,
expected_bucket_owner, checksums`,
		ObjectForm: "s3://BUCKET/KEY",
	},
	{
		Name: "gs", Form: "gs://BUCKET/PREFIX", what: "a bucket in Google Cloud Storage", otherNames: []string{"gcs", "google"},
		parameters: "endpoint, anonymous, timeout, unsafe: as for s3:; user_project (which pays)",
		ObjectForm: "gs://BUCKET/KEY",
	},
	{
		Name: "azblob", Form: "azblob://ACCOUNT/CONTAINER/PREFIX", what: "a container in Azure Blob Storage", otherNames: []string{"azure", "az", "abfs", "wasb"},
		parameters: `endpoint (http://HOST:PORT), anonymous, timeout (of a request), unsafe:
as for s3:`,
		ObjectForm: "azblob://ACCOUNT/CONTAINER/KEY", hasContainers: true,
	},
	{
		Name: "s3+versioned", Form: "s3+versioned://BUCKET/PREFIX", what: "a bucket with versions and without conditional writes",
		parameters: `those of s3:, without unsafe.
put_lifetime: the longest time that a PUT may take.
settle_delay: the wait between a PUT and the listing that shows its outcome`,
	},
}

// Driver opens the stores of one kind.
type Driver struct {
	// Open opens the registers at a URL. standard says that the user has named no store.
	Open func(ctx context.Context, a *Access, u *url.URL, standard bool) (Opened, error)

	// Init creates what a URL names, if that does not exist, and tests it. It returns the result for
	// --json. Nil: see [Access.Usable].
	Init func(ctx context.Context, a *Access, raw string) (result map[string]any, err error)

	// Doctor returns what doctor tests. The caller calls leave at the end. Nil: doctor tests the
	// registers as they are.
	Doctor func(ctx context.Context, a *Access, u *url.URL) (target *doctor.Target, leave func(), err error)

	// NoteVerdict remembers for the next commands whether doctor has found a store safe. Nil: the
	// next commands need no test.
	NoteVerdict func(a *Access, u *url.URL, safe bool)

	// OpenBucket opens the bucket of an object. The URL of an object is the URL of a store, followed
	// by the key of the object. Nil: this kind of store has no objects.
	OpenBucket func(ctx context.Context, a *Access, at *ObjectURL) (Bucket, error)

	// Reservations returns the table of reservations that the URL of a bucket names, and nil if it
	// names none. It sends nothing to the table. Nil: there are no such tables.
	Reservations func(ctx context.Context, a *Access, at *ObjectURL) (*Reservations, error)

	Tables TableKind // nil: this kind of store has no tables of items
}

// Drivers are the drivers that are built into a program, by the names of their schemes.
type Drivers map[string]*Driver

// FileDriver returns the driver of directories.
func FileDriver() *Driver {
	return &Driver{Open: openDirectory, Doctor: directoryTarget, OpenBucket: openDirBucket, Tables: storeItems{}}
}

// NotBuiltInError is the error for a store of a known kind whose driver is not built into this program.
type NotBuiltInError struct{ Scheme string }

func (e *NotBuiltInError) Error() string { return "stores " + e.Scheme + ": are not built in" }

// driver returns the driver of a URL that [Access.ParseURL] has accepted.
func (a *Access) driver(u *url.URL) *Driver { return a.Drivers[u.Scheme] }

// NeedsDriver reports whether a text begins like a URL whose driver is not built into this program.
func (a *Access) NeedsDriver(text string) bool {
	name, _, found := strings.Cut(text, ":")
	s := schemeOf(name)
	return found && s != nil && a.Drivers[s.Name] == nil
}

// schemeOf returns the scheme of a name; nil if there is none. Upper case counts as lower case.
func schemeOf(name string) *Scheme {
	for _, s := range Schemes() {
		if strings.EqualFold(s.Name, name) {
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
		if !ofObjects || s.ObjectForm != "" {
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
		return exit.Usagef("unknown kind of store (known: %s)%s", known, output.DidYouMean(meantScheme(raw)))
	}
	return exit.Usagef("store %q: unknown kind of store (known: %s); for a directory write file:%s", raw, known, raw)
}

// meantScheme returns the beginning of URLs that a user most likely meant; empty if there is none.
func meantScheme(raw string) string {
	name, _, _ := strings.Cut(strings.ToLower(raw), ":")
	names := make(map[string]string) // the beginnings of URLs, by the names
	for _, s := range Schemes() {
		for _, other := range append(s.otherNames, s.Name) {
			names[other] = s.Begins()
		}
	}
	if begins := names[name]; begins != "" {
		return begins
	}
	return names[output.Nearest(name, slices.Sorted(maps.Keys(names)))]
}

// IsURL reports whether an argument that is the prefix of locks is a URL instead.
func IsURL(arg string) bool {
	scheme, _, found := strings.Cut(arg, ":")
	return missesColon(arg) || strings.Contains(arg, "://") || found && schemeOf(scheme) != nil
}
