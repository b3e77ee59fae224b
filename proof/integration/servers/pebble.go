package servers

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// Pebble is a server of the protocol ACME, which issues certificates.
type Pebble struct {
	Directory string // the URL where clients begin
	CA        string // the file with the certificate of the server itself
	log       string
}

// NewPebble starts a server that checks a host at this port of HTTP. When the test ends, the server ends.
func NewPebble(t testing.TB, httpPort int) *Pebble {
	t.Helper()
	cert, key := Certificate(t)
	p := &Pebble{CA: cert, log: filepath.Join(t.TempDir(), "log")}
	return get(t, "pebble", func(ctx context.Context) (*Pebble, error) {
		bin, err := pebble.path(ctx)
		if err != nil {
			return nil, err
		}
		proc, err := launch(ctx, "pebble", func(dir, address string) (*exec.Cmd, error) {
			p.Directory = "https://" + address + "/dir"
			config, err := json.Marshal(map[string]any{"pebble": map[string]any{
				"listenAddress": address, "certificate": cert, "privateKey": key, "httpPort": httpPort, "keyAlgorithm": "ecdsa",
				"retryAfter": map[string]int{"authz": 1, "order": 1},
			}})
			file := filepath.Join(dir, "config.json")
			// Sleeps and the reuse of authorizations are random in this server.
			cmd := exec.Command("sh", "-c", `exec "$0" -config "$1" >"$2"`, bin, file, p.log)
			cmd.Env = append(cmd.Env, "PEBBLE_VA_NOSLEEP=1", "PEBBLE_AUTHZREUSE=0")
			return cmd, errors.Join(err, os.WriteFile(file, config, 0o600))
		}, func(ctx context.Context, _ string) error {
			client, err := trusting(p.CA)
			if err != nil {
				return err
			}
			return answers(ctx, client, p.Directory)
		})
		if err == nil {
			t.Cleanup(proc.stop)
		}
		return p, err
	})
}

var (
	pebbleOrder  = regexp.MustCompile(`Added order "\S+" to the db`)
	pebbleIssued = regexp.MustCompile(`Issued certificate serial \S+ for order`)
)

// Count returns how many orders the server has got, and how many certificates it has issued.
func (p *Pebble) Count(t testing.TB) (orders, issued int) {
	t.Helper()
	log, err := os.ReadFile(p.log)
	if err != nil {
		t.Fatal(err)
	}
	return len(pebbleOrder.FindAll(log, -1)), len(pebbleIssued.FindAll(log, -1))
}
