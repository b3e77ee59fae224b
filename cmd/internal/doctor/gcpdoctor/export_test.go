package gcpdoctor

import (
	"context"

	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/gcp/gcsbucket"
)

// Settings returns the checks of the settings of a bucket.
func Settings(ctx context.Context, b *gcsbucket.Bucket) []doctor.Check {
	return (&bucket{b: b, e: &doctor.Examination{Target: Bucket(b, "")}}).settings(ctx)
}
