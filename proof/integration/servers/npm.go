package servers

import (
	"context"
	"embed"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed azurite browser dynamodb
var npmFiles embed.FS

// npmDir returns a directory of the cache into which npm has installed the packages of a lock file. The file is in a
// directory of the embedded files.
func npmDir(ctx context.Context, from, name, what string) (string, error) {
	return cached(name, func(dir string) error {
		npm, err := lookPath("npm")
		if err != nil {
			return err
		}
		for _, name := range []string{"package.json", "package-lock.json"} {
			data, err := npmFiles.ReadFile(from + "/" + name)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, name), data, 0o644)
			}
			if err != nil {
				return err
			}
		}
		cmd := exec.CommandContext(ctx, npm, "ci", "--silent", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund")
		cmd.Dir = dir
		return runWithProgress(cmd, "fetching "+what)
	})
}
