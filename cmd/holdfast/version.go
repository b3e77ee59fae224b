package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is the version of a release; the release build sets it.
var version = ""

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: `  holdfast version`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if a.JSON {
				return a.PrintJSON(map[string]string{"version": versionNumber(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH})
			}
			_, err := fmt.Fprintln(a.Stdout, versionText())
			return err
		},
	}
}

func versionNumber() string {
	v := version
	if info, ok := debug.ReadBuildInfo(); v == "" && ok && info.Main.Version != "" {
		v = info.Main.Version
	}
	return cmp.Or(v, "(devel)")
}

func versionText() string {
	return fmt.Sprintf("holdfast %s %s %s/%s", versionNumber(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
