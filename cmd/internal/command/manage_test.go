package command

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// sweep says in a dry run what it would remove, and removes nothing; then it removes what
// has been free for long, and nothing else; and a lock made again has a higher token.
func TestGC(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	store, stand := serveS3(t, nil)
	for _, name := range []string{"old/a", "old/b", "older", "new"} {
		p.must(t, store, "run", name, "--", "true")
	}
	p.must(t, store, "lock", "old/held", "--handle", "held.json")
	age(t, stand, "/old")
	token := number(t, tokenOf(p.must(t, store, "show", "old/b", "--json")))

	if got := p.must(t, store, "sweep", "old/", "--older-than", "720h", "--dry-run"); sorted(got) != "old/a old/b" {
		t.Errorf("dry run: %q", got)
	}
	if got := sorted(names(t, p.must(t, store, "ls", "--json"))); got != "new old/a old/b old/held older" {
		t.Errorf("after the dry run: %s", got)
	}
	var removed struct {
		Removed []string `json:"removed"`
		DryRun  bool     `json:"dry_run"`
	}
	if err := json.Unmarshal([]byte(p.must(t, store, "sweep", "old", "--older-than", "720h", "--json")), &removed); err != nil || len(removed.Removed) != 2 || removed.DryRun {
		t.Errorf("removed %v (%v)", removed, err)
	}
	if got := sorted(names(t, p.must(t, store, "ls", "--json"))); got != "new old/held older" {
		t.Errorf("afterwards: %s", got)
	}
	if got := p.must(t, store, "sweep", "--older-than", "720h"); got != "older\n" {
		t.Errorf("without a prefix: %q", got)
	}
	p.must(t, store, "run", "old/b", "--", "true")
	if again := number(t, tokenOf(p.must(t, store, "show", "old/b", "--json"))); again <= token {
		t.Errorf("the new token is %d, the old one was %d", again, token)
	}
}

// age makes records look a year old, of which the key contains part.
func age(t *testing.T, stand *awstest.S3, part string) {
	t.Helper()
	year := regexp.MustCompile(`"renewed":"20\d\d`)
	for _, key := range stand.Keys("bucket") {
		if body := stand.Body("bucket", key); strings.Contains(key, part) {
			stand.Put("bucket", key, year.ReplaceAll(body, []byte(`"renewed":"2020`)))
		}
	}
}

func number(t *testing.T, text string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func names(t *testing.T, list string) string {
	t.Helper()
	var views []leases.LockView
	if err := json.Unmarshal([]byte(list), &views); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, v := range views {
		all = append(all, v.Name)
	}
	return strings.Join(all, "\n")
}

func sorted(lines string) string { return strings.Join(strings.Fields(lines), " ") }

// ls is sorted, and filtered by prefix, whole segments of it, and by state.
func TestList(t *testing.T) {
	p, store := newPlaceOfFiles(t)
	for _, name := range []string{"job", "job/b", "job/a", "job-2", "z"} {
		p.must(t, store, "run", name, "--", "true")
	}
	p.must(t, store, "lock", "job/held", "--handle", "held.json")
	for args, want := range map[string]string{
		"ls":                        "job job-2 job/a job/b job/held z",
		"ls job":                    "job job/a job/b job/held",
		"ls job/":                   "job job/a job/b job/held",
		"ls job --state held":       "job/held",
		"ls --state free job":       "job job/a job/b",
		"ls nothing":                "",
		"ls --state broken":         "",
		"ls z --state unreadable":   "",
		"ls job/a":                  "job/a",
		"ls jo":                     "",
		"ls --state free --quiet z": "z",
	} {
		if got := sorted(names(t, p.must(t, store, append(strings.Fields(args), "--json")...))); got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
	if stdout, stderr, status := p.run(t, store, "ls", "nothing"); status != 0 || stdout != "" || !strings.Contains(stderr, `no locks at or below "nothing"`) {
		t.Errorf("an empty list: status %d, %q, %q", status, stdout, stderr)
	}
	damage(t, filepath.Join(p.dir, "store"), "job-2")
	// One that is damaged does not hide the others.
	stdout, stderr, status := p.run(t, store, "ls", "--json")
	if got := sorted(names(t, stdout)); got != "job job/a job/b job/held z" || status != 78 || !strings.Contains(stderr, "job-2") {
		t.Errorf("with one damaged: status %d, %s: %s", status, got, stderr)
	}
	if stdout, _, status := p.run(t, store, "show", "job-2"); status != 0 || !strings.Contains(stdout, "unreadable") {
		t.Errorf("show of the damaged one: status %d, %s", status, stdout)
	}
}

// A record of a newer format is no damaged one: break refuses it, so that no message names break.
func TestRecordOfANewerFormat(t *testing.T) {
	p, dir := newPlaceOfFiles(t)
	st, err := filestore.Open(strings.TrimPrefix(dir, "file:"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Put(t.Context(), "lock/job", "", []byte(`{"holdfast":99,"lock":"job"}`)); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	_, stderr, status := p.run(t, dir, "run", "-n", "job", "--", "true")
	if status != 78 || !strings.Contains(stderr, "use a newer holdfast") || strings.Contains(stderr, "damaged") || strings.Contains(stderr, "break") {
		t.Errorf("status %d, %s", status, stderr)
	}
}

// watch says what is there, and then each change, also of locks that come later, of a
// whole prefix, until it is stopped.
func TestWatch(t *testing.T) {
	p, store := newPlaceOfFiles(t)
	p.must(t, store, "run", "job/a", "--", "true")
	p.must(t, store, "run", "other", "--", "true")
	cmd := exec.Command(p.bin, "watch", "job/", "--json", "--poll-interval", "20ms")
	cmd.Env = append(os.Environ(), "HOME="+p.dir, "XDG_STATE_HOME="+p.dir, "HOLDFAST_STORE="+store)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	lines := json.NewDecoder(out)
	expect := func(want string) {
		t.Helper()
		var line struct {
			Time time.Time
			leases.LockView
		}
		if err := lines.Decode(&line); err != nil {
			t.Fatalf("waiting for %s: %v, %s", want, err, errs.String())
		}
		if got := line.Name + " " + line.State; got != want || line.Time.IsZero() {
			t.Fatalf("%s, want %s", got, want)
		}
	}
	expect("job/a free")
	p.must(t, store, "lock", "job/a", "--handle", "a.json")
	expect("job/a held")
	p.must(t, store, "lock", "job/later", "--handle", "b.json")
	expect("job/later held")
	p.must(t, store, "renew", "b.json") // reported only with --renewals
	p.must(t, store, "break", "job/a", "--token", tokenOf(p.must(t, store, "show", "job/a", "--json")))
	expect("job/a broken")
	p.must(t, store, "unlock", "b.json")
	expect("job/later free")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || errs.Len() > 0 {
		t.Errorf("%v: %s", err, errs.String())
	}
}
