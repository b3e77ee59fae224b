package holdfast_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/holdfast-go/holdfast"

// importRules states which package of this repository may import which. The
// most specific line counts, and a/... means all packages below a. It is the design
// of the project: do not change it to make a build pass.
//
// Packages that do not exist yet have their lines here already. Tests are free to
// import what they test with.
const importRules = `
# The register imports no other layer, and what uses it imports no backend.
store:                internal/backoff
lease:                store internal/... lease/internal/...
object:               store internal/... object/internal/...
checkpoint:           store internal/... checkpoint/internal/...

# Backends and decorators know the register.
store/...:            store internal/...
store/filestore/...:  store internal/... store/filestore/internal/...
store/sqlstore/...:   store store/engine internal/... store/sqlstore/internal/...
object/...:           store object internal/... object/internal/...
object/bucketstore:   store store/engine object internal/...
object/dirbucket:     store store/filestore object internal/... object/internal/...
checkpoint/...:       store checkpoint internal/... checkpoint/internal/...
lease/...:            store lease internal/... lease/internal/...
lease/trylock:        store lease internal/abandon internal/backoff internal/sysclock

# The rules of a record are pure: no context, no clock, no store. The models run them. The layers
# below lease follow, from the lowest up: each imports only those above its line.
internal/lockrec:     store
lease/internal/event:   -
lease/internal/cell:    store internal/... lease/internal/event
lease/internal/filecache: store internal/... lease/internal/event lease/internal/cell
lease/internal/waiting: store internal/... lease/internal/cell
lease/internal/belief:  store internal/... lease/internal/event lease/internal/cell
lease/internal/membership: store internal/... lease/internal/event lease/internal/cell lease/internal/waiting lease/internal/belief
lease/internal/holding: store internal/... lease/internal/event lease/internal/cell lease/internal/waiting lease/internal/belief lease/internal/membership
lease/internal/ticket:  store internal/... lease/internal/event lease/internal/cell lease/internal/belief lease/internal/holding
lease/internal/upkeep:  store internal/... lease/internal/cell lease/internal/holding

# What one tests with may use any backend below it.
store/storetest:      store internal/registerrules internal/suitetest
object/objecttest:    store/... object/... internal/suitetest
lease/leasetest:      store/... lease internal/...

# What serves several of them knows none of them.
internal/...:         store internal/...
internal/backoff:     -
internal/localfs:     -
internal/objectname:  -
internal/safefile:    store
internal/suitetest:   store

# What drivers of stores outside the root module share. It is a module, so that the root stays small.
internal/drivers/...: store internal/...
internal/drivers/sqldialect:  store store/engine internal/abandon
internal/drivers/jsontext:    -
internal/drivers/storeurl:    -
internal/drivers/versionlog:  internal/fold

# What the modules for AWS share. It is a module, because it needs the SDK.
internal/aws/...:     store store/engine internal/...

# Vendors' modules know the registers and the buckets, and never what uses them: nor each
# other.
aws/...:              store/... object/... internal/... aws/...
gcp/...:              store/... object/... internal/... gcp/...
azure/...:            store/... object/... internal/... azure/...
redis/...:            store/... internal/... redis/...
etcd/...:             store/... internal/... etcd/...
nats/...:             store/... internal/... nats/...
kubernetes/...:       store/... internal/... kubernetes/...

# Large items and their tables. No other layer imports them.
items/largeitem:      store object internal/...
items/...:            store items/largeitem internal/... items/internal/...
items/sqltable:       store store/sqlstore items/largeitem internal/... items/internal/...
items/dynamotable:    store items/largeitem internal/...
items/itemtest:       store/... object/... items/... internal/...

# What shows the state of a store to people. Only the command imports it.
observe/...:          store lease checkpoint object internal/... observe/...
observe/picture:      lease
otel/...:             store lease object observe/metrics/... otel/...

# Adapters to other programs. Each knows one of them. Only the command imports them.
adapters/...:         store lease object checkpoint internal/... adapters/...
adapters/gooselock:   store lease store/sqlstore

# The formats of other programs. No other layer imports them.
compat/...:           store object checkpoint internal/... compat/...
compat/leaselocks:    store lease/trylock internal/abandon internal/drivers/sqldialect
compat/reservation:   store object compat/reserve internal/...
compat/s3verstore:    store aws/s3bucket internal/...

# No package imports the program. Its packages follow, from the lowest up. Those at the end are groups of
# commands: none imports another.
cmd/internal/child:     -
cmd/internal/jsontest:  -
cmd/internal/printable: -
cmd/internal/trial:     store
cmd/internal/exit:      store lease object internal/drivers/storeurl checkpoint items/largeitem compat/avisofile
cmd/internal/output:    store cmd/internal/printable
cmd/internal/doctor:    store store/filestore object internal/... cmd/internal/printable cmd/internal/trial
cmd/internal/doctor/awsdoctor: store object compat/reservation compat/s3verstore aws/... cmd/internal/doctor cmd/internal/trial
cmd/internal/doctor/gcpdoctor: store object gcp/... cmd/internal/doctor cmd/internal/trial
cmd/internal/stores:    store store/filestore store/memstore object object/dirbucket items/largeitem items/storetable compat/reserve internal/... cmd/internal/printable cmd/internal/exit cmd/internal/output cmd/internal/doctor
cmd/internal/allstores: store/... object/... items/... compat/... aws/... redis/... gcp/... azure/... etcd/... nats/... kubernetes/... internal/... cmd/internal/printable cmd/internal/exit cmd/internal/output cmd/internal/doctor/... cmd/internal/stores
cmd/internal/cmdline:   store internal/... cmd/internal/printable cmd/internal/exit cmd/internal/child cmd/internal/output cmd/internal/stores
cmd/internal/transfer:  object internal/... cmd/internal/exit cmd/internal/output
cmd/internal/leases:    store store/filestore lease internal/... observe/lockstate cmd/internal/printable cmd/internal/exit cmd/internal/output cmd/internal/stores cmd/internal/cmdline
cmd/internal/locks:     store store/engine store/filestore lease internal/... cmd/internal/printable cmd/internal/exit cmd/internal/output cmd/internal/trial cmd/internal/doctor cmd/internal/stores cmd/internal/cmdline cmd/internal/leases observe/picture
cmd/internal/holding:   store store/filestore lease internal/... observe/metrics/promtext cmd/internal/printable cmd/internal/exit cmd/internal/child cmd/internal/output cmd/internal/stores cmd/internal/cmdline cmd/internal/leases
cmd/internal/checkpoints: store lease checkpoint compat/avisofile compat/resumekey cmd/internal/printable cmd/internal/exit cmd/internal/output cmd/internal/stores cmd/internal/cmdline cmd/internal/leases
cmd/internal/moving:    store lease checkpoint internal/... cmd/internal/printable cmd/internal/exit cmd/internal/output cmd/internal/stores cmd/internal/cmdline cmd/internal/leases
cmd/internal/objects:   store object/... compat/reserve internal/... cmd/internal/printable cmd/internal/exit cmd/internal/output cmd/internal/stores cmd/internal/cmdline cmd/internal/transfer
cmd/internal/items:     store items/largeitem internal/... cmd/internal/printable cmd/internal/exit cmd/internal/output cmd/internal/stores cmd/internal/cmdline cmd/internal/transfer
cmd/internal/serving:   internal/... cmd/internal/exit cmd/internal/cmdline cmd/internal/leases
cmd/internal/webpage:   object observe/... adapters/tofustate cmd/internal/exit cmd/internal/doctor cmd/internal/cmdline cmd/internal/serving
cmd/internal/command:   store lease object checkpoint internal/... cmd/internal/printable cmd/internal/exit cmd/internal/output cmd/internal/trial cmd/internal/doctor cmd/internal/stores cmd/internal/cmdline cmd/internal/leases cmd/internal/locks cmd/internal/holding cmd/internal/checkpoints cmd/internal/moving cmd/internal/objects cmd/internal/items cmd/internal/serving observe/picture
cmd/holdfast:           cmd/internal/command cmd/internal/stores
cmd/holdfast-stores:    cmd/internal/command cmd/internal/allstores cmd/internal/webpage
.:                    -

# Never released.
examples/...:          store/... lease/... object/... checkpoint/... examples/...
proof/...:             internal/lockrec proof/...
proof/logmodel:        internal/fold proof/...
proof/versionmodel:    internal/drivers/versionlog proof/...
proof/integration/...: *
proof/bench/...:       *
`

// importedBy states which packages alone may import one that the table above lets others import.
var importedBy = map[string][]string{
	"internal/lockrec": {"lease", "lease/internal/...", "proof/..."},
}

// neverReleased is not imported by anything that is.
var neverReleased = []string{"proof/...", "examples/..."}

func TestImports(t *testing.T) {
	graph, modules, err := readImports(".")
	if err != nil {
		t.Fatal(err)
	}
	if len(graph["store"]) == 0 {
		t.Fatalf("package store was not found; found %q", slices.Sorted(maps.Keys(graph)))
	}
	for _, problem := range checkImports(graph, modules) {
		t.Error(problem)
	}
}

// TestImportRules is the control: graphs that break a rule are noticed.
func TestImportRules(t *testing.T) {
	modules := []string{".", "aws", "cmd", "compat", "internal/aws"}
	sound := map[string][]string{
		"store": {"context"}, "lease": {module + "/store", "time"}, "cmd/internal/command": {module + "/lease", module + "/cmd/internal/locks", "golang.org/x/term"}, "cmd/internal/allstores": {module + "/aws/s3store"},
		"aws/s3store": {module + "/object", "github.com/aws/aws-sdk-go-v2/aws"}, "store/storetest": {"testing", module + "/store"}, ".": nil,
		"aws/awstest": {"testing", module + "/store/storetest"},
	}
	if got := checkImports(sound, modules); len(got) > 0 {
		t.Errorf("a sound graph: %q", got)
	}
	for _, c := range []struct{ pkg, imports, problem string }{
		{"store", module + "/lease", "store may not import lease"},
		{"lease", module + "/store/memstore", "lease may not import store/memstore"},
		{"object", module + "/lease", "object may not import lease"},
		{"checkpoint", module + "/store/filestore", "checkpoint may not import store/filestore"},
		{"items/largeitem", module + "/items/dynamotable", "items/largeitem may not import items/dynamotable"},
		{"object", module + "/items/largeitem", "object may not import items/largeitem"},
		{"aws/s3bucket", module + "/items/largeitem", "aws/s3bucket may not import items/largeitem"},
		{"compat/avisofile", module + "/items/largeitem", "compat/avisofile may not import items/largeitem"},
		{"checkpoint", module + "/compat/avisofile", "checkpoint may not import compat/avisofile"},
		{"object", module + "/compat/reserve", "object may not import compat/reserve"},
		{"compat/avisofile", module + "/lease", "compat/avisofile may not import lease"},
		{"compat/avisofile", module + "/aws/s3bucket", "compat/avisofile may not import aws/s3bucket"},
		{"store/memstore", module + "/object", "store/memstore may not import object"},
		{"store/filestore", module + "/store/storetest", "tests with"},
		{"store/faultstore", module + "/store/memstore", "store/faultstore may not import store/memstore"},
		{"aws/s3store", module + "/lease", "aws/s3store may not import lease"},
		{"aws/s3store", module + "/compat/avisofile", "aws/s3store may not import compat/avisofile"},
		{"store/filestore", module + "/internal/lockrec", "only lease lease/internal/... proof/... may"},
		{"internal/lockrec", module + "/internal/fold", "internal/lockrec may not import internal/fold"},
		{"proof/lockmodel", module + "/lease", "proof/lockmodel may not import lease"},
		{"lease", module + "/proof/explore", "never released"},
		{"lease", module + "/cmd/holdfast", "lease may not import cmd/holdfast"},
		{"cmd/holdfast", module + "/proof/integration/servers", "never released"},
		{"cmd/internal/exit", module + "/cmd/internal/child", "exit may not import cmd/internal/child"},
		{"cmd/internal/output", module + "/cmd/internal/stores", "output may not import cmd/internal/stores"},
		{"cmd/internal/stores", module + "/lease", "stores may not import lease"},
		{"cmd/internal/cmdline", module + "/lease", "cmdline may not import lease"},
		{"cmd/internal/transfer", module + "/cmd/internal/cmdline", "transfer may not import cmd/internal/cmdline"},
		{"cmd/internal/items", module + "/lease", "items may not import lease"},
		{"cmd/internal/items", module + "/cmd/internal/objects", "items may not import cmd/internal/objects"},
		{"cmd/internal/leases", module + "/object", "leases may not import object"},
		{"cmd/internal/checkpoints", module + "/object", "checkpoints may not import object"},
		{"cmd/internal/checkpoints", module + "/cmd/internal/items", "checkpoints may not import cmd/internal/items"},
		{"cmd/internal/moving", module + "/cmd/internal/checkpoints", "moving may not import cmd/internal/checkpoints"},
		{"cmd/internal/objects", module + "/lease", "objects may not import lease"},
		{"cmd/internal/objects", module + "/cmd/internal/items", "objects may not import cmd/internal/items"},
		{"cmd/internal/locks", module + "/object", "locks may not import object"},
		{"cmd/internal/locks", module + "/cmd/internal/holding", "locks may not import cmd/internal/holding"},
		{"cmd/internal/holding", module + "/checkpoint", "holding may not import checkpoint"},
		{"cmd/internal/holding", module + "/cmd/internal/locks", "holding may not import cmd/internal/locks"},
		{"cmd/internal/stores", module + "/aws/s3store", "stores may not import aws/s3store"},
		{"cmd/internal/doctor", module + "/cmd/internal/doctor/awsdoctor", "doctor may not import cmd/internal/doctor/awsdoctor"},
		{"cmd/internal/command", module + "/cmd/internal/allstores", "command may not import cmd/internal/allstores"},
		{"cmd/internal/stores", module + "/cmd/internal/cmdline", "stores may not import cmd/internal/cmdline"},
		{"cmd/internal/child", module + "/cmd/internal/command", "child may not import cmd/internal/command"},
		{"internal/fold", module + "/internal/aws/awscall", "the root module imports no other module"},
		{"store/filestore", module + "/internal/aws/awscall", "the root module imports no other module"},
		{"internal/localfs", module + "/store", "internal/localfs may not import store"},
		{"store", "golang.org/x/sys/unix", "standard library only"},
		{"store", "C", "standard library only"},
		{"lease", "testing", "tests with"},
		{"internal/lockrec", module + "/lease/internal/cell", "internal/lockrec may not import lease/internal/cell"},
		{"lease/internal/cell", module + "/lease", "cell may not import lease"},
		{"lease/internal/cell", module + "/lease/internal/waiting", "cell may not import lease/internal/waiting"},
		{"lease/internal/event", module + "/lease/internal/cell", "event may not import lease/internal/cell"},
		{"lease/internal/waiting", module + "/lease/internal/belief", "waiting may not import lease/internal/belief"},
		{"lease/internal/belief", module + "/lease/internal/waiting", "belief may not import lease/internal/waiting"},
		{"lease/internal/belief", module + "/lease/internal/membership", "belief may not import lease/internal/membership"},
		{"lease/internal/membership", module + "/lease/internal/holding", "membership may not import lease/internal/holding"},
		{"lease/internal/holding", module + "/lease", "holding may not import lease"},
		{"lease/internal/filecache", module + "/lease/internal/waiting", "filecache may not import lease/internal/waiting"},
		{"lease/internal/ticket", module + "/lease", "ticket may not import lease"},
		{"cmd/holdfast", module + "/store/storetest", "tests with"},
		{"cmd/holdfast", module + "/aws/s3store", "cmd/holdfast may not import aws/s3store"},
		{"cmd/internal/common", "fmt", "cmd/internal/common has no line"},
		{"util", "fmt", "util has no line"},
	} {
		got := checkImports(map[string][]string{c.pkg: {c.imports}}, modules)
		if !slices.ContainsFunc(got, func(problem string) bool { return strings.Contains(problem, c.problem) }) {
			t.Errorf("%s imports %s: got %q, want %q", c.pkg, c.imports, got, c.problem)
		}
	}
}

// checkImports returns what in a graph of imports breaks a rule. Packages of ours are
// named without the module, those in the root of the repository "."; modules are the
// directories that have a go.mod.
func checkImports(graph map[string][]string, modules []string) (problems []string) {
	rules := parseRules(importRules)
	ofRoot := func(pkg string) bool {
		return !slices.ContainsFunc(modules, func(m string) bool { return m != "." && matches(m+"/...", pkg) })
	}
	for _, pkg := range slices.Sorted(maps.Keys(graph)) {
		allowed, ok := mostSpecific(rules, pkg)
		if !ok {
			problems = append(problems, fmt.Sprintf("%s has no line in the table of who may import whom", pkg))
			continue
		}
		unreleased := matchesAny(neverReleased, pkg)
		testHelper := pkg == "internal/powercut" || strings.HasSuffix(pkg, "test")
		for _, imported := range graph[pkg] {
			ours, isOurs := strings.CutPrefix(imported, module+"/")
			switch {
			case !isOurs && ofRoot(pkg) && (imported == "C" || strings.Contains(strings.Split(imported, "/")[0], ".")):
				problems = append(problems, fmt.Sprintf("%s imports %s: the root module uses the standard library only", pkg, imported))
			case !unreleased && !testHelper && (imported == "testing" || isOurs && strings.HasSuffix(ours, "test")):
				problems = append(problems, fmt.Sprintf("%s imports %s, which one tests with", pkg, imported))
			case isOurs && !unreleased && matchesAny(neverReleased, ours):
				problems = append(problems, fmt.Sprintf("%s imports %s, which is never released", pkg, ours))
			case isOurs && importedBy[ours] != nil && !matchesAny(importedBy[ours], pkg):
				problems = append(problems, fmt.Sprintf("%s may not import %s: only %s may", pkg, ours, strings.Join(importedBy[ours], " ")))
			case isOurs && !matchesAny(allowed, ours):
				problems = append(problems, fmt.Sprintf("%s may not import %s, only %s", pkg, ours, strings.Join(allowed, " ")))
			case isOurs && ofRoot(pkg) && !ofRoot(ours) && !unreleased:
				problems = append(problems, fmt.Sprintf("%s imports %s: the root module imports no other module", pkg, ours))
			}
		}
	}
	return problems
}

// parseRules returns a table: pattern to patterns.
func parseRules(table string) map[string][]string {
	rules := make(map[string][]string)
	for line := range strings.Lines(table) {
		pattern, allowed, ok := strings.Cut(strings.TrimSpace(line), ":")
		if ok && !strings.HasPrefix(pattern, "#") {
			rules[pattern] = strings.Fields(allowed)
		}
	}
	return rules
}

// mostSpecific returns the rule of the longest pattern that matches; one without
// dots goes before one with.
func mostSpecific(rules map[string][]string, pkg string) ([]string, bool) {
	best := ""
	for pattern := range rules {
		if matches(pattern, pkg) && (pattern == pkg || best != pkg && len(pattern) > len(best)) {
			best = pattern
		}
	}
	return rules[best], best != ""
}

// matches reports whether pkg is the pattern or, for x/..., x or below it.
func matches(pattern, pkg string) bool {
	below, tree := strings.CutSuffix(pattern, "/...")
	return pattern == "*" || pkg == below || tree && strings.HasPrefix(pkg, below+"/")
}

func matchesAny(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, pkg) })
}

// readImports reads what the packages below root import, outside tests, for every
// platform and build tag, and which directories are modules. It reads the files
// themselves, so that it needs neither the network nor the dependencies.
func readImports(root string) (graph map[string][]string, modules []string, err error) {
	graph = make(map[string][]string)
	err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		switch {
		case d.IsDir() && file != root && (name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")):
			return filepath.SkipDir
		case d.IsDir():
			return nil
		case name == "go.mod":
			modules = append(modules, path.Dir(filepath.ToSlash(file)))
			return nil
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		pkg := path.Dir(filepath.ToSlash(file))
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			graph[pkg] = append(graph[pkg], imported)
		}
		return nil
	})
	return graph, modules, err
}
