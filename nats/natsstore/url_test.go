package natsstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/nats/natsstore"
	"github.com/holdfast-go/holdfast/store"
)

func TestFromURL(t *testing.T) {
	for _, name := range []string{"NATS_USER", "NATS_PASSWORD", "NATS_TOKEN", "NATS_CREDS"} {
		t.Setenv(name, "")
	}
	target, err := natsstore.FromURL("nats://a,b:1/locks/app/prod?timeout=2s&tls=true&replicas=3", nil)
	if err != nil || strings.Join(target.Servers, " ") != "nats://a:4222 nats://b:1" || target.Bucket != "locks" || target.Options.Prefix != "app/prod" ||
		target.Options.Timeout != 2*time.Second || target.Options.Replicas != 3 || !target.Encrypted || target.Secret {
		t.Errorf("got %+v, %v", target, err)
	}
	for _, raw := range []string{
		"nats://a", "nats:///locks", "nats:locks", "http://a/locks", "nats://a/lo.cks", "nats://a/locks//b", "nats://a/locks?timeout=1", "nats://a/locks?user=", "nats://a/locks?replicas=6", "nats://a/locks?replicas=x",
		"nats://a/locks?tls=1", "nats://a/locks?cert=x", "nats://a/locks?creds=/none", "nats://a/locks?user=x",
		"nats://u:secret@a/locks", "nats://secret@a/locks", "nats://a/locks?password=secret", "nats://a/locks?token=secret", "nats://a/locks?user=u:secret", "nats://a/locks/secret@b", "nats://a/locks?creds=/secret",
	} {
		if _, err := natsstore.FromURL(raw, nil); !errors.Is(err, store.ErrMisconfigured) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", raw, err)
		}
	}
	t.Setenv("NATS_USER", "ada")
	t.Setenv("NATS_PASSWORD", "pass")
	if target, err := natsstore.FromURL("nats://a/locks", nil); err != nil || !target.Secret {
		t.Errorf("with NATS_USER: %+v, %v", target, err)
	}
}

// TestOptions: options out of their bounds are refused.
func TestOptions(t *testing.T) {
	for _, o := range []natsstore.Options{{Timeout: time.Millisecond}, {Timeout: -1}, {Replicas: 6}, {Replicas: -1}, {Prefix: "a//b"}, {Prefix: strings.Repeat("a", natsstore.MaxPrefix+1)}} {
		if _, err := natsstore.New(nil, "locks", &o); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := natsstore.New(nil, "locks", nil); err == nil {
		t.Error("a nil connection was accepted")
	}
}
