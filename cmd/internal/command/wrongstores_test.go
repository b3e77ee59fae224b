//go:build linux

package command

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/allstores"
	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
)

// wrongStore is a kind of store with a server: how a URL of it names a server, and how its parameters give a
// request half a second.
type wrongStore struct {
	url    string // %s is HOST:PORT; without it, only the URL is tested
	prompt string // parameter, for a server that does not answer
	bad    string // parameter with a value that is wrong
}

var wrongStores = map[string]wrongStore{
	"postgres":     {"postgres://%s/db?user=ada&sslmode=disable", "connect_timeout=1", "connect_timeout=soon"},
	"mysql":        {"mysql://%s/db?user=ada&sslmode=disable", "connect_timeout=1", "connect_timeout=soon"},
	"redis":        {"redis://%s/0/app?unsafe=appendonly", "timeout=500ms", "timeout=soon"},
	"rediss":       {"rediss://%s/0/app?unsafe=appendonly", "timeout=500ms", "timeout=soon"},
	"etcd":         {"etcd://%s/app?tls=false", "timeout=3s", "timeout=soon"},
	"nats":         {"nats://%s/bucket/app?tls=false", "timeout=500ms", "timeout=soon"},
	"dynamodb":     {"dynamodb://table/app?endpoint=http://%s&region=us-east-1", "timeout=100ms", "timeout=soon"},
	"s3":           {"s3://bucket/app?endpoint=http://%s&region=us-east-1", "timeout=100ms", "timeout=soon"},
	"gs":           {"gs://bucket/app?endpoint=http://%s&anonymous=true", "timeout=100ms", "timeout=soon"},
	"azblob":       {"azblob://account/container/app?endpoint=http://%s&anonymous=true", "timeout=100ms", "timeout=soon"},
	"k8s":          {"k8s://namespace/app?context=none", "", "timeout=soon"}, // kubeconfig names the server
	"s3+versioned": {"s3+versioned://bucket/app?endpoint=http://%s&region=us-east-1", "timeout=100ms", "timeout=soon"},
}

// TestWrongStores: one mistake has one status on all kinds of stores, as docs/operations.md promises: one message
// of one line. A hint to try again names the store with all parameters.
func TestWrongStores(t *testing.T) {
	ownState(t, t.TempDir())
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true", "ETCDCTL_USER": "", "NATS_USER": "", "NATS_TOKEN": "",
		"REDIS_PASSWORD": "", "MYSQL_PWD": "", "PGPASSWORD": "",
	} {
		t.Setenv(name, value)
	}
	try := func(t *testing.T, status int, words, store string, command ...string) string {
		t.Helper()
		var out, said bytes.Buffer
		got := execute(append([]string{"--store", store}, command...), strings.NewReader(""), &out, &said)
		text := noAnswerYet.ReplaceAllString(said.String(), "")
		text = strings.TrimPrefix(text, "holdfast: every write on this store includes a pause: doctor needs one or two minutes\n")
		first, hints, _ := strings.Cut(strings.TrimSuffix(text, "\n"), "\n")
		if got != status || !strings.Contains(text, words) || out.Len() > 0 || len(first) > 500 || strings.Contains(text, "%!") || strings.Contains("\n"+hints, "\nholdfast") {
			t.Errorf("%s %v: status %d, want %d with %q: %s%s", store, command, got, status, words, out.String(), text)
		}
		return hints
	}
	closed := listen(t, nil)
	closed.Close()
	mysql := listen(t, func(c net.Conn) {
		_, _ = c.Write([]byte("\x4e\x00\x00\x00\x0a5.5.5-MariaDB\x00" + strings.Repeat("x", 60)))
		_, _ = c.Read(make([]byte, 4096))
	})
	nats := listen(t, func(c net.Conn) {
		_, _ = c.Write([]byte(`INFO {"server_id":"X","version":"2.15.2","proto":1,"max_payload":1048576} ` + strings.Repeat(" ", 300) + "\r\n"))
		_, _ = c.Read(make([]byte, 4096))
	})
	silent := listen(t, func(c net.Conn) {
		for b := make([]byte, 4096); ; {
			if _, err := c.Read(b); err != nil {
				return
			}
		}
	})
	for _, s := range stores.Schemes() {
		at := wrongStores[s.Name]
		hasServer := strings.Contains(at.url, "%s")
		if at.url == "" && strings.Contains(s.Form, "//HOST") {
			t.Errorf("%s is not in the table", s.Name)
		}
		if at.url == "" {
			at = wrongStore{url: s.Begins() + t.TempDir() + "/x?network=allow", bad: "unsafe=bogus"}
			if s.Name == "k8s" { // a kubeconfig names the server
				at = wrongStore{url: "k8s://jobs/app?kubeconfig=none", bad: "timeout=soon"}
			}
		}
		on := func(l net.Listener) string {
			if !hasServer {
				return at.url
			}
			return fmt.Sprintf(at.url, l.Addr())
		}
		t.Run(s.Name, func(t *testing.T) {
			for _, command := range []string{"ls", "init", "doctor"} {
				try(t, 64, "nosuch", on(closed)+"&nosuch=1", command)
				try(t, 64, "", on(closed)+"&"+at.bad, command)
				try(t, 64, "", on(closed)+"&"+at.bad+"&"+at.bad, command)
				try(t, 64, "", s.Begins(), command)
				try(t, 64, "%23", on(closed)+"#x", command)
			}
			if !hasServer {
				return
			}
			for _, command := range []string{"ls", "doctor"} {
				try(t, 78, "credentials", strings.Replace(on(closed), "://", "://u:a-long-password@", 1), command)
				hints := try(t, 69, "", on(closed), command)
				if command == "ls" {
					checkHint(t, hints, on(closed), "doctor")
				}
			}
			if s.Name != "mysql" && s.Name != "rediss" {
				try(t, 78, "", on(mysql), "ls")
			}
			if s.Name != "nats" && s.Name != "rediss" {
				try(t, 78, "", on(nats), "ls")
			}
			checkHint(t, try(t, 69, "accepted the connection", on(silent)+"&"+at.prompt, "ls"), on(silent)+"&"+at.prompt, "doctor")
		})
	}
}

// checkHint checks that a hint is a command line for a store with all its parameters.
func checkHint(t *testing.T, hints, store, command string) {
	t.Helper()
	_, line, _ := strings.Cut(hints, "holdfast --store ")
	got, _, _ := strings.Cut(line, " "+command)
	a, errA := url.Parse(strings.Trim(got, "'"))
	b, errB := url.Parse(store)
	if errA != nil || errB != nil || a.Host != b.Host || a.Query().Encode() != b.Query().Encode() || !strings.HasSuffix(strings.TrimSpace(line), command) {
		t.Errorf("hints %q, want the command %s for %s", hints, command, store)
	}
}

// listen serves connections until the test ends.
func listen(t *testing.T, serve func(net.Conn)) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if serve == nil {
		return l
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return l
}

// TestOtherNames: the message on an unknown kind of store proposes the kind that the user most likely meant.
func TestOtherNames(t *testing.T) {
	ownState(t, t.TempDir())
	for raw, want := range map[string]string{
		"mariadb://h/db": "mysql://", "valkey://h/0": "redis://", "azure://a/c": "azblob://", "gcs://b": "gs://", "rediss+tls://h/0": "rediss://",
		"redis+tls://h/0": "rediss://", "postgresql://h/db": "postgres://", "postgresql:x": "postgres://", "mysq://h/db": "mysql://", "etc://h/p": "etcd://", "S4://b": "s3://",
		"ftp+mail://h": "", "zzzzzzzz://h": "",
	} {
		said, status := executed([]string{"--store", raw, "ls"})
		_, meant, _ := strings.Cut(said, "Did you mean ")
		if got := strings.Trim(strings.TrimSpace(strings.Split(meant, "?")[0]), `"`); status != 64 || got != want {
			t.Errorf("%s: status %d, meant %q, want %q: %s", raw, status, got, want, said)
		}
	}
	if said, status := executed([]string{"--store", "redis://127.0.0.1:1/word", "ls"}); status != 64 || !strings.Contains(said, "redis://HOST/0/PREFIX") {
		t.Errorf("a prefix in the place of the database: status %d, %s", status, said)
	}
}

// TestPasswordsInTheClear: the command warns before a password for Redis, etcd or NATS may go to another machine
// unencrypted.
func TestPasswordsInTheClear(t *testing.T) {
	ownState(t, t.TempDir())
	t.Setenv("REDIS_PASSWORD", password)
	t.Setenv("ETCDCTL_USER", "ada:"+password)
	t.Setenv("NATS_USER", "ada")
	t.Setenv("NATS_PASSWORD", password)
	for url, warned := range map[string]bool{
		"redis://192.0.2.1/0": true, "rediss://192.0.2.1/0": false, "redis://127.0.0.1:1/0": false,
		"etcd://192.0.2.1/p": true, "etcd://192.0.2.1/p?tls=true": false, "etcd://127.0.0.1:1/p": false,
		"nats://192.0.2.1/b": true, "nats://192.0.2.1/b?tls=true": false, "nats://127.0.0.1:1/b": false,
	} {
		var told bytes.Buffer
		a := &app{Invocation: cmdline.Invocation{Access: stores.Access{Drivers: allstores.Drivers(), Printer: output.Printer{Stderr: &told}}}}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if st, err := a.OpenURL(ctx, url); err == nil {
			st.Close()
		}
		cancel()
		if got := strings.Contains(told.String(), "could read the password"); got != warned || strings.Contains(told.String(), password) {
			t.Errorf("%s: told %q, want a warning: %v", url, told.String(), warned)
		}
	}
}

// TestMissingDatabase: init cannot create a database, so the message says that the user must.
func TestMissingDatabase(t *testing.T) {
	ownState(t, t.TempDir())
	t.Setenv("MYSQL_PWD", password)
	l := listen(t, func(c net.Conn) {
		_, _ = c.Write(mysqlGreeting("mysql_native_password"))
		_, _ = c.Read(make([]byte, 4096))
		_, _ = c.Write(mysqlError(2, 1049, "Unknown database 'none'"))
	})
	for _, command := range []string{"ls", "init", "doctor"} {
		said, status := executed([]string{"--store", "mysql://" + l.Addr().String() + "/none?user=ada", command})
		if status != 78 || !strings.Contains(said, `there is no database "none": create it`) || strings.Contains(said, "what is missing") {
			t.Errorf("%s: status %d, %s", command, status, said)
		}
	}
}
