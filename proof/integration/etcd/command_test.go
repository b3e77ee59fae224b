package etcd_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/store"
)

// TestEtcdCommand: the command takes locks in etcd, and doctor reports what it finds out about a cluster and
// what it cannot find out.
func TestEtcdCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bin := servers.BuildCommand(t)
	holdfast := func(args ...string) (said string, status int) {
		cmd := exec.CommandContext(t.Context(), bin, args...)
		cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME=", "ETCDCTL_PASSWORD="+password)
		out, _ := cmd.CombinedOutput() // the status is looked at
		return string(out), cmd.ProcessState.ExitCode()
	}
	members := servers.NewEtcdCluster(t, 3)
	full := servers.NewEtcd(t, "--quota-backend-bytes=100000")
	var all []string
	for _, m := range members {
		all = append(all, m.Address())
	}
	one := "etcd://" + all[0] + "/app"
	every := "etcd://" + strings.Join(all, ",") + "/app"
	for _, c := range []struct {
		args   []string
		status int
		text   string
	}{
		{[]string{"--store", one, "init"}, 0, ""},
		{[]string{"--store", every, "run", "job", "--", "echo", "has run"}, 0, "has run"},
		{[]string{"--store", one, "show", "job"}, 0, "free"},
		{[]string{"--store", one, "ls", "--all"}, 0, "job"},
		{[]string{"--store", "etcd://" + all[0], "ls"}, 64, "etcd://HOST:PORT/PREFIX"},
		{[]string{"--store", one + "?user=app:" + password, "ls"}, 78, "credentials"},
		{[]string{"--store", one + "?password=" + password, "ls"}, 78, "credentials"},
		{[]string{"--store", one + "?cacert=" + password, "ls"}, 64, "cacert"},
		{[]string{"--store", one + "?unknown=x", "ls"}, 64, "unknown"},
		{[]string{"--store", "etcd://127.0.0.1:1/app", "ls"}, 69, "connection refused"},
	} {
		if said, status := holdfast(c.args...); status != c.status || !strings.Contains(said, c.text) || strings.Contains(said, password) {
			t.Errorf("holdfast %s: status %d, %s; want status %d and %q", strings.Join(c.args, " "), status, said, c.status, c.text)
		}
	}
	st := open(t, "etcd://"+full.Address()+"/app")
	for i := 0; i < 100; i++ {
		if _, err := st.Put(t.Context(), servers.Unique("key"), "", make([]byte, store.MaxValue)); err != nil {
			break
		}
	}
	for _, c := range []struct {
		url             string
		safe            bool
		members, alarms string
	}{
		{every, true, "ok", "ok"},
		{one, true, "warning", "ok"},
		{"etcd://" + full.Address() + "/app", false, "warning", "unsafe"},
	} {
		cmd := exec.CommandContext(t.Context(), bin, "--store", c.url, "--json", "doctor")
		cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME=")
		out, _ := cmd.Output() // the report says what is wrong
		var report struct {
			Kind   string
			Safe   bool
			Checks []struct{ ID, Result, Found, Means string }
			Left   []string `json:"leftovers"`
		}
		if err := json.Unmarshal(out, &report); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		found := map[string]string{}
		for _, check := range report.Checks {
			found[check.ID] = check.Result
		}
		if report.Safe != c.safe || report.Kind != "etcd" || found["members"] != c.members || found["alarms"] != c.alarms || found["fsync"] != "not_tested" {
			t.Errorf("doctor of %s: %s", c.url, out)
		}
		if c.safe && len(report.Left) > 0 {
			t.Errorf("doctor left %q", report.Left)
		}
	}
	members[2].Kill()
	if said, status := holdfast("--store", every, "doctor"); status != 0 || !strings.Contains(said, "did not answer") {
		t.Errorf("doctor without one of three members: status %d, %s", status, said)
	} else {
		t.Log(said)
	}
}
