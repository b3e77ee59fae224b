package object

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// As looks for the optional interface T in the bucket b, or in a bucket that b wraps. A decorator
// has a method Unwrap() Bucket, or a method As(target any) bool. If the decorator has the
// interface, its method As sets target (a *T) and returns true.
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
	// SourceIfMatch is a condition on the source: it must be in this state. If the source is in
	// another state or does not exist, the error matches store.ErrConflict.
	SourceIfMatch Version

	// IfAbsent and IfMatch are conditions on the destination; see [PutOptions].
	IfAbsent bool
	IfMatch  Version

	// If Metadata is not nil, the copy gets these Metadata, ContentType and Headers. If Metadata is
	// nil, the copy gets the metadata, content type and headers of the source; ContentType and
	// Headers must then be empty.
	Metadata    map[string]string
	ContentType string
	Headers     Headers

	// Progress, if not nil, is called with the number of copied bytes.
	Progress Progress
}

// Copier is a bucket that can copy an object without sending its body twice.
type Copier interface {
	// Copy writes the body of source to destination. It returns at least the key and the version of
	// the destination. If the source does not exist, the error matches store.ErrNotFound; with
	// SourceIfMatch it matches store.ErrConflict instead.
	Copy(ctx context.Context, source, destination string, opts *CopyOptions) (Info, error)
}

// Copy copies an object within a bucket; see [Copier]. If the bucket cannot copy, the error matches
// [errors.ErrUnsupported].
func Copy(ctx context.Context, b Bucket, source, destination string, opts *CopyOptions) (Info, error) {
	c, ok := As[Copier](b)
	if !ok {
		return Info{}, &UnsupportedError{Ability: PlainCopy}
	}
	return c.Copy(ctx, source, destination, opts)
}

// Traits are promises of a bucket to its callers. The zero value promises nothing, so it is correct
// for every bucket.
type Traits struct {
	// Name is the name of the bucket for people, usually a URL without secrets.
	Name string

	// ID identifies the bucket among all buckets, for programs. Two Buckets with the same ID have
	// the same objects. Two Buckets with different IDs have different objects. ID contains no
	// secret. If ID is empty, Name identifies the bucket.
	ID string

	// Local says that a request reaches the bucket without a network.
	Local bool

	// Trusted says that the store is known to check all conditions that the bucket sends. A client
	// then does not test the store.
	Trusted bool

	// UniqueVersions says that every write of a key gets a new version, even if the same bytes are
	// written again.
	UniqueVersions bool
}

// Describer is a bucket that knows its [Traits].
type Describer interface {
	Traits() Traits
}

// TraitsOf returns the traits of a bucket, or the zero value if the bucket is not a [Describer]. If
// the traits have no ID, TraitsOf sets ID to Name.
func TraitsOf(b Bucket) Traits {
	d, ok := As[Describer](b)
	if !ok {
		return Traits{}
	}
	t := d.Traits()
	t.ID = cmp.Or(t.ID, t.Name)
	return t
}

// Ability names a kind of request that not every bucket supports. A store without the ability may
// accept the request and ignore its condition.
type Ability string

// The abilities that this package uses.
const (
	PutIfAbsent    Ability = "put-if-absent"             // [PutOptions].IfAbsent
	PutIfMatch     Ability = "put-if-match"              // [PutOptions].IfMatch
	DeleteIfMatch  Ability = "delete-if-match"           // [DeleteOptions].IfMatch
	DeleteOrAbsent Ability = "delete-if-match-or-absent" // [DeleteOptions].IfMatch with OrAbsent
	PlainCopy      Ability = "copy"                      // [Copier]
	CopySource     Ability = "copy-source"               // [CopyOptions].SourceIfMatch
	CopyIfAbsent   Ability = "copy-if-absent"            // [CopyOptions].IfAbsent
	CopyIfMatch    Ability = "copy-if-match"             // [CopyOptions].IfMatch
	PartsIfAbsent  Ability = "upload-if-absent"          // IfAbsent of a large body, which is uploaded in parts
	PartsIfMatch   Ability = "upload-if-match"           // IfMatch of a large body
)

// No function tests these abilities, and [Abilities] does not return them.
const (
	RemoveVersion Ability = "remove-version" // [VersionRemover].RemoveVersion
	StorageClass  Ability = "storage-class"  // [PutOptions].StorageClass
	Tags          Ability = "tags"           // [PutOptions].Tags
)

// Abilities returns all abilities that can be tested.
func Abilities() []Ability {
	return []Ability{
		PutIfAbsent, PutIfMatch, DeleteIfMatch, DeleteOrAbsent, PlainCopy, CopySource, CopyIfAbsent, CopyIfMatch,
		PartsIfAbsent, PartsIfMatch,
	}
}

// ParseAbilities returns the abilities whose names a list has, separated by commas. Its error does not show the list.
func ParseAbilities(list string) (all []Ability, _ error) {
	for name := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' }) {
		if !slices.Contains(Abilities(), Ability(name)) {
			return nil, fmt.Errorf("an ability is unknown; the abilities are %v", Abilities())
		}
		all = append(all, Ability(name))
	}
	return all, nil
}

// Verifier is a bucket that tests its store. Before it first uses an ability, it tests whether the
// store has that ability.
type Verifier interface {
	// Verify returns nil if the store has these abilities. Otherwise it returns an
	// [UnsupportedError] for the first ability that the store lacks. Verify tests unknown abilities
	// on objects that it creates and removes, and remembers the results. Any other error means that
	// Verify could not do the test.
	Verify(ctx context.Context, abilities ...Ability) error
}

// VersionRemover is a bucket that can have versioning: after an overwrite or a delete, the old body
// is still stored as a version. Such a version is not a value of the type [Version].
type VersionRemover interface {
	// KeepsVersions reports whether versioning is enabled now.
	KeepsVersions(ctx context.Context) (bool, error)

	// RemoveVersion permanently removes one version of an object. Pass the Info of the version from
	// a listing. If the object now has another Version than this Info, or a Modified that differs
	// by more than a second, RemoveVersion removes nothing, and the error matches
	// store.ErrConflict. If there is no object, the error matches store.ErrNotFound. If versioning
	// is not enabled, RemoveVersion removes nothing, and the error matches [errors.ErrUnsupported].
	RemoveVersion(ctx context.Context, listed Info) error
}

// UnsupportedError says that a bucket lacks an ability, and that the write was not sent. It matches
// [errors.ErrUnsupported]. Its outcome is NotApplied.
type UnsupportedError struct {
	Ability Ability

	// Found describes, for people, what the store did in the test of the ability. If there was no
	// test, Found is empty.
	Found string

	refusal bool // Found is that the store refused a request whose condition held
}

func (e *UnsupportedError) Error() string {
	if e.Found == "" {
		return fmt.Sprintf("this store does not support %s", e.Ability)
	}
	return fmt.Sprintf("this store does not support %s: %s", e.Ability, e.Found)
}

// Is makes an UnsupportedError match errors.ErrUnsupported.
func (e *UnsupportedError) Is(target error) bool { return target == errors.ErrUnsupported }
