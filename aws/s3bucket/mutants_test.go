package s3bucket_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutanttest"
)

func TestMutants(t *testing.T) {
	mutanttest.Run(t, []mutanttest.Mutant{
		{"the completion of an upload has no condition", "parts.go",
			"	in.IfMatch, in.IfNoneMatch = cond.headers()\n", "",
			"TestBucket/LargeIfAbsent"},
		{"a conflict on a repeated completion is believed", "parts.go",
			"fmt.Errorf(\"%w; the error of the next attempt: %v\", lost, err)", "err",
			"TestRepeatedCompletion"},
		{"an upload that is gone when its completion is repeated is a failure", "parts.go",
			"fmt.Errorf(\"%w; the error of the next attempt: %w\", lost, errNoUpload)", "store.MarkNotApplied(errNoUpload)",
			"TestNthRequest"},
		{"a completion is not sent again", "parts.go",
			"		last := !errors.Is(err, store.ErrUnavailable) || try", "		last := !errors.Is(err, store.ErrUnavailable) || lost == nil || try",
			"TestRequests"},
		{"a failed upload is not aborted", "parts.go",
			"	if err := u.abort(ctx); err != nil {", "	if err := errNoUpload; err != nil {",
			"TestNthRequest"},
		{"an abort ends with the caller's context", "parts.go",
			"context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)", "context.WithTimeout(ctx, abortTimeout)",
			"TestContextEndsInTransfer"},
		{"an abort is believed while parts are on their way", "parts.go",
			"		if err != nil || !u.lost {\n", "		if u.lost = u.lost && err == nil; true {\n",
			"TestLateParts"},
		{"a part that is there counts whatever its bytes", "parts.go",
			" && isMD5Of(versionOf(p.ETag), part)", "",
			"TestResumeSends"},
		{"an upload that lost is kept", "parts.go",
			"	if u.onUpload && !over {", "	if u.onUpload && (!over || over) {",
			"TestBucket/ResumeConflict"},
		{"a conflict of a resumed upload is not certain", "parts.go",
			"		if !errors.Is(err, errNoUpload) { // or", "		if errors.Is(err, errNoUpload) { // or",
			"TestBucket/Resume"},
		{"parts of a copy can be of different states", "copy.go",
			"		CopySourceIfMatch:         aws.String(string(from.Version)),\n", "",
			"TestCopyChangedSource"},
		{"all parts of a copy are the first", "copy.go",
			"at, at+size-1))", "at*0, size-1))",
			"TestParallel"},
		{"a part's time limit forgets that others share the line", "parts.go",
			"u.b.timeoutFor(len(part)*u.b.o.Parallel)", "u.b.timeoutFor(len(part))",
			"TestSlowServer"},
		{"parts of a body of unknown length do not grow", "parts.go",
			"17*int64(number)*int64(number)", "0*int64(number)",
			"TestPartSizes"},
		{"the newest part is that of the listing's beginning", "uploads.go",
			"t.After(last) {", "t.Before(last) {",
			"TestSweepUploads"},
		{"a part without an ETag is a part", "parts.go",
			"		return withVersion(c, err, out.ETag)\n", "		_ = c\n		return err\n",
			"TestHostileUpload/a_part_has_no_ETag_at_first"},
	})
}
