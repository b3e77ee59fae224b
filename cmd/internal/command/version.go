package command

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os/exec"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
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
			result := map[string]string{"version": versionNumber(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH}
			text := versionText()
			if len(a.Drivers) < len(stores.Schemes()) {
				version, found := companionVersion()
				result["stores_version"] = version
				text += "\n" + companion + " " + found
			}
			return a.Print(result, text)
		},
	}
}

// companionVersion returns the version of the companion, empty if it has none, and a text for people.
func companionVersion() (version, text string) {
	path := findCompanion()
	if path == "" {
		return "", "is missing: holdfast can open directories only"
	}
	out, err := exec.Command(path, "version", "--json").Output()
	var result struct{ Version string }
	if err == nil {
		err = json.Unmarshal(out, &result)
	}
	if err != nil {
		return "", fmt.Sprintf("(%s) cannot be used: %v", path, err)
	}
	return result.Version, fmt.Sprintf("%s (%s)", printable.Line(result.Version), path)
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
