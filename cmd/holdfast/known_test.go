package main

import (
	"net/url"
	"os"
	"testing"
	"time"
)

func TestKnown(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("AWS_ENDPOINT_URL", "")
	of := func(raw string) known {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		return knownIn(dir, u)
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
	t.Setenv("AWS_ENDPOINT_URL", "http://elsewhere")
	if of("s3://b/p?region=r&endpoint=http://one").is() {
		t.Error("known on another server")
	}
	t.Setenv("AWS_ENDPOINT_URL", "")
	if k.forget(); k.is() {
		t.Error("known after it was forgotten")
	}
	known("").note()
	known("").forget()
}
