package lease_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lease"
)

// The first page of the package comment names at most 60 things. Each
// exists, as does each other exported name that the comment links.
func TestFirstPage(t *testing.T) {
	set := token.NewFileSet()
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range paths {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	p, err := doc.NewFromFiles(set, files, "github.com/holdfast-go/holdfast/lease", doc.AllMethods)
	if err != nil {
		t.Fatal(err)
	}
	exists := map[string]bool{}
	values := func(all []*doc.Value) {
		for _, v := range all {
			for _, name := range v.Names {
				exists[name] = true
			}
		}
	}
	funcs := func(of string, all []*doc.Func) {
		for _, f := range all {
			exists[of+f.Name] = true
		}
	}
	values(p.Consts)
	values(p.Vars)
	funcs("", p.Funcs)
	for _, typ := range p.Types {
		exists[typ.Name] = true
		values(typ.Consts)
		values(typ.Vars)
		funcs("", typ.Funcs)
		funcs(typ.Name+".", typ.Methods)
		if s, ok := typ.Decl.Specs[0].(*ast.TypeSpec).Type.(*ast.StructType); ok {
			for _, field := range s.Fields.List {
				for _, name := range field.Names {
					exists[typ.Name+"."+name.Name] = true
				}
			}
		}
	}
	names := func(text string) map[string]bool {
		found := map[string]bool{}
		for _, m := range regexp.MustCompile(`\[\*?([A-Z]\w*(?:\.[A-Z]\w*)?)\]`).FindAllStringSubmatch(text, -1) {
			found[m[1]] = true
		}
		return found
	}
	first, _, _ := strings.Cut(p.Doc, "\nPrograms rarely need the rest.")
	if first == p.Doc {
		t.Fatal("the first page has no end: want a paragraph that begins with Programs rarely need the rest")
	}
	if n := len(names(first)); n < 50 || n > 60 {
		t.Errorf("the first page links %d names; want from 50 to 60", n)
	}
	for name := range names(p.Doc) {
		if !exists[name] {
			t.Errorf("the package comment links [%s], which does not exist", name)
		}
	}
	// What most programs call must not fall off the page.
	for _, name := range strings.Fields("New Client.Do Client.Acquire Client.TryAcquire Client.Close Guard.Context Guard.Token Guard.Release ErrHeld ErrLost Client.Lead Client.Once Client.OpenSession Client.Handle AcquireAll Client.RequestYield Client.Break Client.Inspect") {
		if !names(first)[name] {
			t.Errorf("the first page does not link [%s]", name)
		}
	}
}

// The fields of a type that stands for an internal one are in its comment: no page shows them
// otherwise.
func TestFieldsOfAliases(t *testing.T) {
	fset := token.NewFileSet()
	comments := map[string]string{}
	for _, name := range []string{"record.go", "cache.go", "errors.go", "ticket.go"} {
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
				comments[g.Specs[0].(*ast.TypeSpec).Name.Name] = g.Doc.Text()
			}
		}
	}
	for _, v := range []any{lease.Record{}, lease.Member{}, lease.YieldRequest{}, lease.Run{}, lease.Observation{}, lease.LostError{}, lease.HeldError{}, lease.Ticket{}, lease.PendingWrite{}} {
		typ := reflect.TypeOf(v)
		for _, field := range reflect.VisibleFields(typ) {
			if field.IsExported() && !regexp.MustCompile(`\b`+field.Name+`\b`).MatchString(comments[typ.Name()]) {
				t.Errorf("the comment of %s does not name its field %s", typ.Name(), field.Name)
			}
		}
	}
}
