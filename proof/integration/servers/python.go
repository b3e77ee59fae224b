package servers

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Python returns the path of a Python interpreter with packages. A requirements file names their exact
// versions and hashes. If the packages cannot be installed, the test fails. If Python is missing, the
// test is skipped, unless CI is "true".
func Python(t testing.TB, requirements string) string {
	t.Helper()
	return get(t, "the packages of "+requirements, func(ctx context.Context) (string, error) {
		python, err := lookPath("python3")
		if err != nil {
			return "", err
		}
		list, err := os.ReadFile(requirements)
		if err != nil {
			return "", err
		}
		name := fmt.Sprintf("python-%s-%x", filepath.Base(filepath.Dir(requirements)), sha256.Sum256(list))
		dir, err := cached(name[:min(len(name), 60)], func(temp string) error {
			if err := runWithProgress(exec.CommandContext(ctx, python, "-m", "venv", temp), "making an environment of Python"); err != nil {
				return err
			}
			install := exec.CommandContext(ctx, filepath.Join(temp, "bin", "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--require-hashes", "-r", requirements)
			return runWithProgress(install, "installing "+requirements)
		})
		return filepath.Join(dir, "bin", "python"), err
	})
}
