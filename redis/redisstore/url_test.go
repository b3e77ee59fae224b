package redisstore_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/redis/redisstore"
	"github.com/holdfast-go/holdfast/store"
)

// TestURL: what URLs name.
func TestURL(t *testing.T) {
	t.Setenv("REDIS_PASSWORD", "")
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		url, addresses, prefix, name string
		db                           int
		cluster, tls                 bool
	}{
		{"redis://h", "h:6379", "", "redis://h/0", 0, false, false},
		{"redis://h:1/", "h:1", "", "redis://h:1/0", 0, false, false},
		{"redis://h/3", "h:6379", "", "redis://h/3", 3, false, false},
		{"redis://h/3/a/b/", "h:6379", "a/b", "redis://h/3/a/b", 3, false, false},
		{"redis://h/0/a/3", "h:6379", "a/3", "redis://h/0/a/3", 0, false, false},
		{"redis://h/0/3", "h:6379", "3", "redis://h/0/3", 0, false, false},
		{"redis://[::1]:2/0/a", "[::1]:2", "a", "redis://[::1]:2/0/a", 0, false, false},
		{"redis://[::1]/0/a", "[::1]:6379", "a", "redis://[::1]/0/a", 0, false, false},
		{"redis://h/0/a?cluster=true", "h:6379", "a", "redis://h/0/a", 0, true, false},
		{"redis://h,i:2/0/a", "h:6379 i:2", "a", "redis://h,i:2/0/a", 0, true, false},
		{"redis://h,i:2/1/a?sentinel=main", "h:6379 i:2", "a", "redis://h,i:2/1/a", 1, false, false},
		{"rediss://h/0/a?user=u&password_file=" + file, "h:6379", "a", "rediss://h/0/a", 0, false, true},
	} {
		connect, o, err := redisstore.FromURL(c.url, &redisstore.Options{Prefix: "other"})
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		if got := strings.Join(connect.Addrs, " "); got != c.addresses || connect.DB != c.db || o.Prefix != c.prefix || o.Name != c.name || connect.IsClusterMode != c.cluster || (connect.TLSConfig != nil) != c.tls {
			t.Errorf("%s: %q, %d, %q, %q, %v, %v", c.url, got, connect.DB, o.Prefix, o.Name, connect.IsClusterMode, connect.TLSConfig != nil)
		}
		if c.tls && (connect.Username != "u" || connect.Password != "secret") {
			t.Errorf("%s: the user %q with %q", c.url, connect.Username, connect.Password)
		}
	}
	_, o, err := redisstore.FromURL("redis://h?timeout=3s&unsafe=appendonly,maxmemory-policy", &redisstore.Options{Unsafe: []redisstore.Risk{redisstore.LateSync}})
	if want := []redisstore.Risk{redisstore.LateSync, redisstore.NoLog, redisstore.Eviction}; err != nil || o.Timeout != 3*time.Second || !slices.Equal(o.Unsafe, want) {
		t.Errorf("%v, %+v", err, o)
	}
	for _, url := range []string{
		"redis:h", "redis:///0", "redis://h/word", "redis://h/word/0", "redis://h//a", "http://h", "redis://u:p@h", "redis://u@h", "redis://h?password=p", "redis://h?user=u:p", "redis://h/a@b", "redis://h#x", "redis://h?unknown=1",
		"redis://h?timeout=", "redis://h?timeout=1s&timeout=2s", "redis://h?timeout=-1s", "redis://h?timeout=x", "redis://h?unsafe=all", "redis://h?unsafe=appendonly,", "redis://h?cluster=1",
		"redis://h/1?cluster=true", "redis://h,i?cluster=false", "redis://h?cluster=true&sentinel=m", "redis://h?user=u", "redis://h?password_file=/nowhere", "redis://h?cacert=x",
		"rediss://h?cacert=/nowhere", "rediss://h?cacert=" + file, "rediss://h?cert=x", "rediss://h?cert=" + file + "&key=" + file, "redis://h/99999999999999999999", "redis://h/a//b", "redis://h/0/..",
	} {
		if _, err := redisstore.Open(url, nil); !errors.Is(err, store.ErrMisconfigured) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", url, err)
		}
	}
	for name, o := range map[string]*redisstore.Options{
		"prefix": {Prefix: "/a"}, "short": {Timeout: time.Millisecond}, "long": {Timeout: time.Hour}, "risk": {Unsafe: []redisstore.Risk{"x"}},
	} {
		connect, _, err := redisstore.FromURL("redis://h", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := redisstore.New(connect, o); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
