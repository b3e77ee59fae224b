package servers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"
)

const (
	tofuPackage = "github.com/opentofu/opentofu"
	tofuVersion = "v1.10.10"
)

// Tofu returns the path of the program tofu of OpenTofu.
func Tofu(t testing.TB) string {
	t.Helper()
	return get(t, "tofu", tofuBinary)
}

// needless are the lines of files of OpenTofu that register backends and key providers which no test uses. Their
// libraries of cloud services would make the build three times as long.
var needless = map[string]*regexp.Regexp{
	"internal/backend/init/init.go":           regexp.MustCompile(`(?m)^.*\bbackend(Azure|Consul|Cos|GCS|Kubernetes|OSS|Pg|S3)\b.*\n`),
	"internal/encryption/default_registry.go": regexp.MustCompile(`(?m)^\t"\S*/(aws_kms|gcp_kms|openbao)"\n|^\tif .*\((aws_kms|gcp_kms|openbao)\.New\(\)\).*\n.*\n\t}\n`),
}

// tofuBinary builds a copy of OpenTofu: "go install" refuses a module that replaces others.
func tofuBinary(ctx context.Context) (string, error) {
	dir, err := cached(fmt.Sprintf("tofu-%s-%s-%s", tofuVersion, runtime.GOOS, runtime.GOARCH), func(dir string) error {
		module, _, err := goModule(ctx, dir, tofuPackage, tofuVersion)
		if err != nil {
			return err
		}
		source := filepath.Join(dir, "source")
		if err := os.CopyFS(source, os.DirFS(module)); err != nil {
			return err
		}
		for name, lines := range needless {
			text, err := os.ReadFile(filepath.Join(source, name))
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(source, name), lines.ReplaceAll(text, nil), 0o600); err != nil {
				return err
			}
		}
		err = runWithProgress(goCommand(ctx, source, "build", "-ldflags=-s -w", "-o", filepath.Join(dir, "tofu"), "./cmd/tofu"),
			"building tofu "+tofuVersion+" (once; it takes some minutes)")
		return errors.Join(err, os.RemoveAll(source))
	})
	return filepath.Join(dir, "tofu"), err
}

// NewTofuStates starts "holdfast serve tofu" with a store, and further variables of the environment. When the test
// ends, the server ends.
func NewTofuStates(t testing.TB, store string, env []string, args ...string) *Restartable {
	t.Helper()
	bin := BuildCommand(t)
	r := newRestartable("tofu-states", func(address string) (*exec.Cmd, error) {
		cmd := exec.Command(bin, append([]string{"serve", "tofu", "--listen", address}, args...)...)
		cmd.Env = append([]string{"HOLDFAST_STORE=" + store}, env...)
		return cmd, nil
	}, func(ctx context.Context, address string) error {
		return answers(ctx, http.DefaultClient, "http://"+address+"/healthz")
	})
	r.startFor(t)
	return r
}
