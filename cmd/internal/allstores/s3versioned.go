package allstores

import (
	"context"
	"net/url"

	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/internal/doctor/awsdoctor"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/compat/s3verstore"
)

// openVersioned opens s3+versioned://BUCKET/PREFIX; see [s3verstore.Config] for its
// parameters.
func openVersioned(ctx context.Context, a *stores.Access, u *url.URL, _ bool) (stores.Opened, error) {
	return opened(s3verstore.Open(ctx, u.String(), &s3verstore.Options{Logger: a.Log()}))
}

// initVersions refuses a bucket where a rule would remove versions that the store needs, or
// where locks of another program are.
func initVersions(ctx context.Context, a *stores.Access, raw string) (map[string]any, error) {
	st, err := s3verstore.Open(ctx, raw, nil)
	if err != nil {
		return nil, err
	}
	settings, err := st.Settings(ctx)
	if err != nil {
		return nil, err
	}
	if err := settings.Err(); err != nil {
		return nil, err
	}
	return a.Usable(ctx, raw, true)
}

func versionedTarget(ctx context.Context, a *stores.Access, u *url.URL) (*doctor.Target, func(), error) {
	config, err := s3verstore.ParseURL(u.String())
	if err != nil {
		return nil, nil, err
	}
	bucket, err := config.Open(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	a.Notef("every write on this store includes a pause: doctor needs one or two minutes")
	return awsdoctor.VersionedS3(bucket, config.Prefix, config.Times(nil)), func() {}, nil
}
