//go:build linux

package command

import (
	"bytes"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/internal/allstores"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/redis/redisstore"
)

// secretForms are the places of a store's URL in which a password, or another secret,
// has been seen by mistake; PASSWORD stands for it. SCHEME is each of ours, and some
// that are none.
var secretForms = []string{
	"SCHEME://u:PASSWORD@host/x",
	"SCHEME://PASSWORD@host/x",
	"SCHEME://:PASSWORD@host/x",
	"SCHEME://u:PASSWORD@host",
	"SCHEME:///u:x@y/../x?token=PASSWORD",
	"SCHEME://u:PASSWORD/PASSWORD@host/x",
	"SCHEME://u:PASSWORD PASSWORD@host/x",
	"SCHEME://u:PASSWORD%zz@host/x",
	"SCHEME://u:PASSWORD@host:port/x",
	"SCHEME://host:PASSWORD/x",
	"SCHEME://u%3APASSWORD%40host/x",
	"SCHEME:u:PASSWORD@host/x",
	"SCHEME:/u:PASSWORD",
	"SCHEME://host/x#PASSWORD",
	"SCHEME:x#PASSWORD",
	"SCHEME://host/x?password=PASSWORD",
	"SCHEME:x?password=PASSWORD",
	"SCHEME:x?PASSWORD",
	"SCHEME:x?PASSWORD=",
	"SCHEME:x?PASSWORD=PASSWORD",
	"SCHEME:x?a=b;PASSWORD",
	"SCHEME:x?a=%zzPASSWORD",
	"SCHEME:x?network=PASSWORD",
	"SCHEME:x?unsafe=PASSWORD",
	"SCHEME://host/x?PASSWORD",
	"SCHEME://host/x?network=PASSWORD",
	"SCHEME://host/x?unsafe=PASSWORD",
	"SCHEME://host/x?timeout=PASSWORD",
	"SCHEME://host/x?timeout=1s&timeout=PASSWORD",
	"SCHEME://host/x?anonymous=PASSWORD",
	"SCHEME://host/x?sse=PASSWORD",
	"SCHEME://host/x?acl=PASSWORD",
	"SCHEME://host/x?checksums=PASSWORD",
	"SCHEME://host/x?put_lifetime=PASSWORD",
	"SCHEME://host/x?settle_delay=PASSWORD",
	"SCHEME://host/x?endpoint=http://u:PASSWORD@h",
	"SCHEME://host/x?endpoint=http%3A%2F%2Fu%3APASSWORD%40h",
	"SCHEME://host/x?endpoint=http://h%3Ftoken=PASSWORD",
	"SCHEME://host/x?endpoint=http://h:PASSWORD",
	"SCHEME://host/x?endpoint=u:PASSWORD@h",
	"SCHEME://host/x?X-Amz-Signature=PASSWORD&X-Amz-Security-Token=PASSWORD",
}

// password is not among the words of any message.
const password = "Zq7hunter2Zq7"

// No command repeats a secret that is in a store's URL, wherever it is in it: on
// no scheme, in no error, and in no JSON. All of these URLs are refused.
func TestSecretsInURLs(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	ownState(t, dir)
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	t.Setenv("AWS_REGION", "us-east-1")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	for _, form := range secretForms {
		for _, scheme := range []string{"file", "s3", "s3+versioned", "dynamodb", "gs", "azblob", "FILE", "http", "postgres", "etcd", "nats", "mysql", "redis", "rediss", "sqlite", "flie", ""} {
			store := strings.ReplaceAll(form, "PASSWORD", password)
			if scheme == "" {
				store = strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(store, "SCHEME"), ":"), "//")
			}
			store = strings.Replace(store, "SCHEME", scheme, 1)
			if (strings.ToLower(scheme) == "file" || scheme == "sqlite") && form == "SCHEME:/u:PASSWORD" {
				continue // a name of a directory or file like any other
			}
			lines := [][]string{
				{"ls"}, {"ls", "--json"}, {"show", "x", "--json"}, {"run", "-n", "x", "--", "true"}, {"run", "x", "-v", "-w", "100ms", "--report", "r.json", "--", "true"},
				{"lock", "-n", "x"}, {"hold", "-n", "x"}, {"doctor"}, {"doctor", "--json"}, {"init"}, {"bench"}, {"checkpoint", "get", "x"}, {"__complete", "show", ""},
			}
			if !slices.ContainsFunc(stores.Schemes(), func(s *stores.Scheme) bool { return strings.EqualFold(s.Name, scheme) }) {
				lines = lines[:3] // all ask the same
			}
			for _, args := range lines {
				var out bytes.Buffer
				status := execute(append([]string{"--store", store}, args...), strings.NewReader(""), &out, &out)
				if report, err := os.ReadFile("r.json"); err == nil {
					out.Write(bytes.ReplaceAll(report, []byte(store), nil)) // what the command line was, it was
				}
				if strings.Contains(out.String(), password) {
					t.Fatalf("--store %s %s: %s", store, strings.Join(args, " "), out.String())
				}
				if status == exit.OK && args[0] != "__complete" {
					t.Fatalf("--store %s %s: accepted: %s", store, strings.Join(args, " "), out.String())
				}
			}
			var out bytes.Buffer
			for _, args := range [][]string{{"run", "-n", "x", "--also-store", store, "--store", "file:" + filepath.Join(dir, "s"), "--", "true"}, {store}, {"checkpoint", store}, {"copy-store", store, "file:" + dir}, {"copy-store", "file:" + dir, store}} {
				if execute(args, strings.NewReader(""), &out, &out) == exit.OK || strings.Contains(out.String(), password) {
					t.Fatalf("%q: %s", args, out.String())
				}
			}
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.Contains(e.Name(), password) {
			t.Errorf("%s was made", e.Name())
		}
	}
}

// No part of a URL shows what looks like a user's name and password, or a host after them, on any
// scheme: neither the name of a parameter that is known there nor one that is not. Such URLs are
// refused. A command that reaches for a server has no other way to show the secret than its error.
func TestSecretsInPartsOfURLs(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	ownState(t, dir)
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	t.Setenv("AWS_REGION", "us-east-1")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	parameters := append([]string{
		"table", "prefix", "network", "unsafe", "endpoint", "region", "profile", "anonymous", "fips", "dualstack", "path_style", "timeout",
		"user_project", "settle_delay", "put_lifetime", "sse", "sse_key", "acl", "checksums", "password", "passfile", "unknown",
	}, slices.Concat(allstores.PostgresParameters, allstores.MySQLParameters, redisstore.Parameters)...)
	refused := func(raw string) {
		t.Helper()
		for _, args := range [][]string{{"ls"}, {"run", "-n", "x", "--json", "--", "true"}} {
			var out bytes.Buffer
			status := execute(append([]string{"--store", raw}, args...), strings.NewReader(""), &out, &out)
			if strings.Contains(out.String(), password) || status != exit.Usage && status != exit.Unsafe {
				t.Errorf("--store %s %s: status %d, %s", raw, args[0], status, &out)
			}
		}
	}
	for _, s := range stores.Schemes() {
		for _, parameter := range parameters {
			for _, value := range []string{"u:PASSWORD@127.0.0.1", "http://u:PASSWORD@127.0.0.1", "u:PASSWORD@"} {
				refused(s.Name + "://127.0.0.1:1/d?" + parameter + "=" + url.QueryEscape(strings.ReplaceAll(value, "PASSWORD", password)))
			}
		}
	}
	for _, rest := range []string{
		"127.0.0.1:1/d?user=u:PASSWORD", "127.0.0.1:1/d/x?user=:PASSWORD", "/d?host=PASSWORD@127.0.0.1", "/d?host=127.0.0.1,u:PASSWORD", "/d?host=127.0.0.1:PASSWORD",
		"/d?host=127.0.0.1&host=u:PASSWORD", "/d?port=PASSWORD", "/d?host=127.0.0.1&port=1,PASSWORD", "127.0.0.1:1/d/PASSWORD@x", "u:1/2/PASSWORD@127.0.0.1/d", "127.0.0.1:1/d/x/PASSWORD@x/y",
		"127.0.0.1:1/d?connect_timeout=PASSWORD", "127.0.0.1:1/d?sslmode=PASSWORD", "127.0.0.1:1/d?service=PASSWORD", "127.0.0.1:1/d?sslrootcert=PASSWORD&sslmode=verify-ca", "127.0.0.1:1/d?target_session_attrs=PASSWORD",
		"127.0.0.1:1/d?table=PASSWORD;", "127.0.0.1:1/d:PASSWORD", "127.0.0.1:1/PASSWORD@d",
	} {
		refused("postgres://" + strings.ReplaceAll(rest, "PASSWORD", password))
	}
	for _, rest := range []string{
		"127.0.0.1:1/d?user=u:PASSWORD", "127.0.0.1:1/d/PASSWORD@x", "u:1/2/PASSWORD@127.0.0.1/d", "127.0.0.1:1/d?connect_timeout=PASSWORD", "127.0.0.1:1/d?sslmode=PASSWORD",
		"127.0.0.1:1/d?sslrootcert=PASSWORD&sslmode=verify-full", "127.0.0.1:1/d?sslcert=PASSWORD", "127.0.0.1:1/d?socket=PASSWORD", "127.0.0.1:1/d?socket=/u:PASSWORD", "127.0.0.1:1/d?table=PASSWORD;",
		"127.0.0.1:1/d:PASSWORD", "127.0.0.1:1/PASSWORD@d", "tcp(127.0.0.1:1)/d?PASSWORD", "127.0.0.1:1/d?passwd=PASSWORD", "127.0.0.1:1/d?MYSQL_PWD=PASSWORD",
	} {
		refused("mysql://" + strings.ReplaceAll(rest, "PASSWORD", password))
	}
	for _, rest := range []string{
		"127.0.0.1:1/0?user=u:PASSWORD", "127.0.0.1:1,u:PASSWORD@127.0.0.1/0", "127.0.0.1:1/0/PASSWORD@x", "127.0.0.1:1/PASSWORD:@x", "127.0.0.1:1/0?cluster=PASSWORD", "127.0.0.1:PASSWORD/0",
		"127.0.0.1:1/0?unsafe=PASSWORD", "127.0.0.1:1/0?unsafe=appendonly,PASSWORD", "127.0.0.1:1/0?timeout=PASSWORD", "127.0.0.1:1/0?PASSWORD=x", "127.0.0.1:1/0?sentinel=u:PASSWORD@x",
	} {
		refused("redis://" + strings.ReplaceAll(rest, "PASSWORD", password))
	}
	// What only looks alike is taken: the error is that nothing listens there.
	for _, rest := range []string{"127.0.0.1:1/d?user=ada@tenant", "/d?host=::1&port=1", "/d?host=127.0.0.1,localhost&port=1,1", "/d?host=/nowhere", "127.0.0.1:1/d/a%40b", "/d?host=db-1.example.invalid&connect_timeout=1"} {
		if said, status := executed([]string{"--store", "postgres://" + rest, "ls"}); status != exit.Unreachable {
			t.Errorf("%s: status %d, %s", rest, status, said)
		}
	}
	for _, rest := range []string{"127.0.0.1:1/d?user=ada@tenant", "127.0.0.1:1/d/a%40b", "[::1]:1/d", "/d?socket=/nowhere", "127.0.0.1:1/d?connect_timeout=1&sslmode=require"} {
		if said, status := executed([]string{"--store", "mysql://" + rest, "ls"}); status != exit.Unreachable {
			t.Errorf("mysql %s: status %d, %s", rest, status, said)
		}
	}
}

// No error about a line of the configuration repeats a secret of a URL that is in the wrong place.
func TestSecretsInConfig(t *testing.T) {
	dir := t.TempDir()
	ownState(t, dir)
	path := filepath.Join(dir, "holdfast.conf")
	t.Setenv(stores.ConfigVariable, path)
	for _, form := range secretForms {
		url := strings.ReplaceAll(strings.ReplaceAll(form, "PASSWORD", password), "SCHEME", "redis")
		for _, line := range []string{"URL", "store URL", "store main URL", "main = URL", "default URL", "default = URL", "default main URL", "store main: URL", "store URL = file:/x", "URL = main"} {
			line = strings.ReplaceAll(line, "URL", url)
			for _, end := range []string{"", "=", "&timeout=5s"} {
				if err := os.WriteFile(path, []byte("\n"+line+end+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				said, status := executed([]string{"--store", "main", "ls", "--json"})
				if strings.Contains(said, password) || strings.Contains(said, "redis") || status != exit.Unsafe || !strings.Contains(said, path+", line 2: ") {
					t.Errorf("%s: status %d, %s", line+end, status, said)
				}
			}
		}
	}
}

// What is taken apart can be printed in every way: it holds no secret any more.
func TestParsedStoreHoldsNoSecret(t *testing.T) {
	a := &stores.Access{Drivers: allstores.Drivers()}
	for _, raw := range []string{"file:/x?network=allow", "s3://b/p?endpoint=" + url.QueryEscape("http://localhost:9000"), "dynamodb://t/p?region=r", "s3+versioned://b", "gs://b/p?user_project=p"} {
		u, err := a.ParseStore(raw)
		if err != nil || u.User != nil || u.Fragment != "" {
			t.Errorf("%s: %v, %v", raw, u, err)
		}
	}
}

// A store, or a state file, that is given and empty (an unset secret, say) is not the
// default one: an error, on the command line and in the environment, and nothing runs.
func TestEmptyStoreIsNotTheDefault(t *testing.T) {
	bin := holdfastBinary(t)
	for _, c := range []struct {
		name string
		env  []string
		args []string
		want int
	}{
		{"flag", nil, []string{"--store", "", "run", "x", "--", "touch", "ran"}, exit.Usage},
		{"flag with =", nil, []string{"--store=", "lock", "x"}, exit.Usage},
		{"variable", []string{"HOLDFAST_STORE="}, []string{"run", "x", "--", "touch", "ran"}, exit.Usage},
		{"variable, ls", []string{"HOLDFAST_STORE="}, []string{"ls"}, exit.Usage},
		{"variable, hold", []string{"HOLDFAST_STORE="}, []string{"hold", "-n", "x"}, exit.Usage},
		{"variable, doctor", []string{"HOLDFAST_STORE="}, []string{"doctor"}, exit.Usage},
		{"variable, init", []string{"HOLDFAST_STORE="}, []string{"init"}, exit.Usage},
		{"variable, bench", []string{"HOLDFAST_STORE="}, []string{"bench"}, exit.Usage},
		{"variable, checkpoint", []string{"HOLDFAST_STORE="}, []string{"checkpoint", "advance", "x", "1"}, exit.Usage},
		{"also", nil, []string{"run", "x", "--also-store", "", "--", "touch", "ran"}, exit.Usage},
		{"variable of also", []string{"HOLDFAST_ALSO_STORE="}, []string{"run", "x", "--", "touch", "ran"}, exit.Usage},
		{"file", nil, []string{"checkpoint", "--file", "", "advance", "x", "1"}, exit.Usage},
		{"variable of file", []string{"HOLDFAST_CHECKPOINT_FILE="}, []string{"checkpoint", "advance", "x", "1"}, exit.Usage},
		{"handle", nil, []string{"unlock", ""}, exit.Usage},
		{"table", nil, []string{"item", "ls", "--table", "", "--bucket", "file:b"}, exit.Usage},
		{"variable of table", []string{"HOLDFAST_TABLE="}, []string{"item", "ls", "--bucket", "file:b"}, exit.Usage},
		{"bucket", nil, []string{"item", "ls", "--table", "file:t", "--bucket", ""}, exit.Usage},
		{"variable of bucket", []string{"HOLDFAST_BUCKET="}, []string{"item", "ls", "--table", "file:t"}, exit.Usage},
		{"variable of bucket, init", []string{"HOLDFAST_BUCKET="}, []string{"item", "init", "--table", "file:t"}, exit.Usage},
		{"base", nil, []string{"item", "ls", "--table", "file:t", "--bucket", "file:b", "--reference-base", ""}, exit.Usage},
		{"period", nil, []string{"--store", "file:s", "run", "x", "--once-per", "", "--", "touch", "ran"}, exit.Usage},
		{"variable of the metrics", []string{"HOLDFAST_METRICS="}, []string{"--store", "file:s", "run", "x", "--", "touch", "ran"}, exit.Usage},
		{"on ask", nil, []string{"--store", "file:s", "run", "x", "--on-ask", "", "--", "touch", "ran"}, exit.Usage},
		{"on lost", nil, []string{"--store", "file:s", "run", "x", "--on-lost", "", "--", "touch", "ran"}, exit.Usage},
		{"on acquire", nil, []string{"--store", "file:s", "run", "x", "--on-acquire", "", "--", "touch", "ran"}, exit.Usage},
		{"value of a leader", nil, []string{"--store", "file:s", "lead", "x", "--value", "", "--", "touch", "ran"}, exit.Usage},
		{"a number counts as not set", []string{"HOLDFAST_TTL=", "HOLDFAST_WAIT=", "HOLDFAST_QUIET="}, []string{"--store", "file:s", "run", "x", "--", "true"}, exit.OK},
		{"the flag wins", []string{"HOLDFAST_STORE="}, []string{"--store", "file:s", "run", "x", "--", "true"}, exit.OK},
		{"a state file needs no store", []string{"HOLDFAST_STORE="}, []string{"checkpoint", "--file", "s.json", "advance", strings.Repeat("ab", 32), "1"}, exit.OK},
		{"nor does version", []string{"HOLDFAST_STORE="}, []string{"version"}, exit.OK},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.Command(bin, c.args...)
			cmd.Dir = dir
			for _, v := range os.Environ() {
				if !strings.HasPrefix(v, "HOLDFAST_") {
					cmd.Env = append(cmd.Env, v)
				}
			}
			cmd.Env = append(append(cmd.Env, "HOME="+dir, "XDG_STATE_HOME="+dir), c.env...)
			if status, out := exitOf(t, cmd); status != c.want || status != 0 && !strings.Contains(out, "empty") && !strings.Contains(out, "name the handle") {
				t.Errorf("status %d, want %d: %s", status, c.want, out)
			}
			if isThere(filepath.Join(dir, "ran"))() {
				t.Error("the command ran")
			}
		})
	}
}

// Every flag that says where something is, is among those that refuse to be empty.
func TestFlagsThatSayWhere(t *testing.T) {
	a := &app{}
	a.root = a.command()
	known := map[string]bool{"store": true, "also-store": true, "file": true, "handle": true, "report": true, "metrics": true, "table": true, "bucket": true, "reference-base": true, "log": true, "token-file": true, "password-file": true, "svg": true}
	seen := map[string]bool{}
	visit := func(f *pflag.Flag) {
		for _, word := range []string{"where", "store", "file", "URL", "directory"} {
			if (f.Value.Type() == "string" || f.Value.Type() == "stringArray") && strings.Contains(f.Usage, word) {
				seen[f.Name] = true
			}
		}
	}
	a.root.PersistentFlags().VisitAll(visit)
	for _, c := range a.root.Commands() {
		c.LocalFlags().VisitAll(visit)
		for _, sub := range c.Commands() {
			sub.LocalFlags().VisitAll(visit)
		}
	}
	for name := range seen {
		if !known[name] {
			t.Errorf("--%s says where something lies, and may not be empty", name)
		}
	}
}
