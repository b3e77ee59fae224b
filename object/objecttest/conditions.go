package objecttest

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/object"
)

// tryPut is a put that may fail.
func (e *env) tryPut(key, body string, opts *object.PutOptions) error {
	_, err := e.b.Put(e.ctx, key, strings.NewReader(body), opts)
	return err
}

func conditionCases() []testCase {
	return []testCase{
		{"IfAbsent", "A put with IfAbsent creates what is not there, and is refused where something is, even with the same body.", func(e *env) {
			e.needs(object.PutIfAbsent)
			v := e.put("a", "one", &object.PutOptions{IfAbsent: true})
			e.conflict("a second create", e.tryPut("a", "two", &object.PutOptions{IfAbsent: true}))
			e.conflict("a second create with the same body", e.tryPut("a", "one", &object.PutOptions{IfAbsent: true}))
			e.expect("a", v, "one")
		}},
		{"IfAbsentAfterDelete", "What was deleted can be created: a delete marker is no object.", func(e *env) {
			e.needs(object.PutIfAbsent)
			e.put("a", "one", nil)
			e.delete("a")
			v := e.put("a", "two", &object.PutOptions{IfAbsent: true})
			e.expect("a", v, "two")
		}},
		{"IfMatch", "A put with IfMatch replaces the state it names.", func(e *env) {
			e.needs(object.PutIfMatch)
			v := e.put("a", "one", nil)
			for _, body := range []string{"two", "three", "four"} {
				v = e.put("a", body, &object.PutOptions{IfMatch: v})
				e.expect("a", v, body)
			}
		}},
		{"IfMatchOld", "A put that names a state which was replaced is refused and changes nothing.", func(e *env) {
			e.needs(object.PutIfMatch)
			v1 := e.put("a", "one", nil)
			v2 := e.put("a", "two", nil)
			e.conflict("a put with an old version", e.tryPut("a", "late", &object.PutOptions{IfMatch: v1}))
			e.expect("a", v2, "two")
		}},
		{"IfMatchAbsent", "A put that names a state is refused where nothing is, as a conflict.", func(e *env) {
			e.needs(object.PutIfMatch)
			v := e.put("a", "one", nil)
			e.conflict("a put with a version where nothing ever was", e.tryPut("b", "late", &object.PutOptions{IfMatch: v}))
			e.delete("a")
			e.conflict("a put with the version of what was deleted", e.tryPut("a", "late", &object.PutOptions{IfMatch: v}))
			e.expectAbsent("a")
			e.expectAbsent("b")
		}},
		{"LargeIfAbsent", "The condition of a large body is judged when it takes effect, not when its upload begins.", func(e *env) {
			e.needs(object.PartsIfAbsent)
			e.lateChange(&object.PutOptions{IfAbsent: true}, "")
			body := e.large()
			v := e.put("b", body, &object.PutOptions{IfAbsent: true})
			e.expect("b", v, body)
		}},
		{"LargeIfMatch", "So is that of a large body that names a state.", func(e *env) {
			e.needs(object.PartsIfMatch)
			v := e.put("a", "one", nil)
			e.lateChange(&object.PutOptions{IfMatch: v}, v)
			body := e.large()
			v = e.put("b", "small", nil)
			v = e.put("b", body, &object.PutOptions{IfMatch: v})
			e.expect("b", v, body)
		}},
		{"DeleteIfMatch", "A delete with IfMatch removes the state it names and no other; it does so in one step.", caseDeleteIfMatch},
		{"DeleteOrAbsent", "A delete with IfMatch and OrAbsent removes no state but that which it names, and succeeds where there is no object.", caseDeleteOrAbsent},
		{"Contradiction", "Two conditions at once are refused with ErrInvalid.", func(e *env) {
			v := e.put("a", "one", nil)
			e.WantRefused("put", e.tryPut("a", "two", &object.PutOptions{IfAbsent: true, IfMatch: v}), object.ErrInvalid)
			e.expect("a", v, "one")
		}},
		{"Unsupported", "What a bucket cannot do atomically it refuses as unsupported, and changes nothing; the bucket lacks what it is said to lack.", caseUnsupported},
	}
}

// lateChange puts a large body under a condition, and changes the object while the
// body is being sent.
func (e *env) lateChange(opts *object.PutOptions, prev object.Version) {
	body := io.MultiReader(strings.NewReader(e.large()), readerFunc(func() {
		e.OK("put", suitetest.ErrOf(e.b.Put(e.ctx, "a", strings.NewReader("faster"), nil)))
	}), strings.NewReader("the end"))
	_, err := e.b.Put(e.ctx, "a", body, opts)
	e.conflict("a large put whose condition stopped holding on the way", err)
	if got, info := e.read("a", nil); got != "faster" || info.Version == prev {
		e.Errorf("got %s, want the change that was faster", show(got))
	}
}

// readerFunc is an empty body that does something when it is read.
type readerFunc func()

func (f readerFunc) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}

func caseDeleteIfMatch(e *env) {
	e.needs(object.DeleteIfMatch)
	v1 := e.put("a", "one", nil)
	v2 := e.put("a", "two", nil)
	e.conflict("a delete with an old version", e.b.Delete(e.ctx, "a", &object.DeleteOptions{IfMatch: v1}))
	e.expect("a", v2, "two")
	e.OK("delete", e.b.Delete(e.ctx, "a", &object.DeleteOptions{IfMatch: v2}))
	e.expectAbsent("a")
	e.conflict("a second delete of the same version", e.b.Delete(e.ctx, "a", &object.DeleteOptions{IfMatch: v2}))
}

func caseDeleteOrAbsent(e *env) {
	e.needs(object.DeleteOrAbsent)
	v1 := e.put("a", "one", nil)
	v2 := e.put("a", "two", nil)
	e.conflict("a delete with an old version", e.b.Delete(e.ctx, "a", &object.DeleteOptions{IfMatch: v1, OrAbsent: true}))
	e.expect("a", v2, "two")
	for range 2 {
		e.OK("delete", e.b.Delete(e.ctx, "a", &object.DeleteOptions{IfMatch: v2, OrAbsent: true}))
		e.expectAbsent("a")
	}
}

// caseUnsupported tries every ability that the bucket lacks, where its condition
// holds: refusing must not depend on that.
func caseUnsupported(e *env) {
	v := e.put("a", "one", nil)
	large := func() io.Reader { return strings.NewReader(e.large()) }
	attempts := map[object.Ability]func(ctx context.Context) error{
		object.PutIfAbsent:   func(context.Context) error { return e.tryPut("b", "x", &object.PutOptions{IfAbsent: true}) },
		object.PutIfMatch:    func(context.Context) error { return e.tryPut("a", "x", &object.PutOptions{IfMatch: v}) },
		object.DeleteIfMatch: func(ctx context.Context) error { return e.b.Delete(ctx, "a", &object.DeleteOptions{IfMatch: v}) },
		object.DeleteOrAbsent: func(ctx context.Context) error {
			return e.b.Delete(ctx, "a", &object.DeleteOptions{IfMatch: v, OrAbsent: true})
		},
		object.PartsIfAbsent: func(ctx context.Context) error {
			_, err := e.b.Put(ctx, "b", large(), &object.PutOptions{IfAbsent: true})
			return err
		},
		object.PartsIfMatch: func(ctx context.Context) error {
			_, err := e.b.Put(ctx, "a", large(), &object.PutOptions{IfMatch: v})
			return err
		},
		object.PlainCopy:    e.tryCopy(nil),
		object.CopySource:   e.tryCopy(&object.CopyOptions{SourceIfMatch: v}),
		object.CopyIfAbsent: e.tryCopy(&object.CopyOptions{IfAbsent: true}),
		object.CopyIfMatch:  e.tryCopy(&object.CopyOptions{IfMatch: v}),
	}
	for a := range e.Unsupported {
		e.WantRefused(string(a), attempts[a](e.ctx), errors.ErrUnsupported)
	}
	e.expect("a", v, "one")
	e.expectAbsent("b")
	if verifier, ok := object.As[object.Verifier](e.b); ok {
		for _, a := range object.Abilities() {
			err := verifier.Verify(e.ctx, a)
			if _, lacks := e.Unsupported[a]; lacks != errors.Is(err, errors.ErrUnsupported) || !lacks && err != nil {
				e.Errorf("Verify(%s): %v", a, err)
			}
		}
	}
}

func (e *env) tryCopy(opts *object.CopyOptions) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		_, err := object.Copy(ctx, e.b, "a", "b", opts)
		return err
	}
}
