package allstores

import (
	"context"
	"io"
	"net/url"

	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/internal/doctor/gcpdoctor"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/gcp/gcsbucket"
	"github.com/holdfast-go/holdfast/gcp/gcsstore"
	"github.com/holdfast-go/holdfast/object"
)

// openGCS opens gs://BUCKET/PREFIX; see [gcsbucket.Config] for its parameters.
func openGCS(ctx context.Context, a *stores.Access, u *url.URL, _ bool) (stores.Opened, error) {
	return opened(gcsstore.Open(ctx, u.String(), &gcsstore.Options{Logger: a.Log()}))
}

func gcsTarget(ctx context.Context, a *stores.Access, u *url.URL) (*doctor.Target, func(), error) {
	c, err := gcsbucket.ParseURL(u.String())
	if err != nil {
		return nil, nil, err
	}
	b, err := c.Open(ctx, &gcsbucket.Options{Logger: a.Log()})
	if err != nil {
		return nil, nil, err
	}
	return gcpdoctor.Bucket(b, c.Prefix), func() {}, nil
}

// openGCSBucket opens gs://BUCKET/KEY.
func openGCSBucket(ctx context.Context, a *stores.Access, at *stores.ObjectURL) (stores.Bucket, error) {
	b, _, err := gcsbucket.Open(ctx, at.Bucket.String(), &gcsbucket.Options{Logger: a.Log()})
	if err != nil {
		return stores.Bucket{}, err
	}
	client, err := object.New(b, &object.Options{Logger: a.Log()})
	return stores.Bucket{Client: client, Closer: io.NopCloser(nil), URL: object.TraitsOf(b).Name}, err
}
