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

// CargoBinary builds a Rust program with cargo, and returns the path of its binary. The package in dir
// must have a Cargo.lock. All its source files must be below root. If the build fails, the test fails. If
// cargo is missing, the test is skipped, unless CI is "true". A crate may say that it needs a newer compiler: the build
// then shows whether this is so.
func CargoBinary(t testing.TB, root, dir, program string) string {
	t.Helper()
	return get(t, program+" in "+dir, func(ctx context.Context) (string, error) {
		cargo, err := lookPath("cargo")
		if err != nil {
			return "", err
		}
		sum := sha256.New()
		err = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			source, err := os.ReadFile(path)
			fmt.Fprintf(sum, "%s %d %s", path, len(source), source)
			return err
		})
		if err != nil {
			return "", err
		}
		name := fmt.Sprintf("%s-%s-%x", program, filepath.Base(dir), sum.Sum(nil)[:8])
		made, err := cached(name, func(temp string) error {
			cmd := exec.CommandContext(ctx, cargo, "build", "--locked", "--ignore-rust-version", "--manifest-path", filepath.Join(dir, "Cargo.toml"), "--target-dir", filepath.Join(temp, "target"))
			if err := runWithProgress(cmd, "building "+program+" in "+dir+" (once; it takes some minutes)"); err != nil {
				return err
			}
			if err := os.Rename(filepath.Join(temp, "target", "debug", program), filepath.Join(temp, program)); err != nil {
				return err
			}
			return os.RemoveAll(filepath.Join(temp, "target"))
		})
		return filepath.Join(made, program), err
	})
}
