package command

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
)

// companion is the program to which this one hands a command line over if the driver of a store is not
// built in.
const companion = "holdfast-stores"

// callerVariable is the variable in which the companion finds the version of its caller. The companion
// removes the variable: no job inherits it.
const callerVariable = "HOLDFAST_CALLER_VERSION"

// namesOthers reports whether a command line names a store, an object or a table whose driver is not built
// in. It may be wrong, for example about the name of a lock: the companion can do whatever this program can.
func (a *app) namesOthers(cmd *cobra.Command, args []string) bool {
	group := cmd
	for group.HasParent() && group.Parent().HasParent() {
		group = group.Parent()
	}
	if group.GroupID == "" {
		return false // help and the like use no store
	}
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		args = args[:dash]
	}
	named := append([]string{a.StoreURL}, args...)
	for _, name := range []string{"also-store", "table", "bucket"} {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
			values := []string{f.Value.String()}
			if several, ok := f.Value.(pflag.SliceValue); ok {
				values = several.GetSlice()
			}
			for _, given := range values {
				url, _ := a.Named(given) // the command itself reports errors
				named = append(named, url)
			}
		}
	}
	return slices.ContainsFunc(named, a.NeedsDriver)
}

// findCompanion returns the path of the companion: in the directory of this program, or in PATH. It is empty if there is
// none.
func findCompanion() string {
	places := []string{companion}
	if self, err := os.Executable(); err == nil {
		places = []string{filepath.Join(filepath.Dir(self), companion), companion}
		if real, err := filepath.EvalSymlinks(self); err == nil {
			places = slices.Insert(places, 1, filepath.Join(filepath.Dir(real), companion))
		}
	}
	for _, place := range places {
		if path, err := exec.LookPath(place); err == nil {
			return path
		}
	}
	return ""
}

// handOver makes the companion do this command line, with the same arguments, variables and open files. On
// Unix the process becomes the companion, and handOver returns only an error.
func (a *app) handOver() error {
	path := findCompanion()
	switch {
	case path == "":
		what := "this store"
		if strings.HasPrefix(a.Path, "holdfast serve") {
			what = "serve"
		}
		return output.WithHints(what+" needs the program "+companion+", which is neither in the directory of holdfast nor in PATH", errNoCompanion, a.installing())
	case a.called:
		return exit.With(exit.Unsafe, fmt.Errorf("%s is not the program %s: it opens directories only", path, companion))
	}
	err := become(path, append([]string{os.Args[0]}, a.Args...), append(os.Environ(), callerVariable+"="+versionNumber()))
	if errors.As(err, new(*exit.Error)) {
		return err // the status of the companion
	}
	return exit.With(exit.Unsafe, fmt.Errorf("%s cannot be started: %w", path, err))
}

var errNoCompanion = exit.With(exit.Unsafe, errors.New(companion+" is missing"))

// installing says how to install both programs.
func (a *app) installing() []string {
	version := versionNumber()
	if strings.ContainsAny(version, "(+") {
		version = "latest"
	}
	return []string{
		"install both programs: go install github.com/holdfast-go/holdfast/cmd/...@" + version + "; in a clone: go install ./cmd/...",
		"or copy " + companion + " of the same release to the directory of holdfast",
	}
}

// checkCaller refuses a command line that a holdfast of another version has handed over: it may understand
// flags, files and variables differently.
func (a *app) checkCaller() error {
	if !a.called {
		return nil
	}
	own := versionNumber()
	if a.caller == own {
		return nil
	}
	self, _ := os.Executable()
	return output.WithHints(fmt.Sprintf("holdfast has the version %s, but %s has the version %s", a.caller, self, own), errOtherVersion, a.installing())
}

var errOtherVersion = exit.With(exit.Unsafe, errors.New("the programs are of different versions"))
