package holdfast_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// requirementRules states what the files go.mod may require directly: modules of this repository by
// their directories, and others by the beginning of their paths. A user of one module
// downloads nothing that another user needs.
const requirementRules = `
.:                  -
internal/drivers:   .
lease/trylock:      .
store/sqlstore:     . internal/drivers
object:             .
items:              . internal/drivers store/sqlstore object
compat:             . internal/drivers lease/trylock object
internal/aws:       . internal/drivers github.com/aws/
aws:                . object internal/aws github.com/aws/
azure:              . internal/drivers object github.com/Azure/
items/dynamotable:  . object items internal/aws aws github.com/aws/
compat/reservation: . object compat internal/aws aws github.com/aws/
compat/s3verstore:  . internal/drivers internal/aws aws github.com/aws/
redis:              . internal/drivers github.com/redis/
gcp:                . internal/drivers object cloud.google.com/go/auth google.golang.org/api
nats:               . internal/drivers github.com/nats-io/nats.go
kubernetes:         . internal/drivers go.yaml.in/yaml/v3
etcd:               . internal/drivers go.etcd.io/etcd/ go.uber.org/zap google.golang.org/grpc
observe:            . object
otel:               . object items observe go.opentelemetry.io/otel
adapters/gocronlock:     . adapters/cronlock github.com/go-co-op/gocron/v2 github.com/robfig/cron/v3
adapters/cronlock:       . github.com/robfig/cron/v3
adapters/leaderlock:     . k8s.io/apimachinery k8s.io/client-go k8s.io/klog/v2
adapters/migratelock:    . github.com/golang-migrate/migrate/v4
adapters/gooselock:      . store/sqlstore github.com/pressly/goose/v3
adapters/certstore:      . github.com/caddyserver/certmagic
adapters/tusdlock:       . github.com/tus/tusd/v2
adapters/tofustate:      . 
cmd:                *

# Never released.
examples:               . object github.com/hibiken/asynq
proof:                  . internal/drivers
proof/integration:      *
proof/bench:            *
proof/bench/etcdserver: *
`

// goMod is what a go.mod file says.
type goMod struct {
	requires []string // the direct ones
	replaces bool
}

var requirement = regexp.MustCompile(`^(?:require )?\s*([\w.-]+/\S+) v\S+( // indirect)?$`)

func parseGoMod(text string) (m goMod) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "replace") {
			m.replaces = true
		}
		if match := requirement.FindStringSubmatch(line); match != nil && match[2] == "" {
			m.requires = append(m.requires, match[1])
		}
	}
	return m
}

// checkModules returns what is wrong with the modules by their directories. imported are the
// packages that the files of each module import, tests included.
func checkModules(mods map[string]goMod, imported map[string]map[string]bool, released []string) (problems []string) {
	rules := parseRules(requirementRules)
	dirs := slices.Collect(maps.Keys(mods))
	for _, dir := range slices.Sorted(slices.Values(dirs)) {
		allowed, ok := rules[dir]
		if !ok {
			problems = append(problems, fmt.Sprintf("%s has no line in the table of what a module may require", dir))
			continue
		}
		needs := map[string]bool{}
		for pkg := range imported[dir] {
			if ours, ok := strings.CutPrefix(pkg, module+"/"); ok || pkg == module {
				if of := moduleOf(dirs, ours); of != dir {
					needs[of] = true
				}
			}
		}
		for _, path := range mods[dir].requires {
			of, isOurs := strings.CutPrefix(path, module)
			of = strings.TrimPrefix(of, "/")
			switch {
			case isOurs && of == "":
				of = "."
			case !isOurs:
				of = path
			}
			if isOurs && !needs[of] {
				problems = append(problems, fmt.Sprintf("%s/go.mod requires %s, of which no file of the module imports a package", dir, of))
			}
			delete(needs, of)
			if !slices.ContainsFunc(allowed, func(a string) bool {
				return a == "*" || a == of || !isOurs && strings.Contains(a, ".") && a != "." && strings.HasPrefix(of, a)
			}) {
				problems = append(problems, fmt.Sprintf("%s may not require %s, only %s", dir, of, strings.Join(allowed, " ")))
			}
		}
		for of := range needs {
			problems = append(problems, fmt.Sprintf("%s imports packages of %s, which its go.mod does not require", dir, of))
		}
		if mods[dir].replaces && slices.Contains(released, dir) {
			problems = append(problems, fmt.Sprintf("%s/go.mod has a replace line, with which go install refuses the module", dir))
		}
	}
	return problems
}

// moduleOf returns the directory of the module that has a package.
func moduleOf(dirs []string, pkg string) string {
	best := "."
	for _, dir := range dirs {
		if matches(dir+"/...", pkg) && len(dir) > len(best) {
			best = dir
		}
	}
	return best
}

// TestModules checks that the modules require what they import, and no more than the table
// allows. With go.work a build does not notice what a go.mod file lacks.
func TestModules(t *testing.T) {
	mods, imported := map[string]goMod{}, map[string]map[string]bool{}
	var files []string
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch name := path.Base(file); {
		case err != nil:
			return err
		case d.IsDir() && file != "." && (name == "testdata" || strings.HasPrefix(name, ".")):
			return filepath.SkipDir
		case name == "go.mod":
			text, err := os.ReadFile(file)
			mods[path.Dir(filepath.ToSlash(file))] = parseGoMod(string(text))
			return err
		case strings.HasSuffix(name, ".go"):
			files = append(files, filepath.ToSlash(file))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	dirs := slices.Collect(maps.Keys(mods))
	for _, file := range files {
		dir := moduleOf(dirs, path.Dir(file))
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		if imported[dir] == nil {
			imported[dir] = map[string]bool{}
		}
		for _, spec := range parsed.Imports {
			pkg, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			imported[dir][pkg] = true
		}
	}
	lists := scriptLists(t)
	for _, problem := range checkModules(mods, imported, lists["modules"]) {
		t.Error(problem)
	}

	// The scripts, the workspace and the tree name the same modules.
	slices.Sort(dirs)
	listed := slices.Sorted(slices.Values(slices.Concat(lists["modules"], lists["unreleased"], lists["apart"])))
	if !slices.Equal(dirs, listed) {
		t.Errorf("there are modules in %q, internal/modules.sh lists %q", dirs, listed)
	}
	work, err := os.ReadFile("go.work")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range slices.Concat(lists["modules"], lists["unreleased"]) {
		if dir != "." && !strings.Contains(string(work), "\t./"+dir+"\n") {
			t.Errorf("go.work does not use %s", dir)
		}
	}
	for _, dir := range lists["modules"] {
		name := path.Join(module, dir)
		if dir != "cmd" && !strings.Contains(string(work), "replace "+name+" v") { // no module requires the command
			t.Errorf("go.work has no replace line for %s", name)
		}
	}
}

// scriptLists returns the lists of internal/modules.sh.
func scriptLists(t *testing.T) map[string][]string {
	text, err := os.ReadFile("internal/modules.sh")
	if err != nil {
		t.Fatal(err)
	}
	lists := map[string][]string{}
	for _, match := range regexp.MustCompile(`(?m)^(\w+)=\(([^)]*)\)$`).FindAllStringSubmatch(string(text), -1) {
		lists[match[1]] = strings.Fields(match[2])
	}
	if len(lists["modules"]) == 0 || lists["modules"][0] != "." {
		t.Fatalf("internal/modules.sh has the lists %q", lists)
	}
	return lists
}

// TestModulesNotices is the control.
func TestModulesNotices(t *testing.T) {
	for _, c := range []struct{ dir, goMod, imports, problem string }{
		{"compat", "require " + module + " v0.1.0", module + "/store", ""},
		{"aws", "require (\n\t" + module + " v0.1.0\n\tgithub.com/aws/aws-sdk-go-v2 v1.47.6\n\tgithub.com/google/uuid v1.6.0 // indirect\n)", module + "/store", ""},
		{".", "go 1.25", "testing", ""},
		{".", "go 1.25", module + "/compat/avisofile", ". imports packages of compat"},
		{".", "require golang.org/x/sys v0.47.0", "testing", ". may not require golang.org/x/sys"},
		{"compat", "require " + module + "/aws v0.1.0", module + "/aws/s3store", "compat may not require aws"},
		{"compat", "", module + "/store", "compat imports packages of ., which"},
		{"compat", "require " + module + " v0.1.0", "testing", "compat/go.mod requires ., of which no file"},
		{"compat", "require github.com/aws/smithy-go v1.28.8", "github.com/aws/smithy-go", "compat may not require github.com/aws"},
		{"cmd", "replace " + module + " => ..", "testing", "replace line"},
		{"util", "", "testing", "util has no line"},
	} {
		mods := map[string]goMod{".": {}, "aws": {}, "compat": {}}
		mods[c.dir] = parseGoMod(c.goMod)
		problems := checkModules(mods, map[string]map[string]bool{c.dir: {c.imports: true}}, []string{".", "compat", "cmd"})
		if c.problem == "" && len(problems) > 0 || c.problem != "" && (len(problems) != 1 || !strings.Contains(problems[0], c.problem)) {
			t.Errorf("%s with %q imports %s: got %q, want %q", c.dir, c.goMod, c.imports, problems, c.problem)
		}
	}
}

// TestDownload checks what a program with locks in a directory downloads: the root module
// and nothing else. No proxy is asked.
func TestDownload(t *testing.T) {
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":  "module example.org/program\n\ngo 1.25\n\nrequire " + module + " v0.1.0\n\nreplace " + module + " => " + strconv.Quote(root) + "\n",
		"main.go": "package main\n\nimport (\n\t_ \"" + module + "/lease\"\n\t_ \"" + module + "/store/filestore\"\n)\n\nfunc main() {}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	alone := []string{"GOWORK=off", "GOPROXY=off", "GOFLAGS="}
	if got := goList(t, dir, alone, "-m", "all"); !slices.Equal(got, []string{"example.org/program", module + " v0.1.0 => " + root}) {
		t.Errorf("the program requires the modules %q", got)
	}
	packages := goList(t, dir, alone, "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".")
	if !slices.Contains(packages, module+"/lease") {
		t.Errorf("the program consists of %q", packages)
	}
	// The tests of the root module need no other module either.
	goList(t, root, alone, "-deps", "-test", "./...")
}

// TestBuiltPackages checks what programs build of this repository, and of whose SDKs.
func TestBuiltPackages(t *testing.T) {
	for _, c := range []struct {
		packages string
		without  string // no built package has such a path
	}{
		{"lease checkpoint store/filestore", `holdfast/((internal/)?aws|object|items|compat|cmd|store/sqlstore|etcd|nats)(/|$)|github.com/aws/`},
		{"lease store/sqlstore", `holdfast/((internal/)?aws|object|items|compat|cmd)(/|$)|github.com/aws/`},
		{"object/bucketstore object/dirbucket object/indexbucket", `holdfast/((internal/)?aws|items|compat|cmd)/|github.com/aws/`},
		{"items/sqltable store/sqlstore", `holdfast/((internal/)?aws|compat)/|github.com/aws/`},
		{"compat/avisofile", `holdfast/((internal/)?aws|items)/|github.com/aws/`},
		{"aws/s3store lease", `holdfast/(items|compat)/|service/dynamodb`},
		{"aws/dynamostore lease", `holdfast/(items|compat)/|service/s3`},
		{"redis/redisstore lease", `holdfast/((internal/)?aws|object|items|compat|cmd|store/sqlstore)(/|$)|github.com/aws/`},
		{"gcp/gcsstore lease", `holdfast/((internal/)?aws|items|compat|cmd)/|github.com/aws/`},
		{"etcd/etcdstore lease", `holdfast/((internal/)?aws|object|items|compat|cmd|store/sqlstore|nats)(/|$)|github.com/(aws|nats-io)/`},
		{"kubernetes/kubestore lease", `holdfast/((internal/)?aws|object|items|compat|cmd|store/sqlstore|etcd|nats)(/|$)|github.com/(aws|nats-io)/|k8s.io/`},
		{"observe/dashboard observe/metrics observe/picture", `holdfast/((internal/)?aws|items|compat|cmd|store/sqlstore|etcd|nats)(/|$)|github.com/aws/`},
		{"otel/otelhold", `holdfast/((internal/)?aws|items|compat|cmd|store/sqlstore|etcd|nats)(/|$)|github.com/aws/|opentelemetry.io/otel/sdk`},
		{"nats/natsstore lease", `holdfast/((internal/)?aws|object|items|compat|cmd|store/sqlstore|etcd)(/|$)|github.com/aws/|google.golang.org/`},
	} {
		args := []string{"-deps"}
		for pkg := range strings.FieldsSeq(c.packages) {
			args = append(args, module+"/"+pkg)
		}
		for _, pkg := range goList(t, ".", nil, args...) {
			if regexp.MustCompile(c.without).MatchString(pkg) {
				t.Errorf("a program with %s builds %s", c.packages, pkg)
			}
		}
	}
}

// goList returns the lines that go list prints.
func goList(t *testing.T, dir string, env []string, args ...string) []string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	list.Dir, list.Env = dir, append(os.Environ(), env...)
	var messages strings.Builder
	list.Stderr = &messages
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list %q: %v\n%s", args, err, messages.String())
	}
	return slices.DeleteFunc(strings.Split(string(out), "\n"), func(line string) bool { return line == "" })
}
