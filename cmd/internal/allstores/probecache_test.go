//go:build unix

package allstores

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/suitetest"
)

func TestKnown(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("AWS_ENDPOINT_URL", "")
	of := func(raw string) probeCache {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		return probeCacheIn(dir, u)
	}
	k := of("s3://b/p?region=r&endpoint=http://one")
	if k.is() {
		t.Fatal("known before it was noted")
	}
	k.note()
	if !of("s3://b/p?endpoint=http://one&region=r").is() {
		t.Error("not known after it was noted")
	}
	for _, other := range []string{"s3://b/q?endpoint=http://one&region=r", "s3://b/p?endpoint=http://two&region=r", "s3://b/p"} {
		if of(other).is() {
			t.Errorf("%s is known by another's note", other)
		}
	}
	long := time.Now().Add(-trustFor - time.Hour)
	if err := os.Chtimes(string(k), long, long); err != nil {
		t.Fatal(err)
	}
	if k.is() {
		t.Error("known for ever")
	}
	k.note()
	for _, name := range []string{"AWS_ENDPOINT_URL", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "AWS_ACCESS_KEY_ID"} {
		before := os.Getenv(name)
		t.Setenv(name, "elsewhere")
		if of("s3://b/p?region=r&endpoint=http://one").is() {
			t.Errorf("known on another server or in another account: %s", name)
		}
		t.Setenv(name, before)
	}
	if k.forget(); k.is() {
		t.Error("known after it was forgotten")
	}
	probeCache("").note()
	probeCache("").forget()
}

// That a server passed its probe is believed only where no other user can have written.
func TestPlantedProbes(t *testing.T) {
	u, err := url.Parse("s3://bucket/app")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	k := probeCacheIn(dir, u)
	k.note()
	if !k.is() {
		t.Fatal("control: nothing is remembered")
	}
	for name, spoil := range map[string]func(path string) error{
		"writable by others": func(path string) error { return os.Chmod(path, 0o777) },
		"another user's": func(path string) error {
			suitetest.NeedRoot(t, "another user")
			return os.Chown(path, 65534, 65534)
		},
		"behind a link": func(path string) error {
			return errors.Join(os.Rename(path, path+"-real"), os.Symlink(path+"-real", path))
		},
	} {
		for _, path := range []string{filepath.Dir(string(k)), string(k)} {
			if err := spoil(path); err != nil {
				t.Fatal(err)
			}
			if k.is() {
				t.Errorf("%s, %s: believed", path, name)
			}
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			k.note()
			if !k.is() {
				t.Fatalf("after %s: nothing is remembered", name)
			}
		}
	}
}
