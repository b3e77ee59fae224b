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

// Noncurrent returns what a bucket keeps of the test data of doctor.
func Noncurrent(ctx context.Context, b *gcsbucket.Bucket) []string {
	return (&bucket{b: b, e: &doctor.Examination{Dir: doctor.Dir}}).noncurrent(ctx)
}
