package s3verstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/internal/aws/foreignlocks"
	"github.com/holdfast-go/holdfast/store"
)

// bucketState is what is known of the bucket and its server.
type bucketState struct {
	slot   chan struct{} // held by the goroutine that checks
	good   atomic.Bool   // the bucket was found fit, and nothing spoke against it since
	opaque atomic.Bool   // ETags are not the MD5 of the body

	foreignLocks *foreignlocks.Found // for the holder of the slot; nil: not known yet

	mu    sync.Mutex
	nulls map[version]bool // versions without an id that led to a check already
}

// check takes the slot. The caller frees it.
func (f *bucketState) check(ctx context.Context) (free func(), err error) {
	select {
	case f.slot <- struct{}{}:
		return func() { <-f.slot }, nil
	case <-ctx.Done():
		return nil, store.CheckContext(ctx)
	}
}

// ready checks the bucket before its first use, and again after it was seen to have
// changed.
func (s *Store) ready(ctx context.Context) error {
	if s.bucketState.good.Load() {
		return nil
	}
	free, err := s.bucketState.check(ctx)
	if err != nil {
		return err
	}
	defer free()
	if s.bucketState.good.Load() {
		return nil
	}
	set, err := s.bucketSettings(ctx)
	if err != nil {
		return err
	}
	if err := set.Unreadable["versioning"]; err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("cannot read whether versioning is enabled (this needs the right s3:GetBucketVersioning): %w", err)
	}
	// What could not be read of Object Lock and the rules, for lack of rights or since the
	// server does not know them, is no reason to refuse the bucket: doctor reports it.
	if err := set.Err(); err != nil {
		return err
	}
	s.bucketState.good.Store(true)
	return nil
}

// nullSeen looks at a version that was put while versioning was off or suspended:
// the bucket is checked again. Such a version is never accepted, because
// the next version of its kind replaces it. No writer got a success for it. If the
// version is not an entry, nullSeen returns an error.
func (s *Store) nullSeen(ctx context.Context, object string, v version) error {
	s.bucketState.mu.Lock()
	seen := s.bucketState.nulls[v]
	s.bucketState.mu.Unlock()
	if seen {
		return s.ready(ctx)
	}
	s.bucketState.good.Store(false)
	if err := s.ready(ctx); err != nil {
		return err
	}
	if _, err := s.entry(ctx, object, v); err != nil {
		return err
	}
	s.bucketState.mu.Lock()
	defer s.bucketState.mu.Unlock()
	if s.bucketState.nulls == nil || len(s.bucketState.nulls) > maxRegisters {
		s.bucketState.nulls = map[version]bool{}
	}
	s.bucketState.nulls[v] = true
	return nil
}

// Settings are the settings of a bucket. They also include the locks of other programs in the
// bucket.
type Settings struct {
	s3bucket.Settings

	// ExpiresVersions names the lifecycle rules that are dangerous for the Store. They remove
	// versions that the Store needs, or move such versions to a storage class that the Store cannot
	// read.
	ExpiresVersions []string

	// Legacy names locks of an older program below the prefix. LegacyAtRoot names its locks at the root
	// of the bucket. [Store.Settings] describes this older program.
	Legacy, LegacyAtRoot []string

	// Other names registers that package s3store has written with this prefix. OtherText explains
	// why they are a problem.
	Other     []string
	OtherText string

	// Objects names objects of other programs among the locks, sessions and checkpoints, at most ten. A
	// program that writes objects there can add a version to a lock.
	Objects []string
}

// If this bucket cannot store registers, Err returns an error that gives the reason and matches
// [store.ErrUnsafe].
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
		why = append(why, "Object Lock is enabled, so Holdfast could not remove superseded versions; a lock that is renewed writes thousands of versions a day")
	}
	if set.MFADelete {
		why = append(why, "MFA Delete is enabled, so Holdfast could not remove superseded versions")
	}
	if len(set.ExpiresVersions) > 0 {
		why = append(why, "lifecycle rules can remove versions that Holdfast needs (an old version can be the present state): "+strings.Join(set.ExpiresVersions, ", "))
	}
	if len(set.Legacy) > 0 {
		why = append(why, "locks of another program are under this prefix; that program and Holdfast ignore each other's locks, so two programs could own the same lock: "+strings.Join(set.Legacy, ", "))
	}
	if len(set.Other) > 0 {
		why = append(why, set.OtherText)
	}
	if len(why) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", store.ErrUnsafe, strings.Join(why, "; "))
}

// Settings reads the settings of the bucket. It also searches for locks of an older program and for
// registers of package s3store. It searches only the first thousand versions of the bucket and of
// the prefix. If Settings cannot reach the bucket, it returns an error. If it cannot read one
// setting, it records the error in the field Unreadable.
//
// The older program puts a new version of an object for each attempt to get a lock. The body is the
// name of the lock, a hyphen and a UUID. The metadata contains "timeout" and "lockowner". By the
// rules of that program, a lock can have two owners. So the Store never uses a key under which that
// program has a lock.
func (s *Store) Settings(ctx context.Context) (*Settings, error) {
	set, err := s.bucketSettings(ctx)
	if err != nil {
		return nil, err
	}
	beside, err := s.findForeignLocks(ctx)
	switch {
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrMisconfigured), ctx.Err() != nil:
		return nil, fmt.Errorf("cannot search for the locks of other programs: %w", err)
	case err != nil:
		set.Unreadable["objects"] = err
	default:
		set.Legacy, set.LegacyAtRoot, set.Objects = beside.Legacy, beside.LegacyAtRoot, beside.Objects
		if set.Other = beside.Shared(""); len(set.Other) > 0 {
			set.OtherText = beside.SharedText(set.Other)
		}
	}
	return set, nil
}

// bucketSettings is Settings without a look at objects.
func (s *Store) bucketSettings(ctx context.Context) (*Settings, error) {
	bucket, err := s.bucket.Settings(ctx)
	if err != nil {
		return nil, err
	}
	set := &Settings{Settings: bucket}
	for _, rule := range bucket.Rules {
		if strings.HasPrefix(rule.Prefix, s.prefix) || strings.HasPrefix(s.prefix, rule.Prefix) {
			set.ExpiresVersions = append(set.ExpiresVersions, fmt.Sprintf("%q (%s)", rule.ID, rule.Action))
		}
	}
	return set, nil
}

// findForeignLocks returns the locks in the bucket that the locks here do not exclude.
func (s *Store) findForeignLocks(ctx context.Context) (*foreignlocks.Found, error) {
	return foreignlocks.Find(ctx, s.versions, s.prefix, foreignlocks.Plain, func(ctx context.Context, prefix string) (objects []foreignlocks.Object, all bool, err error) {
		for page, err := range s.versions.List(ctx, prefix) {
			for _, v := range page.Versions {
				objects = append(objects, foreignlocks.Object{Key: v.Key, ID: v.ID, Size: v.Size})
			}
			return objects, page.NextKey == "", err
		}
		return nil, true, nil
	})
}

// alone refuses to make a register of this key while the other program has a lock of its name
// (the key itself, or what follows its first segment, below the prefix or at the root of the
// bucket), and while package s3store has registers with this prefix. A Store looks once,
// before the first register that it makes: who begins to use a bucket begins so, and no write
// on what is there pays for it.
func (s *Store) alone(ctx context.Context, key string) error {
	free, err := s.bucketState.check(ctx)
	if err != nil {
		return err
	}
	defer free()
	if s.bucketState.foreignLocks == nil {
		beside, err := s.findForeignLocks(ctx)
		if err != nil {
			return err
		}
		s.bucketState.foreignLocks = beside
	}
	return s.bucketState.foreignLocks.Refuse(key, true)
}

// foreign is the error of a version that is no entry.
func (s *Store) foreign(ctx context.Context, object string, v version, why error) error {
	text := why.Error()
	if legacy, err := foreignlocks.IsLegacy(ctx, s.versions, object, v.id); err == nil && legacy {
		text = "it is " + foreignlocks.Text
	}
	return fmt.Errorf("%w: version %s of %s (written at %s) cannot be read: %s", store.ErrCorrupt, v.id, object, v.modified.UTC().Format(time.RFC3339), text)
}
