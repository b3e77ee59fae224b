package object

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
)

// As finds the optional interface T of b, or of a bucket that b decorates. A decorator
// has a method Unwrap() Bucket, or a method As(target any) bool, which decides itself: it
// sets target (a *T) and returns true.
func As[T any](b Bucket) (T, bool) {
	var t T
	out := reflect.ValueOf(&t).Elem()
	for b != nil {
		if d, ok := b.(interface{ As(target any) bool }); ok && d.As(&t) {
			return t, true
		}
		if reflect.TypeOf(b).AssignableTo(out.Type()) {
			out.Set(reflect.ValueOf(b))
			return t, true
		}
		d, ok := b.(interface{ Unwrap() Bucket })
		if !ok {
			break
		}
		b = d.Unwrap()
	}
	return t, false
}

// CopyOptions are the options of [Copier].
type CopyOptions struct {
	// SourceIfMatch: only if the source is in this state. If it is in another, or
	// there is none, that is a conflict.
	SourceIfMatch Version

	// IfAbsent and IfMatch are the conditions of Put, on the destination.
	IfAbsent bool
	IfMatch  Version

	// Metadata replaces the metadata of the source, ContentType its type, and Headers its
	// headers. Nil keeps all three, and ContentType and Headers must then be empty.
	Metadata    map[string]string
	ContentType string
	Headers     Headers

	// Progress, if not nil, is called with how much was copied.
	Progress Progress
}

// Copier is a bucket that can copy an object without sending its body twice.
type Copier interface {
	// Copy writes the body of source to destination and returns at least the key
	// and the version of what it wrote. A source that does not exist is
	// store.ErrNotFound, or with SourceIfMatch a conflict.
	Copy(ctx context.Context, source, destination string, opts *CopyOptions) (Info, error)
}

// Copy copies within b; see [Copier]. Where b cannot, the error matches
// [errors.ErrUnsupported].
func Copy(ctx context.Context, b Bucket, source, destination string, opts *CopyOptions) (Info, error) {
	c, ok := As[Copier](b)
	if !ok {
		return Info{}, &UnsupportedError{Ability: PlainCopy}
	}
	return c.Copy(ctx, source, destination, opts)
}

// Traits say what the layers above may rely on. The zero value promises nothing and is
// right for every bucket.
type Traits struct {
	// Name names the bucket for people, usually as a URL without secrets.
	Name string

	// ID identifies the bucket among all buckets, for programs: two values with the same
	// ID reach the same objects, and two with different IDs do not. It contains no
	// secret. Empty means that Name identifies the bucket.
	ID string

	// Local says that a request reaches the bucket without a network.
	Local bool

	// Trusted says that the store is known to honour all conditions that the
	// bucket sends, so that they need not be probed.
	Trusted bool

	// UniqueVersions says that no version is used twice for a key, not even when the same
	// bytes are written again.
	UniqueVersions bool
}

// Describer is a bucket that knows its [Traits].
type Describer interface {
	Traits() Traits
}

// TraitsOf returns the traits of b, or the zero value. Where the bucket gives no ID, the
// ID is the name.
func TraitsOf(b Bucket) Traits {
	d, ok := As[Describer](b)
	if !ok {
		return Traits{}
	}
	t := d.Traits()
	t.ID = cmp.Or(t.ID, t.Name)
	return t
}

// Ability names something that some buckets can do and others cannot. Some stores accept
// the request and ignore its condition.
type Ability string

// The abilities that the operations of this package ask for.
const (
	PutIfAbsent    Ability = "put-if-absent"             // [PutOptions].IfAbsent
	PutIfMatch     Ability = "put-if-match"              // [PutOptions].IfMatch
	DeleteIfMatch  Ability = "delete-if-match"           // [DeleteOptions].IfMatch
	DeleteOrAbsent Ability = "delete-if-match-or-absent" // [DeleteOptions].IfMatch with OrAbsent
	PlainCopy      Ability = "copy"                      // [Copier]
	CopySource     Ability = "copy-source"               // [CopyOptions].SourceIfMatch
	CopyIfAbsent   Ability = "copy-if-absent"            // [CopyOptions].IfAbsent
	CopyIfMatch    Ability = "copy-if-match"             // [CopyOptions].IfMatch
	PartsIfAbsent  Ability = "upload-if-absent"          // IfAbsent of a body so large that it is uploaded in parts
	PartsIfMatch   Ability = "upload-if-match"           // IfMatch of such a body
)

// These abilities are not tried, and not among [Abilities].
const (
	RemoveVersion Ability = "remove-version" // of a [VersionRemover]
	StorageClass  Ability = "storage-class"  // [PutOptions].StorageClass
	Tags          Ability = "tags"           // [PutOptions].Tags
)

// Abilities returns all abilities.
func Abilities() []Ability {
	return []Ability{
		PutIfAbsent, PutIfMatch, DeleteIfMatch, DeleteOrAbsent, PlainCopy, CopySource, CopyIfAbsent, CopyIfMatch,
		PartsIfAbsent, PartsIfMatch,
	}
}

// ParseAbility returns the ability of this name.
func ParseAbility(name string) (Ability, error) {
	for _, a := range Abilities() {
		if string(a) == name {
			return a, nil
		}
	}
	return "", fmt.Errorf("there is no ability %q", name)
}

// Verifier is a bucket that finds out, before it first uses an ability, whether its store
// has that ability.
type Verifier interface {
	// Verify returns nil if the store is known to have these abilities, and an
	// [UnsupportedError] for the first one that it lacks. It tries the abilities that are
	// not known yet, on objects that it makes and removes again, and remembers the
	// result. Any other error means that it could not find out now.
	Verify(ctx context.Context, abilities ...Ability) error
}

// VersionRemover is a bucket that can keep every version of its objects, apart from
// [Version]s: what is overwritten or deleted there is still stored.
type VersionRemover interface {
	// KeepsVersions reports whether the bucket keeps every version now.
	KeepsVersions(ctx context.Context) (bool, error)

	// RemoveVersion permanently removes the version of an object that a listing has yielded,
	// if it still is the newest. A version that is written meanwhile stays. If the object has
	// another Version, or a Modified that differs by more than a second, the error matches
	// store.ErrConflict. If there is no object, it matches store.ErrNotFound. Where the bucket
	// does not keep every version, it matches [errors.ErrUnsupported], and nothing is removed.
	RemoveVersion(ctx context.Context, listed Info) error
}

// UnsupportedError says that a bucket cannot do something atomically and therefore
// did not try. It matches [errors.ErrUnsupported]; its outcome is NotApplied.
type UnsupportedError struct {
	Ability Ability

	// Found says, for people, what the store did when the ability was tried; empty where
	// it was not tried.
	Found string

	refusal bool // Found is that the store refused a request whose condition held
}

func (e *UnsupportedError) Error() string {
	if e.Found == "" {
		return fmt.Sprintf("this store cannot do %s", e.Ability)
	}
	return fmt.Sprintf("this store cannot do %s: %s", e.Ability, e.Found)
}

// Is makes an UnsupportedError match errors.ErrUnsupported.
func (e *UnsupportedError) Is(target error) bool { return target == errors.ErrUnsupported }
