package servers

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
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

// replacements are the lines of a go.mod that replace modules.
var replacements = regexp.MustCompile(`(?m)^replace .*$`)

func tofuBinary(ctx context.Context) (string, error) {
	return goBinaryOfModule(ctx, tofuPackage, tofuVersion, "cmd/tofu", func(goMod string) string {
		return strings.Join(replacements.FindAllString(goMod, -1), "\n") + "\n"
	})
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
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/healthz", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			if resp.Body.Close(); resp.StatusCode != http.StatusOK {
				err = fmt.Errorf("status %d", resp.StatusCode)
			}
		}
		return err
	})
	started(t, r)
	return r
}
