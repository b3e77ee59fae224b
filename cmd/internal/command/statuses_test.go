package command

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// place is a directory in which the command is run, with a home of its own.
type place struct {
	bin, dir string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	return &place{holdfastBinary(t), t.TempDir()}
}

// newPlaceOfFiles also returns a store in the place.
func newPlaceOfFiles(t *testing.T) (p *place, store string) {
	t.Helper()
	p = newPlace(t)
	return p, "file:" + filepath.Join(p.dir, "store")
}

// run runs the command on a store and returns what it printed, and its status.
func (p *place) run(t *testing.T, store string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), p.bin, args...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "HOME="+p.dir, "XDG_STATE_HOME="+p.dir, "HOLDFAST_STORE="+store,
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_EC2_METADATA_DISABLED=true")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	// An input that does not end: hold would end with it.
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// must runs a command that has to succeed.
func (p *place) must(t *testing.T, store string, args ...string) string {
	t.Helper()
	stdout, stderr, status := p.run(t, store, args...)
	if status != 0 {
		t.Fatalf("holdfast %s: status %d: %s", strings.Join(args, " "), status, stderr)
	}
	return stdout
}

var noAnswerYet = regexp.MustCompile(`^holdfast: \S+ has not answered yet\n`)

// refused runs a command that ends with a status, one line on stderr and nothing on
// stdout.
func (p *place) refused(t *testing.T, want int, store string, args ...string) {
	t.Helper()
	stdout, stderr, status := p.run(t, store, args...)
	// A try that takes long has said that there is no answer yet.
	stderr = noAnswerYet.ReplaceAllString(stderr, "")
	if status != want {
		t.Errorf("status %d, want %d: %s", status, want, stderr)
	}
	if stdout != "" {
		t.Errorf("stdout %q, want nothing", stdout)
	}
	if !regexp.MustCompile(`^holdfast: [^\n]+\n(?:  [^\n]+\n){0,4}$`).MatchString(stderr) {
		t.Errorf("stderr %q, want one line, and hints", stderr)
	}
}

// serveS3 puts a stand-in for S3 on a port of this machine, and returns a store on it.
func serveS3(t *testing.T, change func(*awstest.S3)) (store string, stand *awstest.S3) {
	t.Helper()
	stand = awstest.NewS3("bucket")
	if change != nil {
		change(stand)
	}
	at, end := serve(stand)
	t.Cleanup(end)
	return "s3://bucket/app?" + at, stand
}

// serve puts a stand-in for S3 or DynamoDB on a port of this machine, and returns the
// parameters of a URL on it.
func serve(stand http.RoundTripper) (parameters string, end func()) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resp, err := stand.RoundTrip(r)
		if err != nil {
			panic(http.ErrAbortHandler) // the connection breaks
		}
		defer resp.Body.Close()
		maps.Copy(w.Header(), resp.Header)
		w.WriteHeader(resp.StatusCode)
		if _, err := io.Copy(w, resp.Body); err != nil {
			panic(http.ErrAbortHandler) // the answer breaks off, or the client has left
		}
	}))
	// A region of its own: a port may be used again, and the command remembers for a week
	// which servers are good, for root in one place for all tests.
	region := strings.ToLower(rand.Text()[:8])
	return "region=" + region + "&path_style=true&endpoint=" + server.URL, server.Close
}

// storeTable are the command lines of all commands that ask a store, on names that are
// new there.
var onStore = map[string]string{
	"run": "run -n new -- touch ran", "hold": "hold -n new", "lock": "lock -n new", "ls": "ls", "show": "show new",
	"ask": "ask new", "leader": "leader new", "history": "history new", "resize": "resize new --slots 2", "watch": "watch", "break": "break new --token 1", "sweep": "sweep --older-than 24h",
	"checkpoint get": "checkpoint get new", "checkpoint advance": "checkpoint advance new 1",
	"checkpoint reset": "checkpoint reset new 1", "checkpoint rm": "checkpoint rm new",
	"checkpoint ls": "checkpoint ls", "checkpoint watch": "checkpoint watch new", "checkpoint history": "checkpoint history new",
	"checkpoint export": "checkpoint export", "checkpoint import": "checkpoint import export.json",
	"init": "init", "bench": "bench --rounds 1", "doctor": "doctor",
}

// Each command ends with the status of what went wrong, one by one, says so on one
// line, and prints nothing that could be taken for a result.
func TestStatuses(t *testing.T) {
	t.Parallel()
	p, files := newPlaceOfFiles(t)
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("export.json", `[{"key":"new","exists":true,"sequence":1}]`)
	write("torn.json", `{"holdfast":1,"kind":"han`)
	write("plain", "not executable")
	p.must(t, files, "run", "free", "--", "true")
	p.must(t, files, "lock", "held", "--handle", "held.json")
	p.must(t, files, "lock", "gone", "--handle", "gone.json")
	p.must(t, files, "break", "gone", "--now", "--token", tokenOf(p.must(t, files, "show", "gone", "--json")))
	p.must(t, files, "checkpoint", "advance", "orders", "17", "--fence", "9")
	p.must(t, files, "run", "torn", "--", "true")
	damage(t, filepath.Join(p.dir, "store"), "torn")

	check := func(t *testing.T, want int, store, line string) {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			p.refused(t, want, store, strings.Fields(line)...)
		})
	}
	for _, c := range []struct {
		name  string
		want  int
		lines []string
	}{
		{"not found", 66, []string{"show new", "ask new", "leader new", "resize new --slots 2", "leader free", "break new --token 1", "renew new.json", "unlock new.json", "checkpoint get new",
			"checkpoint import new.json", "checkpoint --file new.json restore"}},
		{"condition", 73, []string{"break held --token 1", "break free --token 1", "ask free",
			"checkpoint reset orders 1 --expect 16 --fence 9", "checkpoint rm orders --expect 16 --fence 9"}},
		{"busy", 75, []string{"run -n held -- touch ran", "run -w 2s free held -- touch ran", "hold -n held", "hold -w 2s held", "lock -n held", "lock -w 2s held", "ask held -w 1s"}},
		{"lost or fenced", 76, []string{"renew gone.json", "checkpoint reset orders 1 --fence 8", "checkpoint rm orders --fence 8"}},
		{"misconfigured", 78, []string{"renew torn.json", "unlock torn.json", "run -n torn -- touch ran", "hold -n torn", "lock -n torn", "break torn --token 1", "ask torn", "leader torn",
			"checkpoint --file torn.json ls", "checkpoint --file torn.json export"}},
		{"not executable", 126, []string{"run new -- ./plain", "run new -- /"}},
		{"no command", 127, []string{"run new -- no-such-command", "run new -- ./no-such-file"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, line := range c.lines {
				check(t, c.want, files, line)
			}
		})
	}
	t.Run("advance says where the checkpoint is", func(t *testing.T) {
		for line, want := range map[string]int{"checkpoint advance orders 16 --fence 9": 73, "checkpoint advance orders 18 --fence 8": 76} {
			if stdout, stderr, status := p.run(t, files, strings.Fields(line)...); status != want || stdout != "17\n" || strings.Count(stderr, "holdfast: ") != 1 {
				t.Errorf("%s: status %d, stdout %q, stderr %q", line, status, stdout, stderr)
			}
		}
	})
	t.Run("unlock of what was broken", func(t *testing.T) {
		p.refused(t, 76, files, "unlock", "gone.json")
		p.refused(t, 66, files, "unlock", "gone.json")
	})
	t.Run("unreachable", func(t *testing.T) {
		for name, line := range onStore {
			if name != "doctor" { // it prints its findings
				check(t, 69, "s3://bucket/app?region=us-east-1&endpoint=http://127.0.0.1:1", line)
			}
		}
	})
	t.Run("denied", func(t *testing.T) {
		store, _ := serveS3(t, func(s *awstest.S3) {
			s.AddWhen(func(awstest.Request) bool { return true }, 0, -1, awstest.Fault{Status: http.StatusForbidden, Code: "AccessDenied"})
		})
		for name, line := range onStore {
			if name != "doctor" {
				check(t, 77, store, line)
			}
		}
	})
	t.Run("unsafe", func(t *testing.T) {
		store, _ := serveS3(t, func(s *awstest.S3) { s.Broken.IgnoreIfNoneMatch = true })
		for _, name := range []string{"run", "hold", "lock", "checkpoint advance", "checkpoint reset", "checkpoint import", "bench"} {
			check(t, 78, store, onStore[name])
		}
	})
	if _, err := os.Stat(filepath.Join(p.dir, "ran")); !errors.Is(err, os.ErrNotExist) {
		t.Error("a command ran without its lock")
	}
}

func tokenOf(json string) string {
	if m := regexp.MustCompile(`"token": (\d+)`).FindStringSubmatch(json); m != nil {
		return m[1]
	}
	return ""
}

// damage makes the record of a lock in a directory unreadable.
func damage(t *testing.T, store, name string) {
	t.Helper()
	found := 0
	err := filepath.WalkDir(filepath.Join(store, "k"), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.Contains(path, name) {
			found++
			return os.WriteFile(path, []byte("neither this nor that\n"), 0o600)
		}
		return err
	})
	if err != nil || found == 0 {
		t.Fatalf("%d files of %q: %v", found, name, err)
	}
}

// A write loses its reply, and then the store answers no more. No command can find out
// whether the write was applied, and the status says so.
func TestStatusUnknown(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, line := range []string{"lock -n --ttl 5s new", "run -n --ttl 5s new -- touch ran", "hold -n --ttl 5s new", "checkpoint advance new 1", "checkpoint reset new 1"} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			store, stand := serveS3(t, nil)
			p.must(t, store, "run", "old", "--", "true") // it passes the probe
			silent := false
			stand.AddWhen(func(r awstest.Request) bool { silent = silent || r.Op == "PutObject"; return silent }, 0, -1, awstest.Fault{Lose: true})
			p.refused(t, 74, store, strings.Fields(line)...)
		})
	}
}

// break says so as well, two minutes later.
func TestStatusOfUnresolved(t *testing.T) {
	if got := exit.Status(fmt.Errorf("lock: %w: %w", lease.ErrUnresolved, store.ErrUnavailable)); got != 74 {
		t.Errorf("status %d, want 74", got)
	}
	read := &store.OpError{Op: "get", Key: "k", Err: store.ErrUnavailable}
	if got := exit.Status(read); got != 69 {
		t.Errorf("a read that failed: status %d, want 69", got)
	}
}

// A command line that is wrong is refused by every command, before it asks a store.
func TestStatusUsage(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	nowhere := "s3://bucket/app?endpoint=http://127.0.0.1:1"
	var walk func(cmd *cobra.Command, path []string)
	walk = func(cmd *cobra.Command, path []string) {
		t.Run(cmd.Name(), func(t *testing.T) {
			p.refused(t, 64, nowhere, append(path[:len(path):len(path)], "--no-such-flag")...)
			p.refused(t, 64, nowhere, append(path[:len(path):len(path)], "1", "2", "3", "4", "5")...)
			p.refused(t, 64, nowhere, append(path[:len(path):len(path)], "--json=perhaps")...)
		})
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				walk(sub, append(path[:len(path):len(path)], sub.Name()))
			}
		}
	}
	a := &app{}
	walk(a.command(), nil)
}

// What names a store to others names it with its parameters: the handle, the variable of
// the command, and the line that would free a lock. What distinguishes stores has none.
func TestStoreParameters(t *testing.T) {
	p := newPlace(t)
	store, _ := serveS3(t, nil)
	_, endpoint, _ := strings.Cut(store, "&endpoint=")
	p.must(t, store, "lock", "job", "--handle", "h.json")
	p.must(t, "", "renew", "h.json")
	p.must(t, store, "renew", "h.json")
	p.must(t, strings.Replace(store, "/app", "/other", 1), "renew", "h.json") // the variable is only a default
	p.refused(t, 64, "", "--store", strings.Replace(store, "/app", "/other", 1), "renew", "h.json")
	_, stderr, status := p.run(t, store, "run", "-n", "job", "--", "true")
	hint := regexp.MustCompile(`to end the holder's work: +holdfast --store '([^']+)' break job --token (\d+)`).FindStringSubmatch(stderr)
	if status != 75 || hint == nil {
		t.Fatalf("status %d: %s", status, stderr)
	}
	p.must(t, "", "--store", hint[1], "break", "job", "--now", "--token", hint[2])
	p.refused(t, 76, "", "unlock", "h.json")
	p.must(t, store, "run", "outer", "--", p.bin, "run", "inner", "--", p.bin, "checkpoint", "advance", "k", "1")
	if got := p.must(t, store, "run", "outer", "--", "sh", "-c", "echo $HOLDFAST_STORE $HOLDFAST_LOCKS"); !strings.Contains(got, "s3://bucket/app?endpoint="+url.QueryEscape(endpoint)) || !strings.Contains(got, `"store":"s3://bucket/app"`) {
		t.Errorf("the command was told %s", got)
	}
	p.refused(t, 75, store, "run", "outer", "--", p.bin, "run", "outer", "--", "true")
	p.refused(t, 64, store, "run", "x", "--also-store", store+"&anonymous=false", "--", "true")
}
