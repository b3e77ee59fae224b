package objecttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

type emptyBody struct{}

func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }

func callCases() []testCase {
	return []testCase{
		{"BadKeys", "A key that is empty, too long or not UTF-8 is refused with ErrKey before anything is done.", func(e *env) {
			for _, key := range []string{"", "\xff", strings.Repeat("x", object.MaxKey+1)} {
				_, getErr := e.b.Get(e.ctx, key, nil)
				_, statErr := e.b.Stat(e.ctx, key)
				for what, err := range map[string]error{
					"get": getErr, "stat": statErr, "put": e.tryPut(key, "x", nil), "delete": e.b.Delete(e.ctx, key, nil),
				} {
					e.WantRefused(fmt.Sprintf("%s %q", what, key), err, store.ErrKey)
				}
			}
		}},
		{"BadMetadata", "Metadata that cannot be kept is refused with ErrInvalid.", func(e *env) {
			for _, meta := range []map[string]string{
				{"Upper": "x"}, {"a.b": "x"}, {"a b": "x"}, {"a=b": "x"}, {"": "x"}, {"a": "line\nbreak"}, {"a": "é"}, {"a": " x"}, {"a": strings.Repeat("x", object.MaxMetadata)},
			} {
				e.WantRefused(fmt.Sprintf("metadata %.40q", meta), e.tryPut("a", "x", &object.PutOptions{Metadata: meta}), object.ErrInvalid)
			}
			e.expectAbsent("a")
		}},
		{"BadTags", "A storage class and tags that no store takes are refused with ErrInvalid.", func(e *env) {
			eleven := make(map[string]string)
			for i := range object.MaxTags + 1 {
				eleven[fmt.Sprint(i)] = "x"
			}
			opts := []object.PutOptions{{StorageClass: "A B"}, {StorageClass: strings.Repeat("A", 100)}, {Tags: eleven}}
			for _, tags := range []map[string]string{
				{"": "x"}, {"aws:x": "x"}, {"AWS:x": "x"}, {"a&b": "x"}, {"a": "x&b=c"}, {"a": "line\nbreak"}, {"a": "\xff"},
				{strings.Repeat("é", object.MaxTagName+1): "x"}, {"a": strings.Repeat("é", object.MaxTagValue+1)},
			} {
				opts = append(opts, object.PutOptions{Tags: tags})
			}
			for _, o := range opts {
				e.WantRefused(fmt.Sprintf("class %q, tags %.80q", o.StorageClass, o.Tags), e.tryPut("a", "x", &o), object.ErrInvalid)
			}
			e.expectAbsent("a")
		}},
		{"StorageClassAndTags", "A bucket takes a storage class and tags, or refuses them with an UnsupportedError and writes nothing.", caseTags},
		{"BodyFails", "An error of the body is returned, and nothing is written, neither of a small body nor of a large one.", func(e *env) {
			broken := errors.New("the disk has failed")
			v := e.put("a", "one", nil)
			for _, body := range []string{"", "some", e.large()} {
				_, err := e.b.Put(e.ctx, "a", io.MultiReader(strings.NewReader(body), failing{broken}), nil)
				e.WantRefused(fmt.Sprintf("after %d bytes", len(body)), err, broken)
			}
			e.expect("a", v, "one")
		}},
		{"Length", "A body of another length than the declared one is refused with ErrInvalid, and nothing is written.", func(e *env) {
			v := e.put("a", "one", nil)
			large := e.large()
			for _, c := range []struct {
				body   string
				length int
			}{{"", 1}, {"some", 3}, {"some", 5}, {large, len(large) - 1}, {large, len(large) + 1}, {large, 4}, {"some", len(large)}, {"one", -1}} {
				_, err := e.b.Put(e.ctx, "a", readerOnly{strings.NewReader(c.body)}, &object.PutOptions{Length: int64(c.length)})
				e.WantRefused(fmt.Sprintf("%d bytes, %d declared", len(c.body), c.length), err, object.ErrInvalid)
			}
			e.expect("a", v, "one")
			for _, body := range []string{"two", large} {
				v = e.put("a", body, &object.PutOptions{Length: int64(len(body))})
				e.expect("a", v, body)
			}
		}},
		{"Progress", "Progress never falls, is called by one goroutine at a time, and ends with the size.", func(e *env) {
			for _, body := range []string{"", "some", e.large()} {
				var last int64 // without a lock: the race detector sees two callers at once
				e.put("a", body, &object.PutOptions{Length: int64(len(body)), Progress: func(done, total int64) {
					if done < last || total != int64(len(body)) {
						e.Errorf("%d of %d after %d, of a body of %d bytes", done, total, last, len(body))
					}
					last = done
				}})
				if last != int64(len(body)) {
					e.Errorf("a put of %d bytes ends at %d", len(body), last)
				}
			}
		}},
		{"Cancelled", "A call with a context that has ended does nothing, and says so.", func(e *env) {
			v := e.put("a", "one", nil)
			ctx, cancel := context.WithCancel(e.ctx)
			cancel()
			_, putErr := e.b.Put(ctx, "a", strings.NewReader("two"), nil)
			_, getErr := e.b.Get(ctx, "a", nil)
			e.WantRefused("put", putErr, context.Canceled)
			e.WantRefused("delete", e.b.Delete(ctx, "a", nil), context.Canceled)
			e.WantErr("get", getErr, context.Canceled)
			e.expect("a", v, "one")
		}},
		{"CausesAreNoAnswers", "The cause of a context can be the error of another call. If it ends a call, the error of the call does not look like an answer: it does not match ErrNotFound, ErrConflict or any other error that says what the store found or refused. A delete without an error has deleted.", caseCauses},
		{"MetadataOwned", "The caller may change the maps that it passed or got.", func(e *env) {
			meta := map[string]string{"k": "v"}
			e.put("a", "one", &object.PutOptions{Metadata: meta})
			meta["k"] = "changed"
			_, info := e.read("a", nil)
			info.Metadata["k"] = "changed"
			if _, info := e.read("a", nil); info.Metadata["k"] != "v" {
				e.Errorf("got %q", info.Metadata)
			}
		}},
	}
}

// caseCauses interrupts calls that would succeed.
func caseCauses(e *env) {
	calls := map[string]func(ctx context.Context, key string, v object.Version) error{
		"put": func(ctx context.Context, key string, _ object.Version) error {
			_, err := e.b.Put(ctx, key, strings.NewReader("two"), nil)
			return err
		},
		"large put": func(ctx context.Context, key string, _ object.Version) error {
			_, err := e.b.Put(ctx, key, strings.NewReader(e.large()), nil)
			return err
		},
		"delete": func(ctx context.Context, key string, _ object.Version) error { return e.b.Delete(ctx, key, nil) },
		"get": func(ctx context.Context, key string, _ object.Version) error {
			r, err := e.b.Get(ctx, key, nil)
			if err == nil {
				_, err = io.Copy(io.Discard, r)
				r.Close()
			}
			return err
		},
		"stat": func(ctx context.Context, key string, _ object.Version) error {
			_, err := e.b.Stat(ctx, key)
			return err
		},
	}
	conditional := func(a object.Ability, what string, call func(ctx context.Context, key string, v object.Version) error) {
		if _, lacks := e.Unsupported[a]; !lacks {
			calls[what] = call
		}
	}
	conditional(object.PutIfAbsent, "create", func(ctx context.Context, key string, _ object.Version) error {
		_, err := e.b.Put(ctx, key+"-new", strings.NewReader("two"), &object.PutOptions{IfAbsent: true})
		return err
	})
	conditional(object.PutIfMatch, "put with a version", func(ctx context.Context, key string, v object.Version) error {
		_, err := e.b.Put(ctx, key, strings.NewReader("two"), &object.PutOptions{IfMatch: v})
		return err
	})
	conditional(object.DeleteIfMatch, "delete of a version", func(ctx context.Context, key string, v object.Version) error {
		return e.b.Delete(ctx, key, &object.DeleteOptions{IfMatch: v})
	})
	conditional(object.DeleteOrAbsent, "delete of a version or of nothing", func(ctx context.Context, key string, v object.Version) error {
		return e.b.Delete(ctx, key, &object.DeleteOptions{IfMatch: v, OrAbsent: true})
	})
	start := time.Now()
	e.put("measured", "x", nil)
	usual := time.Since(start)
	for moment := range min(4*e.Rounds, suitetest.Moments) {
		for what, call := range calls {
			key := fmt.Sprint(what, moment)
			v := e.put(key, "one", nil)
			deleted := false
			err := suitetest.Interrupt(e.ctx, moment, usual, func(ctx context.Context) error {
				err := call(ctx, key, v)
				deleted = err == nil && strings.HasPrefix(what, "delete")
				return err
			})
			e.OK(what, err)
			if deleted {
				e.expectAbsent(key)
			}
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func caseTags(e *env) {
	tags := map[string]string{"team": "a b+c", "cost-centre": "7", strings.Repeat("n", object.MaxTagName): strings.Repeat("x", object.MaxTagValue)}
	for ability, o := range map[object.Ability]object.PutOptions{
		object.StorageClass: {StorageClass: "STANDARD"},
		object.Tags:         {Tags: tags},
	} {
		for key, body := range map[string]string{"small": "x", "large": e.large()} {
			key += "-" + string(ability)
			err := e.tryPut(key, body, &o)
			var unsupported *object.UnsupportedError
			switch {
			case err == nil:
				if got, _ := e.read(key, nil); got != body {
					e.Errorf("%s: read %d bytes, want %d", key, len(got), len(body))
				}
			case !errors.As(err, &unsupported) || unsupported.Ability != ability || store.OutcomeOf(err) != store.NotApplied:
				e.Errorf("%s: got %v, want an UnsupportedError", key, err)
			default:
				e.expectAbsent(key)
			}
		}
	}
}
