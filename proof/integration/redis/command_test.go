package redis_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/proof/integration/servers"
)

// TestCommand: doctor shows the settings that can lose a lock, and the command works with a lock on Redis.
func TestCommand(t *testing.T) {
	t.Parallel()
	dir, bin := t.TempDir(), servers.BuildCommand(t)
	holdfast := func(url string, args ...string) (out []byte, status int) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), bin, append([]string{"--store", url}, args...)...)
		cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME=", "REDIS_PASSWORD=a-long-password")
		out, err := cmd.Output()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if exit != nil {
			out = append(out, exit.Stderr...)
		}
		if strings.Contains(string(out), "a-long-password") {
			t.Errorf("%q shows the password: %s", args, out)
		}
		return out, cmd.ProcessState.ExitCode()
	}
	// examine returns the results of the checks that are not ok.
	examine := func(url string) (found map[string]string, safe bool) {
		t.Helper()
		out, _ := holdfast(url, "doctor", "--json")
		var report struct {
			Safe      bool
			Checks    []struct{ ID, Result string }
			Leftovers []string
		}
		if err := json.Unmarshal(out, &report); err != nil || len(report.Leftovers) > 0 {
			t.Fatalf("%v: %s", err, out)
		}
		found = map[string]string{}
		for _, c := range report.Checks {
			if c.Result != "ok" {
				found[c.ID] = c.Result
			}
		}
		return found, report.Safe
	}

	server := servers.NewRedis(t, "--requirepass", "a-long-password", "--masterauth", "a-long-password")
	url := "redis://" + server.Address() + "/0/app"
	if found, safe := examine(url); !safe || len(found) > 0 {
		t.Errorf("with safe settings: %v", found)
	}
	if out, status := holdfast(url, "run", "-n", "job", "--", "true"); status != 0 {
		t.Errorf("run: %d, %s", status, out)
	}
	if out, status := holdfast(url, "show", "job"); status != 0 || !strings.Contains(string(out), "job") {
		t.Errorf("show: %d, %s", status, out)
	}
	if out, status := holdfast("redis://u:a-long-password@"+server.Address()+"/0/app", "ls"); status == 0 {
		t.Errorf("a URL with a password: %s", out)
	}

	weak := servers.NewRedis(t, "--appendfsync", "everysec", "--maxmemory-policy", "allkeys-lru", "--requirepass", "a-long-password")
	url = "redis://" + weak.Address()
	if found, safe := examine(url); safe || len(found) != 2 || found["redis-appendfsync"] != "unsafe" || found["redis-maxmemory-policy"] != "unsafe" {
		t.Errorf("with dangerous settings: %v", found)
	}
	if out, status := holdfast(url, "run", "-n", "job", "--", "true"); status != 78 || !strings.Contains(string(out), "unsafe=appendfsync") {
		t.Errorf("run with dangerous settings: %d, %s", status, out)
	}
	url += "?unsafe=appendfsync,maxmemory-policy"
	if found, safe := examine(url); !safe || found["redis-appendfsync"] != "warning" || found["redis-maxmemory-policy"] != "warning" {
		t.Errorf("with accepted settings: %v", found)
	}
	if out, status := holdfast(url, "run", "-n", "job", "--", "true"); status != 0 {
		t.Errorf("run with accepted settings: %d, %s", status, out)
	}

	replica := servers.NewRedis(t, "--replicaof", strings.ReplaceAll(server.Address(), ":", " "), "--masterauth", "a-long-password", "--requirepass", "a-long-password")
	url = "redis://" + server.Address() + "/0/app"
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		found, safe := examine(url)
		if safe && len(found) == 1 && found["redis-replicas"] == "warning" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("with a replica: %v", found)
		}
	}
	if out, status := holdfast("redis://"+replica.Address()+"/0/app", "run", "-n", "job", "--", "true"); status != 78 || !strings.Contains(string(out), "is a replica") {
		t.Errorf("run on a replica: %d, %s", status, out)
	}
}
