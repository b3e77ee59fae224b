// Package tofu_test tests "holdfast serve tofu" with the real OpenTofu.
package tofu_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/proof/integration/faultproxy"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
)

var set servers.Set

func TestMain(m *testing.M) { os.Exit(set.Main(m)) }

// config has two resources, one after the other. While the second is created, the state has the first.
const config = `
terraform {
  backend "http" {}
}
variable "content" {}
variable "command" { default = "true" }
resource "terraform_data" "first" { input = var.content }
resource "terraform_data" "second" {
  input            = var.content
  triggers_replace = var.content
  depends_on       = [terraform_data.first]
  provisioner "local-exec" { command = var.command }
}
output "content" { value = terraform_data.second.output }
`

// engineer is someone with a working directory of their own.
type engineer struct {
	bin, dir string
	env      []string
}

// newEngineer returns an engineer whose OpenTofu uses the state at an address, "http://HOST:PORT/state/NAME".
func newEngineer(t *testing.T, address string, env ...string) *engineer {
	t.Helper()
	e := &engineer{bin: servers.Tofu(t), dir: t.TempDir()}
	e.env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + e.dir, "TF_CLI_CONFIG_FILE=" + os.DevNull, "TF_IN_AUTOMATION=1", "TF_INPUT=0", "TF_CLI_ARGS=-no-color", "TF_HTTP_RETRY_WAIT_MAX=1"}, env...)
	e.moveTo(address)
	if err := os.WriteFile(filepath.Join(e.dir, "main.tf"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	e.must(t, "init")
	return e
}

// moveTo makes the next commands use another address.
func (e *engineer) moveTo(address string) {
	e.env = append(e.env, "TF_HTTP_ADDRESS="+address, "TF_HTTP_LOCK_ADDRESS="+address, "TF_HTTP_UNLOCK_ADDRESS="+address)
}

func (e *engineer) command(t *testing.T, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), e.bin, args...)
	var out bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = e.dir, e.env, &out, &out
	return cmd, &out
}

func (e *engineer) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd, out := e.command(t, args...)
	err := cmd.Run()
	return out.String(), err
}

func (e *engineer) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := e.run(t, args...)
	if err != nil {
		t.Fatalf("tofu %q: %v\n%s", args, err, out)
	}
	return out
}

func apply(content string, more ...string) []string {
	return append([]string{"apply", "-auto-approve", "-var", "content=" + content}, more...)
}

// content returns the output of the present state.
func (e *engineer) content(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(e.must(t, "output", "-raw", "content"))
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// lockID waits until a client has the lock of a state, and returns its ID.
func lockID(t *testing.T, server, name string) string {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if status, body := get(t, server+"/lock/"+name); status == http.StatusOK {
			var info struct{ ID string }
			if err := json.Unmarshal([]byte(body), &info); err != nil {
				t.Fatal(err)
			}
			return info.ID
		}
	}
	t.Fatal("no client has the lock")
	return ""
}

// TestTwoServers: two engineers use one state by two servers on one store. One is killed in the middle of an apply, and
// so is a server.
func TestTwoServers(t *testing.T) {
	t.Parallel()
	store := "file:" + t.TempDir()
	one, two := servers.NewTofuStates(t, store, nil), servers.NewTofuStates(t, store, nil)
	at := func(s *servers.Restartable) string { return "http://" + s.Address() }
	ada, bob := newEngineer(t, at(one)+"/state/prod/net"), newEngineer(t, at(two)+"/state/prod/net")

	ada.must(t, apply("1")...)
	if got := bob.content(t); got != "1" {
		t.Errorf("bob reads %q", got)
	}
	// Another engineer sees the holder, and -lock-timeout waits for the lock.
	release := filepath.Join(t.TempDir(), "release")
	wait := "until test -e " + release + "; do sleep 0.1; done"
	slow, out := ada.command(t, apply("2", "-var", "command="+wait)...)
	if err := slow.Start(); err != nil {
		t.Fatal(err)
	}
	id := lockID(t, at(two), "prod/net")
	if said, err := bob.run(t, apply("3")...); err == nil || !strings.Contains(said, id) || !strings.Contains(said, "OperationTypeApply") || !strings.Contains(said, "already locked") {
		t.Errorf("bob's apply beside ada's: %v\n%s", err, said)
	}
	waiting, saidWaiting := bob.command(t, apply("3", "-lock-timeout=60s")...)
	if err := waiting.Start(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := slow.Wait(); err != nil {
		t.Errorf("ada's apply: %v\n%s", err, out)
	}
	if err := waiting.Wait(); err != nil {
		t.Errorf("bob's apply that waits: %v\n%s", err, saidWaiting)
	}
	if got := ada.content(t); got != "3" {
		t.Errorf("the content is %q, want 3", got)
	}

	// kill -9 in the middle of an apply: the lock remains until it is forced.
	killed, _ := ada.command(t, apply("4", "-var", "command=exec sleep 60 >&- 2>&-")...)
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	id = lockID(t, at(one), "prod/net")
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait()
	two.Kill()
	if err := two.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	bob.moveTo(at(two) + "/state/prod/net")
	bob.must(t, "init", "-reconfigure")
	if said, err := bob.run(t, apply("5")...); err == nil || !strings.Contains(said, id) {
		t.Errorf("bob's apply after ada's death: %v\n%s", err, said)
	}
	if said, err := bob.run(t, "force-unlock", "-force", "00000000-0000-0000-0000-000000000000"); err == nil {
		t.Errorf("force-unlock with another ID: %s", said)
	}
	bob.must(t, "force-unlock", "-force", id)
	bob.must(t, apply("5")...)

	// pull, and push of an earlier version.
	if pulled := bob.must(t, "state", "pull"); !strings.Contains(pulled, `"value":"5"`) {
		t.Errorf("state pull: %s", pulled)
	}
	_, earlier := get(t, at(one)+"/state/prod/net?version=1")
	old := filepath.Join(bob.dir, "old.tfstate")
	if err := os.WriteFile(old, []byte(earlier), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := bob.run(t, "state", "push", old); err == nil {
		t.Errorf("push of a smaller serial without -force: %s", said)
	}
	bob.must(t, "state", "push", "-force", old)
	if got := serialAt(t, at(one)+"/state/prod/net"); got != serialOf(earlier)+1 && got != serialOf(earlier) {
		t.Errorf("after push -force the serial is %d, and the pushed state had %d", got, serialOf(earlier))
	}
	bob.must(t, apply("6", "-lock=false")...)
	if status, body := get(t, at(two)+"/lock/prod/net"); status != http.StatusNotFound {
		t.Errorf("a lock remains: %s", body)
	}
	if status, body := get(t, at(two)+"/state/prod"); status != http.StatusNotFound {
		t.Errorf("another state: %s", body)
	}
}

func serialAt(t *testing.T, url string) int {
	t.Helper()
	_, body := get(t, url)
	return serialOf(body)
}

func serialOf(state string) (serial int) {
	var v struct{ Serial int }
	_ = json.Unmarshal([]byte(state), &v)
	return v.Serial
}

// TestLostReplies: each kind of request loses its reply, is carried out twice, or late. OpenTofu repeats it, and
// everything is done once.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	server := servers.NewTofuStates(t, "file:"+t.TempDir(), nil)
	direct := "http://" + server.Address()
	for i, c := range []struct {
		when faultproxy.Match
		do   faultproxy.Fault
	}{
		{faultproxy.Method("LOCK"), faultproxy.Lose()},
		{faultproxy.Method("LOCK"), faultproxy.Late(500 * time.Millisecond)},
		{faultproxy.Method("LOCK"), faultproxy.Echo(3 * time.Second)}, // after the lock was released
		{faultproxy.Method("POST"), faultproxy.Lose()},
		{faultproxy.Method("POST"), faultproxy.LoseByReset()},
		{faultproxy.Method("POST"), faultproxy.Repeat()},
		{faultproxy.Method("POST"), faultproxy.RefuseAfter(http.StatusServiceUnavailable)},
		{faultproxy.Method("POST"), faultproxy.Echo(3 * time.Second)},
		{faultproxy.Method("UNLOCK"), faultproxy.Lose()},
		{faultproxy.Method("UNLOCK"), faultproxy.Drop()},
		{faultproxy.Method("GET"), faultproxy.Lose()},
	} {
		t.Run(fmt.Sprint(i, " ", c.do), func(t *testing.T) {
			t.Parallel()
			name := fmt.Sprint("s", i)
			proxy := faultproxy.New(t, direct)
			e := newEngineer(t, proxy.URL+"/state/"+name)
			proxy.Inject(&faultproxy.Rule{When: c.when, Times: 1, Do: c.do})
			for n := 1; n <= 2; n++ {
				e.must(t, apply(fmt.Sprint("content ", n))...)
			}
			if got := e.content(t); got != "content 2" {
				t.Errorf("the content is %q", got)
			}
			if n := proxy.Count(func(c *faultproxy.Call) bool { return c.Fault != "" }); n != 1 {
				t.Errorf("%d faults", n)
			}
			proxy.WaitIdle() // late requests, too
			if got := e.content(t); got != "content 2" {
				t.Errorf("after the late requests the content is %q", got)
			}
			if status, body := get(t, direct+"/lock/"+name); status != http.StatusNotFound {
				t.Errorf("a lock remains: %s", body)
			}
			var all []struct{ Serial int }
			if _, body := get(t, direct+"/history/"+name); json.Unmarshal([]byte(body), &all) != nil {
				t.Fatal(body)
			}
			for i, v := range all {
				if i > 0 && v.Serial <= all[i-1].Serial {
					t.Errorf("serial %d follows %d in the history", v.Serial, all[i-1].Serial)
				}
			}
		})
	}
}

// TestOtherStores: a state on servers, with a password, and larger than a register.
func TestOtherStores(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(secret, []byte("ada:correct horse\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s3 := set.VersityGW(t)
	for name, c := range map[string]struct {
		store string
		env   []string
	}{
		"s3":     {"s3://" + s3.NewBucket(t, false) + "/states?region=us-east-1", s3.Env()},
		"sqlite": {"sqlite:" + filepath.Join(t.TempDir(), "locks.db"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			create := exec.CommandContext(t.Context(), servers.BuildCommand(t), "--store", c.store, "init")
			create.Env = append(os.Environ(), c.env...)
			if out, err := create.CombinedOutput(); err != nil {
				t.Fatalf("init: %v: %s", err, out)
			}
			server := servers.NewTofuStates(t, c.store, c.env, "--password-file", secret, "--keep", "2")
			address := "http://" + server.Address() + "/state/prod"
			e := newEngineer(t, address, "TF_HTTP_USERNAME=ada", "TF_HTTP_PASSWORD=correct horse")
			for n := range 4 {
				text := random(60_000) // it is in two resources and an output
				e.must(t, apply(text)...)
				if got := e.content(t); got != text {
					t.Errorf("apply %d: the content has %d bytes", n, len(got))
				}
			}
			if said, err := newStranger(e).run(t, "state", "pull"); err == nil || !strings.Contains(said, "auth") {
				t.Errorf("without the password: %v\n%s", err, said)
			}
		})
	}
}

// newStranger returns an engineer in the same directory who does not know the password.
func newStranger(e *engineer) *engineer {
	return &engineer{e.bin, e.dir, append(e.env[:len(e.env):len(e.env)], "TF_HTTP_PASSWORD=wrong")}
}

// random returns n letters.
func random(n int) string {
	text := make([]byte, n)
	for i := range text {
		text[i] = 'a' + byte(rand.IntN(26))
	}
	return string(text)
}
