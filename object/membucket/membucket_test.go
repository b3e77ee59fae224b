package membucket_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/bucketstore"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/store"
)

func TestBucket(t *testing.T) {
	objecttest.Run(t, func(*testing.T) object.Bucket { return membucket.New() }, nil)
}

// TestHashed: equal bodies have equal versions, and everything else is the same.
func TestHashed(t *testing.T) {
	objecttest.Run(t, func(*testing.T) object.Bucket { return &membucket.Bucket{Hashed: true} }, &objecttest.Options{Rounds: 2})
	b := &membucket.Bucket{Hashed: true}
	one, err := b.Put(t.Context(), "a", strings.NewReader("x"), nil)
	if err != nil {
		t.Fatal(err)
	}
	two, err := b.Put(t.Context(), "b", strings.NewReader("x"), nil)
	if err != nil || one.Version != two.Version || object.TraitsOf(b).UniqueVersions {
		t.Errorf("versions %q and %q, unique: %v, %v", one.Version, two.Version, object.TraitsOf(b).UniqueVersions, err)
	}
}

func TestZeroValue(t *testing.T) {
	var b membucket.Bucket
	for _, err := range b.List(t.Context(), "", nil) {
		t.Error(err)
	}
	if err := b.Delete(t.Context(), "a", nil); err != nil {
		t.Error(err)
	}
}

// TestProbe: a bucket that can do everything is found to.
func TestProbe(t *testing.T) {
	b := membucket.New()
	found, err := object.Probe(t.Context(), b, "scratch", object.Abilities()...)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range object.Abilities() {
		if err, tried := found[a]; err != nil || !tried {
			t.Errorf("%s: %v, tried: %v", a, err, tried)
		}
	}
	for info := range b.List(t.Context(), "", nil) {
		t.Errorf("%q was left behind", info.Key)
	}
}

// TestErrorsNameTheBucket: the error of an object, and that of a register among objects,
// name the store once.
func TestErrorsNameTheBucket(t *testing.T) {
	b := membucket.New()
	_, err := b.Stat(t.Context(), "a")
	if got, want := err.Error(), "stat a in memory: not found"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := b.Put(t.Context(), "app/k.json", strings.NewReader("x"), nil); err != nil {
		t.Fatal(err)
	}
	registers, err := bucketstore.New(b, "app", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = registers.Get(t.Context(), "k")
	var failed *store.OpError
	if !errors.As(err, &failed) || failed.Store != "memory/app" || strings.Count(err.Error(), "memory") != 1 {
		t.Errorf("a register: %v", err)
	}
}
