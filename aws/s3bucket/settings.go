package s3bucket

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/holdfast-go/holdfast/internal/aws/awscall"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// Settings are the settings of a bucket that affect its objects. For example, each renewal of a
// lease writes the object of the lease. With versioning, the bucket then stores many versions of
// this object.
type Settings struct {
	// Versioning is "Enabled" or "Suspended". It is "" if versioning was never enabled.
	Versioning string

	// MFADelete says that the removal of a version needs a code from a device.
	MFADelete bool

	// ObjectLock says that versions can be protected from deletion. DefaultRetention is the time
	// for which the bucket protects each new version; zero means no protection by default.
	ObjectLock       bool
	DefaultRetention time.Duration

	// ExpiresVersions says that a lifecycle rule removes old versions, in the whole bucket or below
	// some prefix.
	ExpiresVersions bool

	// Rules are the lifecycle rules that remove versions, or move them to another storage class.
	// The list omits rules that are only for objects with certain tags.
	Rules []Rule

	// Unreadable maps the name of each setting that could not be read to the error. Either the
	// caller lacks a permission, or the server does not know the request.
	Unreadable map[string]error
}

// Rule is a lifecycle rule.
type Rule struct {
	ID     string
	Prefix string // prefix of the keys of the rule
	Action string // what the rule does, for people

	Expires bool // the rule deletes current objects
}

// Unversioned returns true if the Bucket has received at least one answer to a PUT, and no answer
// contained a version id. Then versioning is not enabled.
func (b *Bucket) Unversioned() bool { return b.plain.Load() && !b.versioned.Load() }

// Settings reads the settings of the bucket, in three requests. It returns an error only if it
// cannot reach the bucket.
func (b *Bucket) Settings(ctx context.Context) (Settings, error) {
	s := Settings{Unreadable: make(map[string]error)}
	for _, part := range []struct {
		name string
		read func(context.Context, *Settings, func(*s3.Options)) error
	}{
		{"versioning", b.versioning},
		{"object lock", b.objectLock},
		{"lifecycle", b.lifecycle},
	} {
		err := b.setting(ctx, &s, part.read)
		switch {
		case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrMisconfigured), ctx.Err() != nil:
			return Settings{}, fmt.Errorf("cannot read the setting %s: %w", part.name, err)
		case err != nil:
			s.Unreadable[part.name] = err
		}
	}
	return s, nil
}

// setting reads one part of the settings.
func (b *Bucket) setting(ctx context.Context, s *Settings, read func(context.Context, *Settings, func(*s3.Options)) error) error {
	return b.repeat(ctx, func() error {
		c, err := b.call(ctx, b.o.Timeout, func(ctx context.Context, opt func(*s3.Options)) error { return read(ctx, s, opt) })
		if errors.Is(err, store.ErrNotFound) { // no object was asked for
			err = c.Fail(errNoBucket, store.ErrMisconfigured, store.NotApplied, "%v", errNoBucket)
		}
		return err
	})
}

func (b *Bucket) versioning(ctx context.Context, s *Settings, opt func(*s3.Options)) error {
	out, err := b.client.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{
		Bucket: &b.name, ExpectedBucketOwner: strOrNil(b.o.Owner),
	}, opt)
	if err == nil {
		s.Versioning = string(out.Status)
		s.MFADelete = out.MFADelete == types.MFADeleteStatusEnabled
	}
	return err
}

func (b *Bucket) objectLock(ctx context.Context, s *Settings, opt func(*s3.Options)) error {
	out, err := b.client.GetObjectLockConfiguration(ctx, &s3.GetObjectLockConfigurationInput{
		Bucket: &b.name, ExpectedBucketOwner: strOrNil(b.o.Owner),
	}, opt)
	if awscall.Code(err) == "ObjectLockConfigurationNotFoundError" {
		return nil
	}
	if err != nil || out.ObjectLockConfiguration == nil {
		return err
	}
	c := out.ObjectLockConfiguration
	s.ObjectLock = c.ObjectLockEnabled == types.ObjectLockEnabledEnabled
	if c.Rule != nil && c.Rule.DefaultRetention != nil {
		days := aws.ToInt32(c.Rule.DefaultRetention.Days) + 365*aws.ToInt32(c.Rule.DefaultRetention.Years)
		s.DefaultRetention = time.Duration(days) * 24 * time.Hour
	}
	return nil
}

func (b *Bucket) lifecycle(ctx context.Context, s *Settings, opt func(*s3.Options)) error {
	out, err := b.client.GetBucketLifecycleConfiguration(ctx, &s3.GetBucketLifecycleConfigurationInput{
		Bucket: &b.name, ExpectedBucketOwner: strOrNil(b.o.Owner),
	}, opt)
	if awscall.Code(err) == "NoSuchLifecycleConfiguration" {
		return nil
	}
	if err != nil {
		return err
	}
	s.ExpiresVersions, s.Rules = false, nil
	for _, rule := range out.Rules {
		if does := harm(rule); does != "" {
			s.Rules = append(s.Rules, Rule{aws.ToString(rule.ID), rulePrefix(rule), does, expires(rule)})
		}
		if rule.Status == types.ExpirationStatusEnabled && rule.NoncurrentVersionExpiration != nil {
			s.ExpiresVersions = true
		}
	}
	return nil
}

// harm says what a lifecycle rule does to versions that may be needed; empty if nothing.
func harm(rule types.LifecycleRule) string {
	tagged := rule.Filter != nil && (rule.Filter.Tag != nil || rule.Filter.And != nil && len(rule.Filter.And.Tags) > 0)
	if rule.Status != types.ExpirationStatusEnabled || tagged {
		return "" // what is put here has no tags
	}
	var does []string
	if rule.NoncurrentVersionExpiration != nil {
		does = append(does, "removes old versions")
	}
	if expires(rule) {
		does = append(does, "expires objects")
	}
	if len(rule.Transitions) > 0 || len(rule.NoncurrentVersionTransitions) > 0 {
		does = append(does, "moves versions to another storage class")
	}
	return strings.Join(does, ", ")
}

func expires(rule types.LifecycleRule) bool {
	e := rule.Expiration
	return e != nil && (e.Date != nil || aws.ToInt32(e.Days) > 0)
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

// LifecycleRule returns a lifecycle configuration as JSON for aws s3api
// put-bucket-lifecycle-configuration. With this configuration, S3 removes old versions below the
// prefix, and parts of failed uploads, after one day. The command replaces the whole configuration
// of a bucket, so add the existing rules of the bucket to the JSON.
func LifecycleRule(prefix string) string {
	return fmt.Sprintf(`{
  "Rules": [
    {
      "ID": "holdfast",
      "Status": "Enabled",
      "Filter": { "Prefix": %q },
      "NoncurrentVersionExpiration": { "NoncurrentDays": 1 },
      "Expiration": { "ExpiredObjectDeleteMarker": true },
      "AbortIncompleteMultipartUpload": { "DaysAfterInitiation": 1 }
    }
  ]
}`, prefix)
}

// Exists checks that the bucket exists and that the caller may use it. The text of the error says
// what to do.
func (b *Bucket) Exists(ctx context.Context) error {
	return b.repeat(ctx, func() error {
		_, c, err := request(ctx, b, b.o.Timeout, b.client.HeadBucket, &s3.HeadBucketInput{
			Bucket: &b.name, ExpectedBucketOwner: strOrNil(b.o.Owner),
		})
		switch {
		case c.Status() == http.StatusNotFound:
			return c.Fail(errNoBucket, store.ErrMisconfigured, store.NotApplied, "%v", errNoBucket)
		case errors.Is(err, store.ErrConflict), errors.Is(err, object.ErrNotChanged):
			return c.Fail(err, nil, store.NotApplied, "an unexpected reply with status %d", c.Status())
		}
		return err
	})
}
