package object_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/store"
)

// changed is a bucket that does something else than requested.
type changed struct {
	*membucket.Bucket
	onPut    func(*object.PutOptions)
	onDelete func(*object.DeleteOptions)
	onCopy   func(*object.CopyOptions)

	putErr, deleteErr error // returned once it is done
	busy              int   // puts that are refused as busy
	fail              error // of all puts
	oneVersion        bool  // all bodies have one version
}

func (c *changed) Put(ctx context.Context, key string, body io.Reader, opts *object.PutOptions) (object.Info, error) {
	if c.fail != nil {
		return object.Info{}, c.fail
	}
	if c.busy > 0 {
		c.busy--
		return object.Info{}, object.ErrBusy
	}
	var o object.PutOptions
	if opts != nil {
		o = *opts
	}
	if c.onPut != nil {
		c.onPut(&o)
	}
	info, err := c.Bucket.Put(ctx, key, body, &o)
	if c.oneVersion {
		info.Version = "same"
	}
	if opts != nil && c.putErr != nil {
		return object.Info{}, c.putErr
	}
	return info, err
}

func (c *changed) Stat(ctx context.Context, key string) (object.Info, error) {
	info, err := c.Bucket.Stat(ctx, key)
	if c.oneVersion {
		info.Version = "same"
	}
	return info, err
}

func (c *changed) Delete(ctx context.Context, key string, opts *object.DeleteOptions) error {
	if opts == nil {
		return c.Bucket.Delete(ctx, key, nil)
	}
	o := *opts
	if c.onDelete != nil {
		c.onDelete(&o)
	}
	err := c.Bucket.Delete(ctx, key, &o)
	if c.deleteErr != nil {
		return c.deleteErr
	}
	return err
}

func (c *changed) Copy(ctx context.Context, source, destination string, opts *object.CopyOptions) (object.Info, error) {
	var o object.CopyOptions
	if opts != nil {
		o = *opts
	}
	if c.onCopy != nil {
		c.onCopy(&o)
	}
	return c.Bucket.Copy(ctx, source, destination, &o)
}

// TestProbe: every way to ignore a condition is found, and nothing is left behind.
func TestProbe(t *testing.T) {
	refuse := &object.ConflictError{}
	for _, c := range []struct {
		name  string
		b     *changed
		lacks []object.Ability
	}{
		{"good", &changed{}, nil},
		{"busy", &changed{busy: 3}, nil},
		{"if-absent ignored", &changed{onPut: func(o *object.PutOptions) { o.IfAbsent = false }}, []object.Ability{object.PutIfAbsent, object.PartsIfAbsent}},
		{"if-match ignored", &changed{onPut: func(o *object.PutOptions) { o.IfMatch = "" }}, []object.Ability{object.PutIfMatch, object.PartsIfMatch}},
		{"all conditional puts refused, and done", &changed{putErr: refuse}, []object.Ability{object.PutIfAbsent, object.PutIfMatch, object.PartsIfAbsent, object.PartsIfMatch}},
		{"conditional puts are unsupported", &changed{putErr: &object.UnsupportedError{Found: "501"}}, []object.Ability{object.PutIfAbsent, object.PutIfMatch, object.PartsIfAbsent, object.PartsIfMatch}},
		{"delete ignores", &changed{onDelete: func(o *object.DeleteOptions) { o.IfMatch = "" }}, []object.Ability{object.DeleteIfMatch, object.DeleteOrAbsent}},
		{"delete refuses, and deletes", &changed{onDelete: func(o *object.DeleteOptions) { o.IfMatch = "" }, deleteErr: refuse}, []object.Ability{object.DeleteIfMatch, object.DeleteOrAbsent}},
		{"delete refuses always", &changed{deleteErr: refuse}, []object.Ability{object.DeleteIfMatch, object.DeleteOrAbsent}},
		{"copy ignores if-absent", &changed{onCopy: func(o *object.CopyOptions) { o.IfAbsent = false }}, []object.Ability{object.CopyIfAbsent}},
		{"copy ignores if-match", &changed{onCopy: func(o *object.CopyOptions) { o.IfMatch = "" }}, []object.Ability{object.CopyIfMatch}},
		{"copy ignores the source", &changed{onCopy: func(o *object.CopyOptions) { o.SourceIfMatch = "" }}, []object.Ability{object.CopySource}},
		{"one version for all", &changed{oneVersion: true}, []object.Ability{object.PutIfMatch, object.PartsIfMatch, object.DeleteIfMatch, object.DeleteOrAbsent, object.CopySource, object.CopyIfMatch}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.b.Bucket = membucket.New()
				found, err := object.Probe(t.Context(), c.b, "dir/", object.Abilities()...)
				if err != nil {
					t.Fatal(err)
				}
				for _, a := range object.Abilities() {
					err, tried := found[a]
					var lacking *object.UnsupportedError
					if want := slices.Contains(c.lacks, a); !tried || errors.As(err, &lacking) != want || want && lacking.Ability != a {
						t.Errorf("%s: got %v, lacking: want %v", a, err, want)
					}
				}
				for info := range c.b.List(t.Context(), "", nil) {
					t.Errorf("%q was left behind", info.Key)
				}
			})
		})
	}
}

// TestProbeFails: what could not be found out is no verdict, and is cleaned up also
// when the context has ended.
func TestProbeFails(t *testing.T) {
	b := &changed{Bucket: membucket.New(), fail: store.ErrDenied}
	if _, err := object.Probe(t.Context(), b, "dir", object.PutIfAbsent); !errors.Is(err, store.ErrDenied) || errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	b = &changed{Bucket: membucket.New(), onPut: func(*object.PutOptions) {
		if n++; n == 2 {
			cancel()
		}
	}}
	if _, err := object.Probe(ctx, b, "", object.PutIfMatch); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	for info := range b.List(t.Context(), "", nil) {
		t.Errorf("%q was left behind", info.Key)
	}
	if found, err := object.Probe(t.Context(), b, "", "levitation"); err != nil || !errors.Is(found["levitation"], errors.ErrUnsupported) {
		t.Errorf("got %v, %v", found, err)
	}
}

// plain is a bucket without abilities.
type plain struct{ object.Bucket }

// decorated hides nothing.
type decorated struct{ object.Bucket }

func (d decorated) Unwrap() object.Bucket { return d.Bucket }

// own decides for itself.
type own struct{ object.Bucket }

func (own) As(target any) bool {
	d, ok := target.(*object.Describer)
	if ok {
		*d = named{}
	}
	return ok
}

type named struct{}

func (named) Traits() object.Traits { return object.Traits{Name: "named"} }

func TestAs(t *testing.T) {
	m := membucket.New()
	if _, ok := object.As[object.Copier](plain{m}); ok {
		t.Error("an ability of an embedded interface that the type does not have")
	}
	if got := object.TraitsOf(plain{m}); got != (object.Traits{}) {
		t.Errorf("traits of a bucket without: %+v", got)
	}
	if c, ok := object.As[object.Copier](decorated{decorated{m}}); !ok || c != object.Copier(m) {
		t.Error("a decorator hides an ability")
	}
	if got := object.TraitsOf(decorated{own{m}}); got.Name != "named" {
		t.Errorf("got %+v", got)
	}
	_, err := object.Copy(t.Context(), plain{m}, "a", "b", nil)
	if !errors.Is(err, errors.ErrUnsupported) || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("got %v", err)
	}
}

func TestReadAll(t *testing.T) {
	b := membucket.New()
	if _, err := b.Put(t.Context(), "k", strings.NewReader("12345"), nil); err != nil {
		t.Fatal(err)
	}
	if body, info, err := object.ReadAll(t.Context(), b, "k", 5, nil); err != nil || string(body) != "12345" || info.Size != 5 {
		t.Errorf("got %q, %+v, %v", body, info, err)
	}
	if _, info, err := object.ReadAll(t.Context(), b, "k", 4, nil); !errors.Is(err, store.ErrTooLarge) || info.Size != 5 {
		t.Errorf("got %+v, %v", info, err)
	}
	if _, _, err := object.ReadAll(t.Context(), b, "none", 4, nil); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestErrors(t *testing.T) {
	for _, err := range []error{&object.ConflictError{Key: "k"}, &object.ConflictError{Key: "k", HasCurrent: true}, &object.ConflictError{Key: "k", HasCurrent: true, Version: "v"}} {
		if !errors.Is(err, store.ErrConflict) || store.OutcomeOf(err) != store.NotApplied || !strings.Contains(err.Error(), `"k"`) {
			t.Errorf("%v", err)
		}
	}
	if store.OutcomeOf(object.ErrBusy) != store.NotApplied || errors.Is(object.ErrBusy, store.ErrConflict) {
		t.Error("busy is no conflict")
	}
	var names []string
	for _, a := range object.Abilities() {
		names = append(names, string(a))
	}
	if got, err := object.ParseAbilities(strings.Join(names, ",") + ","); err != nil || !slices.Equal(got, object.Abilities()) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := object.ParseAbilities("copy,x"); err == nil || got != nil {
		t.Errorf("x is an ability: %v", got)
	}
}

func TestChecks(t *testing.T) {
	for what, err := range map[string]error{
		"get offset":    second(object.CheckGet("k", &object.GetOptions{Offset: -1})),
		"get both":      second(object.CheckGet("k", &object.GetOptions{IfMatch: "a", IfChanged: "b"})),
		"put both":      second(object.CheckPut("k", &object.PutOptions{IfMatch: "a", IfAbsent: true})),
		"copy both":     second(object.CheckCopy("k", "l", &object.CopyOptions{IfMatch: "a", IfAbsent: true})),
		"copy type":     second(object.CheckCopy("k", "l", &object.CopyOptions{ContentType: "text/plain"})),
		"copy headers":  second(object.CheckCopy("k", "l", &object.CopyOptions{Headers: object.Headers{CacheControl: "no-cache"}})),
		"copy metadata": second(object.CheckCopy("k", "l", &object.CopyOptions{Metadata: map[string]string{"A": ""}})),
	} {
		if !errors.Is(err, object.ErrInvalid) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, err := range map[string]error{
		"get": second(object.CheckGet("", nil)), "put": second(object.CheckPut("\xff", nil)), "delete": second(object.CheckDelete("", nil)),
		"source": second(object.CheckCopy("", "k", nil)), "destination": second(object.CheckCopy("k", "", nil)),
	} {
		if !errors.Is(err, store.ErrKey) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := object.CheckKey(strings.Repeat("x", object.MaxKey)); err != nil {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }
