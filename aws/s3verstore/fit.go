package s3verstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/holdfast-go/holdfast/store"
)

// fitness is what is known of the bucket and its server.
type fitness struct {
	slot chan struct{} // held by the one who checks
	good atomic.Bool   // the bucket was found fit, and nothing spoke against it since

	opaque atomic.Bool // ETags are not the MD5 of the body
	single atomic.Bool // versions must be removed one by one

	mu    sync.Mutex
	nulls map[version]bool // versions without an id that led to a check already
}

// ready checks the bucket before its first use, and again after it was seen to have
// changed.
func (s *Store) ready(ctx context.Context) error {
	if s.fit.good.Load() {
		return nil
	}
	select {
	case s.fit.slot <- struct{}{}:
		defer func() { <-s.fit.slot }()
	case <-ctx.Done():
		return store.CheckContext(ctx)
	}
	if s.fit.good.Load() {
		return nil
	}
	set := &Settings{Unknown: map[string]error{}}
	if err := s.readVersioning(ctx, set); err != nil {
		return fmt.Errorf("whether versioning is enabled could not be read (right s3:GetBucketVersioning): %w", err)
	}
	if err := s.readObjectLock(ctx, set); err != nil && grave(ctx, err) {
		return err // without the right, and where nobody knows of it, there is none
	}
	if err := s.readLifecycle(ctx, set); err != nil && grave(ctx, err) {
		return err // likewise: doctor tells that it could not be read
	}
	if err := set.Err(); err != nil {
		return err
	}
	s.fit.good.Store(true)
	return nil
}

// grave reports whether an error says more than that one request is not allowed or
// not known.
func grave(ctx context.Context, err error) bool {
	return errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrMisconfigured) || ctx.Err() != nil
}

// nullSeen looks at a version that was put while versioning was off or suspended:
// the bucket is checked again. Such a version never counts, since the next one of its
// kind replaces it: nobody was told that it was applied. If it is no entry at all, it
// is in the way.
func (s *Store) nullSeen(ctx context.Context, object string, v version) error {
	s.fit.mu.Lock()
	seen := s.fit.nulls[v]
	s.fit.mu.Unlock()
	if seen {
		return s.ready(ctx)
	}
	s.fit.good.Store(false)
	if err := s.ready(ctx); err != nil {
		return err
	}
	if _, err := s.entry(ctx, object, v); err != nil {
		return err
	}
	s.fit.mu.Lock()
	defer s.fit.mu.Unlock()
	if s.fit.nulls == nil || len(s.fit.nulls) > maxRegisters {
		s.fit.nulls = map[version]bool{}
	}
	s.fit.nulls[v] = true
	return nil
}

// Settings are what a bucket is set to, as far as it matters here.
type Settings struct {
	// Versioning is "Enabled", "Suspended", or "" if it was never on.
	Versioning string

	// MFADelete says that removing a version takes a code from a device.
	MFADelete bool

	// ObjectLock says that versions can be protected from being removed.
	ObjectLock bool

	// Expiring names the lifecycle rules that would remove versions that are needed,
	// or move them to where they can't be read.
	Expiring []string

	// Legacy names objects that are locks of the program which took the oldest
	// version for the owner; see [Store.Settings].
	Legacy []string

	// Unknown names what could not be read, and why: for lack of rights, or since the
	// server does not know the request.
	Unknown map[string]error
}

// Err returns why registers can't be kept in the bucket; nil if nothing was found. It
// matches [store.ErrUnsafe].
func (set *Settings) Err() error {
	var why []string
	switch set.Versioning {
	case string(types.BucketVersioningStatusEnabled):
	case "":
		why = append(why, "versioning is not enabled")
	default:
		why = append(why, "versioning is "+strings.ToLower(set.Versioning)+", not enabled")
	}
	if set.ObjectLock {
		why = append(why, "Object Lock is enabled: versions that are superseded could not be removed, and a register that is renewed makes thousands a day")
	}
	if set.MFADelete {
		why = append(why, "MFA Delete is enabled: versions that are superseded could not be removed")
	}
	if len(set.Expiring) > 0 {
		why = append(why, "lifecycle rules can remove versions that are needed (an old version may well be the state): "+strings.Join(set.Expiring, ", "))
	}
	if len(set.Legacy) > 0 {
		why = append(why, "locks of another program lie there, which take the oldest version for the owner and can have two: "+strings.Join(set.Legacy, ", "))
	}
	if len(why) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", store.ErrUnsafe, strings.Join(why, "; "))
}

// Settings reads what the bucket is set to, and looks for locks of the other program
// among the first thousand versions below the prefix. What can't be read does not
// make it fail, unless the bucket can't be reached at all; it stands in Unknown.
//
// That other program puts each attempt at a lock as a new version of one object, with
// a body of the lock's name, a hyphen and a UUID, and the metadata "timeout" and
// "lockowner". Two owners can win under its rules, so that no key is shared with it.
func (s *Store) Settings(ctx context.Context) (*Settings, error) {
	set := &Settings{Unknown: map[string]error{}}
	for _, part := range []struct {
		name string
		read func(context.Context, *Settings) error
	}{
		{"versioning", s.readVersioning},
		{"object lock", s.readObjectLock},
		{"lifecycle", s.readLifecycle},
		{"objects", s.readLegacy},
	} {
		switch err := part.read(ctx, set); {
		case err != nil && grave(ctx, err):
			return nil, fmt.Errorf("reading %s: %w", part.name, err)
		case err != nil:
			set.Unknown[part.name] = err
		}
	}
	return set, nil
}

func (s *Store) readVersioning(ctx context.Context, set *Settings) error {
	err := s.read(ctx, func(ctx context.Context, opt func(*s3.Options)) error {
		out, err := s.client.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: &s.bucket, ExpectedBucketOwner: s.owner()}, opt)
		if err == nil {
			set.Versioning = string(out.Status)
			set.MFADelete = out.MFADelete == types.MFADeleteStatusEnabled
		}
		return err
	})
	if errors.Is(err, errors.ErrUnsupported) {
		return nil // a server that does not know it has none
	}
	return err
}

func (s *Store) readObjectLock(ctx context.Context, set *Settings) error {
	err := s.read(ctx, func(ctx context.Context, opt func(*s3.Options)) error {
		out, err := s.client.GetObjectLockConfiguration(ctx, &s3.GetObjectLockConfigurationInput{Bucket: &s.bucket, ExpectedBucketOwner: s.owner()}, opt)
		if err == nil && out.ObjectLockConfiguration != nil {
			set.ObjectLock = out.ObjectLockConfiguration.ObjectLockEnabled == types.ObjectLockEnabledEnabled
		}
		return err
	})
	if errors.Is(err, errGone) { // no such configuration
		return nil
	}
	return err
}

func (s *Store) readLifecycle(ctx context.Context, set *Settings) error {
	err := s.read(ctx, func(ctx context.Context, opt func(*s3.Options)) error {
		out, err := s.client.GetBucketLifecycleConfiguration(ctx, &s3.GetBucketLifecycleConfigurationInput{Bucket: &s.bucket, ExpectedBucketOwner: s.owner()}, opt)
		if err != nil {
			return err
		}
		set.Expiring = nil
		for _, rule := range out.Rules {
			if what := harm(rule); what != "" && overlap(rulePrefix(rule), s.prefix) {
				set.Expiring = append(set.Expiring, fmt.Sprintf("%q (%s)", aws.ToString(rule.ID), what))
			}
		}
		return nil
	})
	if errors.Is(err, errGone) {
		return nil
	}
	return err
}

// harm says what a lifecycle rule does to versions that are needed; empty if nothing.
func harm(rule types.LifecycleRule) string {
	tagged := rule.Filter != nil && (rule.Filter.Tag != nil || rule.Filter.And != nil && len(rule.Filter.And.Tags) > 0)
	if rule.Status != types.ExpirationStatusEnabled || tagged {
		return "" // what is put here has no tags
	}
	var does []string
	if rule.NoncurrentVersionExpiration != nil {
		does = append(does, "removes old versions")
	}
	if e := rule.Expiration; e != nil && (e.Date != nil || aws.ToInt32(e.Days) > 0) {
		does = append(does, "expires objects")
	}
	if len(rule.Transitions) > 0 || len(rule.NoncurrentVersionTransitions) > 0 {
		does = append(does, "moves versions to another class of storage")
	}
	return strings.Join(does, ", ")
}

func rulePrefix(rule types.LifecycleRule) string {
	if f := rule.Filter; f != nil {
		if f.And != nil {
			return aws.ToString(f.And.Prefix)
		}
		return aws.ToString(f.Prefix)
	}
	//lint:ignore SA1019 older configurations have it here
	return aws.ToString(rule.Prefix)
}

func overlap(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }

// maxLegacy bounds how many objects are looked at.
const maxLegacy = 20

func (s *Store) readLegacy(ctx context.Context, set *Settings) error {
	out, err := s.page(ctx, s.prefix, nil, nil, 1000)
	if err != nil {
		return err
	}
	asked := map[string]bool{}
	for _, v := range out.Versions {
		key := aws.ToString(v.Key)
		// The body is the name, a hyphen and a UUID.
		if asked[key] || len(asked) >= maxLegacy || aws.ToInt64(v.Size) != int64(len(key)+37) {
			continue
		}
		asked[key] = true
		if legacy, err := s.isLegacy(ctx, key, aws.ToString(v.VersionId)); err != nil {
			return err
		} else if legacy {
			set.Legacy = append(set.Legacy, key)
		}
	}
	return nil
}

// isLegacy reports whether a version is a lock of the other program.
func (s *Store) isLegacy(ctx context.Context, object, id string) (legacy bool, err error) {
	err = s.read(ctx, func(ctx context.Context, opt func(*s3.Options)) error {
		in := &s3.HeadObjectInput{Bucket: &s.bucket, Key: &object, ExpectedBucketOwner: s.owner()}
		if id != "" {
			in.VersionId = &id
		}
		out, err := s.client.HeadObject(ctx, in, opt)
		if err != nil {
			return err
		}
		_, timeout := out.Metadata["timeout"]
		_, owner := out.Metadata["lockowner"]
		legacy = timeout && owner
		return nil
	})
	if errors.Is(err, errGone) {
		return false, nil
	}
	return legacy, err
}

// alone checks, before a register is made, that no lock of the other program has its
// name: as an object beside it, or at the root of the bucket.
func (s *Store) alone(ctx context.Context, r *register) error {
	r.mu.Lock()
	checked := r.checked
	r.mu.Unlock()
	if checked {
		return nil
	}
	plain := []string{s.prefix + r.key}
	if name, ok := strings.CutPrefix(r.key, "lock/"); ok {
		plain = append(plain, s.prefix+name)
		if s.prefix != "" {
			plain = append(plain, name)
		}
	}
	for i, object := range plain {
		if strings.ContainsFunc(object, unicode.IsControl) {
			continue // it could not have listed its own versions: XML has no such characters
		}
		// The first version of the first object with this prefix.
		out, err := s.page(ctx, object, nil, nil, 1)
		if errors.Is(err, errName) || i > 1 && errors.Is(err, store.ErrDenied) {
			continue // nothing can have this name, or the rights end with the prefix
		}
		if err != nil {
			return err
		}
		if len(out.Versions) == 0 || aws.ToString(out.Versions[0].Key) != object {
			continue
		}
		legacy, err := s.isLegacy(ctx, object, aws.ToString(out.Versions[0].VersionId))
		if err != nil {
			return err
		}
		if legacy {
			return fmt.Errorf("%w: the object %q is %s", store.ErrUnsafe, object, legacyText)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.checked = true
	return nil
}

const legacyText = "a lock of another program, whose rule (the oldest version owns) lets two owners in; end that program and remove the object with its versions, or use another name or prefix"

// foreign is the error of a version that is no entry.
func (s *Store) foreign(ctx context.Context, object string, v version, why error) error {
	text := why.Error()
	if legacy, err := s.isLegacy(ctx, object, v.id); err == nil && legacy {
		text = "it is " + legacyText
	}
	return fmt.Errorf("%w: version %s of %s, of %s, can't be read: %s", store.ErrCorrupt, v.id, object, v.modified.UTC().Format(time.RFC3339), text)
}
