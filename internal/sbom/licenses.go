package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"unicode"
)

// licenseName are the names of files that a licence obliges to pass on.
var licenseName = regexp.MustCompile(`(?i)(licen[cs]e|copying|notice|patents)`)

// printLicenses prints the licences of Go and of all modules in the binaries. Each text is
// there once.
func printLicenses(binaries []string, out io.Writer) error {
	paths, err := exec.Command("go", "env", "GOROOT", "GOMODCACHE").Output()
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	goRoot, cache, _ := strings.Cut(strings.TrimSpace(string(paths)), "\n")
	dirs := map[string]string{}
	for _, path := range binaries {
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, dep := range linked(info) {
			dirs[dep.Path+" "+dep.Version] = filepath.Join(cache, filepath.FromSlash(escaped(dep.Path)+"@"+escaped(dep.Version)))
		}
	}
	seen := map[[sha256.Size]byte]string{} // what a text is the licence of
	print := func(name string, files map[string][]byte) error {
		if len(files) == 0 {
			return fmt.Errorf("%s has no licence, so that it cannot be passed on", name)
		}
		for _, file := range slices.Sorted(maps.Keys(files)) {
			text := bytes.TrimSpace(files[file])
			of, what := sha256.Sum256(text), name+": "+file
			if other, same := seen[of]; same {
				fmt.Fprintf(out, "==== %s: as that of %s\n\n", what, other)
				continue
			}
			seen[of] = what
			fmt.Fprintf(out, "==== %s\n\n%s\n\n", what, text)
		}
		return nil
	}
	root, err := licensesIn(goRoot, false)
	if err == nil {
		err = print("Go", root)
	}
	for _, name := range slices.Sorted(maps.Keys(dirs)) {
		var files map[string][]byte
		if err == nil {
			files, err = licensesIn(dirs[name], true)
		}
		if err == nil {
			err = print(name, files)
		}
	}
	return err
}

// linked returns the modules in a binary that are not of this repository.
func linked(info *buildinfo.BuildInfo) (modules []*debug.Module) {
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		if !strings.HasPrefix(dep.Path, "github.com/holdfast-go/") { // which are released together
			modules = append(modules, dep)
		}
	}
	return modules
}

// licensesIn returns the licences in a directory, by their names: below it, too, if deep.
func licensesIn(dir string, deep bool) (map[string][]byte, error) {
	files := map[string][]byte{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (!deep || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case !d.Type().IsRegular() || !licenseName.MatchString(d.Name()) || filepath.Ext(name) == ".go":
			return nil
		}
		files[name], err = os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		return err
	})
	return files, err
}

// escaped is a path or a version as the module cache has it: on some systems the names of files
// do not tell capitals apart.
func escaped(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsUpper(r) {
			b.WriteByte('!')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}
