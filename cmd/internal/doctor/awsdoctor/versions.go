package awsdoctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/compat/s3verstore"
	"github.com/holdfast-go/holdfast/store"
)

// versions is what is examined of a bucket whose versions are folded.
type versions struct {
	st *s3verstore.Store
	e  *doctor.Examination
}

// VersionedS3 returns the target of a bucket with versioning on S3, for package s3verstore, which sends
// no conditions. Each write waits for a pause, so the examination takes one or two minutes.
func VersionedS3(bucket *s3bucket.Bucket, prefix string, opts *s3verstore.Options) *doctor.Target {
	p := &versions{}
	return &doctor.Target{
		Kind: s3verstore.Scheme, Name: strings.TrimSuffix(s3verstore.Scheme+"://"+bucket.Name()+"/"+strings.Trim(prefix, "/"), "/"),
		Begin: func(ctx context.Context, e *doctor.Examination) (err error) {
			p.e = e
			p.st, err = doctor.UseNew(e, func() (*s3verstore.Store, error) { return s3verstore.New(bucket, prefix, opts) })
			if err != nil {
				return err
			}
			e.Slow(p.st.SettleDelay())
			return e.Look(ctx)
		},
		Steps: func(*doctor.Examination) []doctor.Step {
			return []doctor.Step{
				{ID: "settings", What: "settings of the bucket", Needed: true, Run: p.settings},
				doctor.Single("removal", "removing versions", false, p.removal),
				doctor.Single("disorder", "the order of versions, and how long requests take", true, p.disorder),
			}
		},
		Clean:  func(ctx context.Context, _ *doctor.Examination) []string { return p.clean(ctx, prefix) },
		Killed: sweepBucket(bucket, nil, prefix),
		Right: func(op string) string {
			return map[string]string{
				"get": "s3:GetObjectVersion", "get-uncommitted": "s3:GetObjectVersion", "put": "s3:PutObject", "delete": "s3:PutObject",
				"list": "s3:ListBucketVersions", "erase": "s3:DeleteObjectVersion",
			}[op]
		},
	}
}

// clean removes all versions of the registers that were made.
func (p *versions) clean(ctx context.Context, prefix string) []string {
	prefix = doctor.Folder(prefix)
	n, dir, also := 0, prefix+p.e.Dir+"/", ""
	var reason error
	for _, key := range p.e.Made() {
		if err := p.st.Erase(ctx, key); err != nil {
			n, reason = n+1, err
			if object := p.st.ObjectKey(key); !strings.HasPrefix(object, dir) { // of a long key
				also += " and " + object
			}
		}
	}
	if n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("up to %d objects below %s%s, and perhaps objects below %s, with all versions (removing needs the right s3:DeleteObjectVersion): %s",
		n, dir, also, prefix+measureDir, doctor.Reason(reason))}
}

// settings looks for what would take away versions that are needed. Where it finds it
// the rest is not tried: it would be refused.
func (p *versions) settings(ctx context.Context) []doctor.Check {
	set, err := p.st.Settings(ctx)
	if err != nil {
		return p.e.Failed(doctor.Finding("settings", "settings of the bucket", true), err)
	}
	var checks []doctor.Check
	for _, look := range []struct {
		id, what, part string
		bad            bool
		found, means   string
		needed         bool
		right          string // to read the setting
	}{
		{"versioning", "versioning", "versioning", set.Versioning != "Enabled", "it is " + strings.ToLower(cmp.Or(set.Versioning, "not enabled")), "without versions, each write replaces the previous state; Holdfast refuses leases here", true, "s3:GetBucketVersioning"},
		{"mfa-delete", "MFA Delete", "versioning", set.MFADelete, "it is enabled", "Holdfast could not remove superseded versions, and refuses leases here", true, "s3:GetBucketVersioning"},
		{"object-lock", "Object Lock", "object lock", set.ObjectLock, "it is enabled", "Holdfast could not remove superseded versions, and refuses leases here", false, "s3:GetBucketObjectLockConfiguration"},
		{"lifecycle", "lifecycle rules", "lifecycle", len(set.ExpiresVersions) > 0, strings.Join(set.ExpiresVersions, ", "), "these rules remove old versions, and a lock can need them; Holdfast refuses leases here: exclude the prefix from the rules", false, "s3:GetLifecycleConfiguration"},
		{"legacy", oldLocks.what, "objects", len(set.Legacy) > 0, strings.Join(set.Legacy, ", "), oldLocks.means, false, ""},
		{"kinds", otherKind, "objects", len(set.Other) > 0, doctor.Some(set.Other), set.OtherText, false, ""},
	} {
		c := doctor.Finding(look.id, look.what, look.needed)
		switch unknown := set.Unreadable[look.part]; {
		case look.bad && (unknown == nil || errors.Is(unknown, errors.ErrUnsupported)):
			c.Last = true
			checks = append(checks, c.Unsafe(look.found, look.means)...)
		case errors.Is(unknown, errors.ErrUnsupported):
			checks = append(checks, c.OK("the server does not know such settings")...)
		case unknown != nil:
			failed := p.e.Failed(c, unknown)
			if look.right != "" {
				failed[0].Found, failed[0].Means = doctor.Reason(unknown), "this setting can make leases unsafe; to read it, doctor needs the right "+look.right
				if !look.needed { // the store does not refuse the bucket
					failed[0].Result = doctor.Warning
				}
			}
			checks = append(checks, failed...)
		case look.id == "legacy" && len(set.LegacyAtRoot) > 0:
			checks = append(checks, c.Warn(strings.Join(set.LegacyAtRoot, ", "), oldAtRoot)...)
		default:
			checks = append(checks, c.OK("the settings of the bucket allow this store")...)
		}
	}
	return append(checks, amongLocks(set.Objects)...)
}

// removal checks whether versions can be removed. Leases work as long as the bucket has space.
func (p *versions) removal(ctx context.Context, c doctor.Check) []doctor.Check {
	if _, err := p.e.Handles[0].Put(ctx, c.ID, "", doctor.Value()); err != nil {
		return p.e.Failed(c, err)
	}
	err := p.st.Erase(ctx, p.e.Dir+"/"+c.ID)
	switch {
	case errors.Is(err, store.ErrUnsafe), errors.Is(err, context.DeadlineExceeded):
		return p.e.Failed(c, err)
	case err != nil:
		return c.Warn(doctor.Reason(err), "every renewal leaves a version, 8,640 a day for each lock: grant the right s3:DeleteObjectVersion on the prefix")
	}
	return c.OK("it succeeds")
}

// disorder measures how far the server is from showing each version at once and in
// order, and whether the pause is long enough for it.
func (p *versions) disorder(ctx context.Context, c doctor.Check) []doctor.Check {
	// What it puts has to be removed again within the time of a step.
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
	}
	m, err := p.st.Measure(ctx, &s3verstore.MeasureOptions{Puts: 10})
	if err != nil {
		return p.e.Failed(c, err)
	}
	if err := m.Err(); err != nil {
		return c.Unsafe(err.Error(), "locks need a total order of versions; Holdfast refuses leases here")
	}
	c.Advice = []doctor.Advice{{
		What: "parameters for the measured times; measure again when the store is busy",
		Text: fmt.Sprintf("put_lifetime=%v&settle_delay=%v", m.PutLifetime, m.SettleDelay),
	}}
	if slowest := max(m.SlowestPut, m.Latest); slowest > p.st.PutLifetime() {
		return c.Unsafe(m.String(), fmt.Sprintf("a PUT took longer than put_lifetime, which is %v: use the parameters below", p.st.PutLifetime()))
	}
	return c.OK("%s", m)
}
