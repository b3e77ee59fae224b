//go:build linux

package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// evil is what another user wrote: it clears the screen, sets the title, forges a line
// of a log, and turns the text around, by control characters of both ranges.
const evil = "x\x1b[2J\x1b]0;owned\a\rholdfast: all is well\nforged\u009b31m\u202egnp\u2066\u2028\x7f"

// tame fails t if a text could control a terminal or has more lines than it should.
func tame(t *testing.T, what, text string, lines int) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if printable.Text(line) != line {
			t.Errorf("%s prints %q", what, line)
		}
		if strings.HasPrefix(line, "holdfast: all is well") || strings.HasPrefix(line, "forged") {
			t.Errorf("%s: a forged line: %q", what, line)
		}
	}
	if n := strings.Count(text, "\n"); lines > 0 && n != lines {
		t.Errorf("%s: %d lines, want %d: %q", what, n, lines, text)
	}
}

// What others wrote (holders, names of locks, keys and events of checkpoints) reaches
// neither a terminal nor a log raw, by no command; and --json gives it back as it is.
func TestTextOfOthersIsPrintedEscaped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bin := holdfastBinary(t)
	run := func(args ...string) (string, string, int) {
		cmd := exec.Command(bin, args...)
		cmd.Dir = dir
		cmd.Env = environ(dir)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return out.String(), errs.String(), cmd.ProcessState.ExitCode()
	}
	name := "a" + evil
	// The command takes no lock of such a name. A program can.
	if _, _, status := run("lock", name); status != exit.Usage {
		t.Errorf("lock of such a name: status %d", status)
	}
	st, err := filestore.Open(filepath.Join(dir, "store"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	client, err := lease.New(st, &lease.Options{Holder: evil, TTL: time.Hour, NoPresence: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(t.Context())
	if _, err := client.Once(t.Context(), name, lease.Yearly(nil), func(context.Context, *lease.Guard) error { return errors.New(evil) }, nil); err == nil {
		t.Fatal("no error")
	}
	if _, err := client.TryAcquire(t.Context(), name, nil); err != nil {
		t.Fatal(err)
	}
	if _, errs, status := run("checkpoint", "advance", name, "7", "--event", evil); status != 0 {
		t.Fatal(errs)
	}
	for _, args := range [][]string{
		{"ls"}, {"ls", name}, {"show", name}, {"run", "-n", name, "--", "true"}, {"run", "-v", "-w", "100ms", name, "--", "true"},
		{"hold", "-n", name}, {"lock", "-n", name, "--handle", "other.json"}, {"break", name, "--token", "1"}, {"show", evil}, {"sweep", "--older-than", "24h"},
		{"checkpoint", "ls"}, {"checkpoint", "get", evil}, {"checkpoint", "advance", name, "7", "--event", "another"}, {"checkpoint", "advance", name, "5"},
		{"checkpoint", "reset", name, "5", "--expect", "6"}, {"checkpoint", "rm", name, "--expect", "6"}, {evil}, {"--" + evil}, {"ls", "--state", evil},
		{"--store", "file://" + evil, "ls"}, {"--store", evil, "ls"}, {"--store", "file:" + evil + "/" + evil + "?x=" + evil, "ls"}, {"checkpoint", "--file", evil, "get", "x"},
		{"run", "name", "--", evil}, {"run", "name", "--once-per", evil, "--", "true"}, {"run", "name", "--report", "nowhere/" + evil, "--", "true"}, {"renew", evil}, {"unlock", "nowhere/" + evil},
		{"__complete", "show", ""}, {"__complete", "checkpoint", "get", ""},
	} {
		out, errs, _ := run(args...)
		if out == "" && errs == "" {
			t.Errorf("%q says nothing: the test shows nothing", args)
		}
		tame(t, strings.Join(args, " "), out, 0)
		tame(t, strings.Join(args, " "), errs, 0)
	}
	for _, args := range [][]string{{"ls", "--json"}, {"show", name, "--json"}, {"checkpoint", "ls", "--json"}, {"checkpoint", "get", name, "--json"}, {"checkpoint", "export"}} {
		out, errs, status := run(args...)
		if status != 0 {
			t.Errorf("%q: %d: %s", args, status, errs)
		}
		tame(t, strings.Join(args, " "), out, 0)
		var v any
		if err := json.Unmarshal([]byte(out), &v); err != nil {
			t.Errorf("%q: %v", args, err)
		}
		if list, ok := v.([]any); ok && len(list) > 0 {
			v = list[0]
		}
		fields, _ := v.(map[string]any)
		if got := fields["name"]; got != nil && (got != name || fields["holder"] != evil) {
			t.Errorf("%q: got %q held by %q", args, got, fields["holder"])
		}
		if got := fields["key"]; got != nil && (got != name || fields["event_id"] != evil) {
			t.Errorf("%q: got %q with event %q", args, got, fields["event_id"])
		}
		if fields["name"] == nil && fields["key"] == nil {
			t.Errorf("%q: got %s", args, out)
		}
	}
	// The lines of streams: watch, and hold.
	for _, flags := range [][]string{nil, {"--json"}} {
		watch := exec.Command(bin, append([]string{"watch", name}, flags...)...)
		watch.Dir = dir
		watch.Env = environ(dir)
		out, err := watch.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := watch.Start(); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 64<<10)
		n, err := out.Read(b)
		_ = watch.Process.Kill()
		_ = watch.Wait()
		if err != nil {
			t.Fatal(err)
		}
		tame(t, "watch", string(b[:n]), 1)
	}
	hold := exec.Command(bin, "hold", "b"+evil, "-v")
	hold.Env = environ(dir)
	hold.Stdin = strings.NewReader("")
	out, _ := hold.CombinedOutput()
	tame(t, "hold", string(out), 0)
	// A report is read by people, too.
	if _, errs, status := run("run", "c", "--report", "r.json", "--", "true", "c"+evil); status != 0 {
		t.Fatal(errs)
	}
	report, err := os.ReadFile(filepath.Join(dir, "r.json"))
	if err != nil {
		t.Fatal(err)
	}
	tame(t, "report", string(report), 0)
	if !json.Valid(report) || !strings.Contains(string(report), `c`+`x\u001b[2J`) {
		t.Errorf("the report: %s", report)
	}
}

// The line that a terminal shows while run waits has the two controls that put it in
// the place of the one before, and no others.
func TestWaitingLineOfOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bin := holdfastBinary(t)
	env := environ(dir)
	lock := exec.Command(bin, "lock", "job", "--handle", filepath.Join(dir, "h.json"), "--holder", evil)
	lock.Env = env
	if out, err := lock.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	wait := exec.Command(bin, "run", "-w", "3s", "job", "--", "true")
	wait.Env = env
	f, err := pty.Start(wait)
	if err != nil {
		t.Fatal(err)
	}
	all, _ := io.ReadAll(f) // ends with an error of the terminal's
	_ = f.Close()
	_ = wait.Wait()
	text := strings.ReplaceAll(strings.ReplaceAll(string(all), "\r\x1b[K", "\n"), "\r\n", "\n")
	if !strings.Contains(text, `waiting for lock "job"`) {
		t.Fatalf("it shows %q", text)
	}
	tame(t, "the terminal", text, 0)
}

// What a server says in its errors is escaped as well: by every command, by doctor and
// in JSON.
func TestMessagesOfServers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bin := holdfastBinary(t)
	message := "no" + evil
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Header.Get("X-Amz-Target"), "DynamoDB") {
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(map[string]string{"__type": "com.amazon.coral.validate#ValidationException", "message": message})
			return
		}
		w.WriteHeader(http.StatusBadRequest)
		text := strings.NewReplacer("\x1b", "&#27;", "\a", "&#7;", "\u009b", "&#x9b;").Replace("<Error><Code>Odd" + "\u202e" + "</Code><Message>" + strings.NewReplacer("\x1b", "", "\a", "", "\x7f", "&#127;").Replace(message) + "</Message></Error>")
		_, _ = io.WriteString(w, text)
	}))
	defer server.Close()
	for _, store := range []string{"s3://bucket/app", "s3+versioned://bucket/app", "dynamodb://table/app"} {
		raised := false
		for _, args := range [][]string{{"ls"}, {"show", "x"}, {"run", "-n", "x", "--", "true"}, {"doctor"}, {"doctor", "--json"}, {"init"}, {"checkpoint", "get", "x"}, {"run", "-v", "-w", "1s", "x", "--", "true"}} {
			cmd := exec.Command(bin, append([]string{"--store", store + "?region=us-east-1&timeout=2s&endpoint=" + url.QueryEscape(server.URL)}, args...)...)
			cmd.Env = append(os.Environ(), "HOME="+dir, "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_EC2_METADATA_DISABLED=true")
			done := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
			out, err := cmd.CombinedOutput()
			done.Stop()
			if err == nil && args[0] != "doctor" {
				t.Errorf("%s %q succeeds: %s", store, args, out)
			}
			tame(t, store+" "+strings.Join(args, " "), string(out), 0)
			raised = raised || strings.Contains(string(out), strings.Trim(strconv.Quote("\u202e"), `"`))
		}
		if !raised {
			t.Errorf("%s: no message was repeated: the test shows nothing", store)
		}
	}
}
