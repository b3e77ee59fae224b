// Typecheck checks the types of the packages that its arguments name, and of their tests, for the system in
// GOOS. Typecheck compiles nothing: it reads all packages from source, and those of other modules without
// the bodies of their functions. For a system other than this one, that takes 4 seconds of processor time.
// A compiler with an empty cache takes 150.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// listed is what go list says about a package.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string
	Module          *struct {
		Main      bool
		GoVersion string
	}
}

func main() {
	if err := check(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func check(patterns []string) error {
	list := exec.Command("go", append([]string{"list", "-test", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap,Module"}, patterns...)...)
	list.Stderr = os.Stderr
	out, err := list.StdoutPipe()
	if err != nil {
		return err
	}
	if err := list.Start(); err != nil {
		return err
	}
	var wrong []error
	checked := imported{"unsafe": types.Unsafe}
	for packages := json.NewDecoder(out); ; {
		var p listed
		if err := packages.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if p.ImportPath != "unsafe" {
			wrong = append(wrong, checked.add(p)...)
		}
	}
	return errors.Join(append(wrong, list.Wait())...)
}

// imported holds the packages that have been checked, by import path.
type imported map[string]*types.Package

// add checks a package. The packages that it imports have been added before. An error in another module is
// not returned, because the compiler accepts what that module does.
func (i imported) add(p listed) (wrong []error) {
	own := p.Module != nil && p.Module.Main
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range p.GoFiles {
		if !filepath.IsAbs(name) { // go list generates the main package of a test elsewhere
			name = filepath.Join(p.Dir, name)
		}
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return []error{err}
		}
		files = append(files, file)
	}
	config := types.Config{
		IgnoreFuncBodies: !own,
		Importer:         importer{i, p.ImportMap},
		Sizes:            types.SizesFor("gc", runtime.GOARCH),
		Error: func(err error) {
			if own {
				wrong = append(wrong, err)
			}
		},
	}
	if own {
		config.GoVersion = "go" + p.Module.GoVersion
	}
	i[p.ImportPath], _ = config.Check(p.ImportPath, set, files, nil)
	return wrong
}

// importer finds the imports of one package.
type importer struct {
	checked imported
	paths   map[string]string // import paths, where the text in the source is another
}

func (i importer) Import(path string) (*types.Package, error) {
	if actual, ok := i.paths[path]; ok {
		path = actual
	}
	if p, ok := i.checked[path]; ok {
		return p, nil
	}
	return nil, fmt.Errorf("go list did not name the package %s", path)
}
