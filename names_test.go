package holdfast_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// scope is what the packages of this repository declare: "Name" and "Type.Member" by directory,
// and the directories by the name of the package.
type scope struct {
	names       map[string]map[string]bool
	directories map[string][]string
	aliases     map[string]string // "directory.Name" to "pkg.Type"
}

func newScope() *scope {
	return &scope{names: map[string]map[string]bool{}, directories: map[string][]string{}, aliases: map[string]string{}}
}

var (
	docLink  = regexp.MustCompile(`\[\*?([A-Z]\w*[a-z]\w*|[A-Za-z]\w*\.[A-Z]\w*(?:\.[A-Z]\w*)?)\](?:(\.[A-Z]\w*)\b|[^(\[:]|$)`)
	codeName = regexp.MustCompile("`\\*?([A-Za-z]\\w*\\.[A-Z]\\w*[a-z]\\w*(?:\\.[A-Z]\\w*)?)(?:\\(.*?\\))?`")
)

// declare adds what a file declares.
func (s *scope) declare(dir string, f *ast.File) {
	if s.names[dir] == nil {
		s.names[dir] = map[string]bool{}
		name := strings.TrimSuffix(f.Name.Name, "_test")
		s.directories[name] = append(s.directories[name], dir)
	}
	add := func(parts ...string) { s.names[dir][strings.Join(parts, ".")] = true }
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				add(d.Name.Name)
			} else {
				add(receiver(d.Recv.List[0].Type), d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						add(name.Name)
					}
				case *ast.TypeSpec:
					add(spec.Name.Name)
					if of, ok := spec.Type.(*ast.SelectorExpr); ok && spec.Assign.IsValid() {
						s.aliases[dir+"."+spec.Name.Name] = of.X.(*ast.Ident).Name + "." + of.Sel.Name
					}
					ast.Inspect(spec.Type, func(n ast.Node) bool {
						if _, ok := n.(*ast.FuncType); ok {
							return false // its parameters are no members
						}
						if field, ok := n.(*ast.Field); ok {
							for _, name := range field.Names {
								add(spec.Name.Name, name.Name)
							}
							if len(field.Names) == 0 { // what it embeds has members of its own
								add(spec.Name.Name, "*")
							}
						}
						return true
					})
				}
			}
		}
	}
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// has reports whether a name may be one of a directory. It is known not to be if the type is
// declared there and has no such member.
func (s *scope) has(dir, name string) bool {
	owner, of, member := strings.Cut(name, ".")
	if alias := s.aliases[dir+"."+owner]; member && alias != "" {
		return !s.missing(alias + "." + of)
	}
	return s.names[dir][name] || member && s.names[dir][owner+".*"]
}

// missing reports whether name, as in "Name", "Type.Member", "pkg.Name" or "pkg.Type.Member", is
// one of this repository that is not declared. dirs are where it is looked up without a package.
func (s *scope) missing(name string, dirs ...string) bool {
	first, rest, qualified := strings.Cut(name, ".")
	value := strings.ToUpper(first[:1]) + first[1:] + "." + rest // guard.Err() may be of a Guard
	if slices.ContainsFunc(dirs, func(dir string) bool { return s.names[dir][value] }) {
		return false
	}
	if packages := s.directories[first]; qualified && len(packages) > 0 {
		dirs, name = packages, rest
	} else if qualified {
		dirs = slices.DeleteFunc(slices.Clone(dirs), func(dir string) bool { return !s.names[dir][first] })
		if len(dirs) == 0 {
			return false // of another module
		}
	}
	return !slices.ContainsFunc(dirs, func(dir string) bool { return s.has(dir, name) })
}

// TestNames checks that the names in the documents, and those to which comments link, exist.
func TestNames(t *testing.T) {
	_, texts, err := readRepository(".")
	if err != nil {
		t.Fatal(err)
	}
	s := newScope()
	files, set := map[string]*ast.File{}, token.NewFileSet()
	for name, text := range texts {
		if path.Ext(name) == ".go" && !strings.Contains(name, "testdata/") {
			f, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files[name] = f
			s.declare(path.Dir(name), f)
		}
	}
	links := 0
	for name, f := range files {
		for _, group := range f.Comments {
			for _, link := range docLink.FindAllStringSubmatch(group.Text(), -1) {
				links++
				if s.missing(link[1]+link[2], path.Dir(name)) { // as in [Options].TTL
					t.Errorf("%s: there is no %s%s", set.Position(group.Pos()), link[1], link[2])
				}
			}
		}
	}
	var all []string
	for dir := range s.names {
		all = append(all, dir)
	}
	for name, text := range texts {
		if path.Ext(name) == ".md" {
			for _, match := range codeName.FindAllStringSubmatch(text, -1) {
				links++
				if s.missing(match[1], all...) {
					t.Errorf("%s: there is no %s", name, match[1])
				}
			}
		}
	}
	if links < 1000 {
		t.Errorf("only %d names were found", links)
	}
}

// TestNamesNotices is the control.
func TestNamesNotices(t *testing.T) {
	s := newScope()
	for dir, text := range map[string]string{
		"lease":  "package lease; type Guard struct { Token uint64 }; func (g *Guard) Err() error; type Options struct { Tuning }; var ErrLost error",
		"record": "package record; type Record struct { Token uint64 }",
		"object": "package object; type Record = record.Record; type Log struct { *Client }; func Open() {}",
	} {
		f, err := parser.ParseFile(token.NewFileSet(), dir, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		s.declare(dir, f)
	}
	for _, c := range []struct {
		name    string
		dirs    []string
		missing bool
	}{
		{"ErrLost", []string{"lease"}, false},
		{"ErrLost", []string{"object"}, true},
		{"lease.ErrLost", []string{"object"}, false},
		{"lease.ErrGone", []string{"object"}, true},
		{"object.Wait", []string{"lease"}, true},
		{"http.Client", []string{"object"}, false},
		{"Guard.Err", []string{"object", "lease"}, false},
		{"Guard.Token", []string{"lease"}, false},
		{"Record.Token", []string{"object"}, false},
		{"Record.Wait", []string{"object"}, true},
		{"Guard.Wait", []string{"object", "lease"}, true},
		{"Guard.Wait", []string{"object"}, false}, // a type of another module, for all that is known
		{"lease.Guard.Wait", []string{"object"}, true},
		{"Options.Renew", []string{"lease"}, false}, // perhaps of what it embeds
	} {
		if got := s.missing(c.name, c.dirs...); got != c.missing {
			t.Errorf("%s in %v is missing: %t, want %t", c.name, c.dirs, got, c.missing)
		}
	}
	for text, name := range map[string]string{"see [Log] too": "Log", "[*Log.Append].": "Log.Append", "[Log](a.html)": "", "[A]": "", "[FILE]": ""} {
		got := ""
		if match := docLink.FindStringSubmatch(text); match != nil {
			got = match[1]
		}
		if got != name {
			t.Errorf("%q links to %q, want %q", text, got, name)
		}
	}
}
