package etcdstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/etcd/etcdstore"
	"github.com/holdfast-go/holdfast/store"
)

func TestFromURL(t *testing.T) {
	t.Setenv("ETCDCTL_USER", "")
	t.Setenv("ETCDCTL_PASSWORD", "")
	config, o, err := etcdstore.FromURL("etcd://a,b:1,c:2379/app/prod?timeout=2s&tls=true", nil)
	if err != nil || strings.Join(config.Endpoints, " ") != "https://a:2379 https://b:1 https://c:2379" || o.Prefix != "app/prod" || o.Timeout != 2*time.Second || config.TLS == nil || config.MaxUnaryRetries != 1 {
		t.Errorf("got %+v, %+v, %v", config, o, err)
	}
	for _, raw := range []string{
		"etcd://a", "etcd:///app", "etcd:app", "http://a/app", "etcd://a/app//b", "etcd://a/../b", "etcd://a/app?timeout=1", "etcd://a/app?timeout=-1s", "etcd://a/app?user=",
		"etcd://a/app?tls=1", "etcd://a/app?tls=false&cacert=x", "etcd://a/app?cert=x", "etcd://a/app?cacert=/none", "etcd://a/app?user=x", "etcd://a/app?tls=true&tls=true",
		"etcd://u:secret@a/app", "etcd://a/app?password=secret", "etcd://a/app?user=u:secret", "etcd://a/app/secret@b", "etcd://a/app?secret=x", "etcd://a/app?cacert=/secret",
	} {
		if _, _, err := etcdstore.FromURL(raw, nil); !errors.Is(err, store.ErrMisconfigured) || strings.Contains(strings.ReplaceAll(err.Error(), `parameter "secret"`, ""), "secret") {
			t.Errorf("%s: %v", raw, err)
		}
	}
	t.Setenv("ETCDCTL_USER", "ada:pass")
	if config, _, err := etcdstore.FromURL("etcd://a/app", nil); err != nil || config.Username != "ada" || config.Password != "pass" {
		t.Errorf("with ETCDCTL_USER: %q, %v", config.Username, err)
	}
	if _, _, err := etcdstore.FromURL("etcd://a/app?user=bob", nil); err == nil {
		t.Error("two users were accepted")
	}
}

// TestOptions: options out of their bounds are refused.
func TestOptions(t *testing.T) {
	for _, o := range []etcdstore.Options{{Timeout: time.Millisecond}, {Timeout: -1}, {Prefix: "a//b"}, {Prefix: strings.Repeat("a", etcdstore.MaxPrefix+1)}} {
		if _, err := etcdstore.New(nil, &o); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := etcdstore.New(nil, nil); err == nil {
		t.Error("a nil client was accepted")
	}
}
