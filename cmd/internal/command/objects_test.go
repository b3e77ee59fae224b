package command

import (
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/holdfast-go/holdfast/aws/awstest"
)

// cmdS3 puts a stand-in for S3 on a port of this machine, with the buckets "bucket" and
// "other", and sets $S3 to the parameters of URLs on it:
//
//	s3 [FAULT]...
//
// The faults: deaf (it ignores the conditions of writes, and their completion), silent=OP
// (after the first request of this operation, whose reply is lost, it answers no more),
// header (a copy on a condition needs the header x-if-absent, and is refused with 409; nothing
// else has conditions),
// copies (it ignores the conditions on the destination of a copy, and honours them where an
// upload in parts is completed, as MinIO and versitygw do),
// absent (a delete on a condition succeeds where there is no object, as on versitygw),
// marker (with versions, what was deleted is in the way of a create, as on versitygw),
// lose=OP (the reply to the first one is lost), break (every other GET breaks off), hang=OP (no answer comes).
func cmdS3(ts *testscript.TestScript, neg bool, args []string) {
	stand := awstest.NewS3("bucket", "other")
	for _, fault := range args {
		name, value, _ := strings.Cut(fault, "=")
		switch name {
		case "deaf":
			stand.Broken = awstest.S3Broken{
				IgnoreIfNoneMatch: true, IgnoreIfMatch: true, IgnoreIfMatchGone: true, IgnoreOnDelete: true,
				IgnoreOnCopy: true, IgnoreCopySource: true, IgnoreOnComplete: true,
			}
		case "header":
			stand.Broken = awstest.S3Broken{NoConditions: true, IgnoreCopySource: false, CopyHeader: "X-If-Absent", CopyRefused: 409}
		case "copies":
			stand.Broken.IgnoreOnCopy = true
		case "gone":
			stand.Broken.IgnoreDeleteGone = true
		case "marker":
			stand.Versioning, stand.Broken.MarkerExists = "Enabled", true
		case "silent":
			silent := false
			stand.AddWhen(func(r awstest.Request) bool {
				silent = silent || r.Op == value && !strings.HasPrefix(r.Key, ".holdfast/")
				return silent
			}, 0, -1, awstest.Fault{Lose: true})
		case "lose":
			stand.AddWhen(func(r awstest.Request) bool { return r.Op == value && !strings.HasPrefix(r.Key, ".holdfast/") }, 0, 1, awstest.Fault{Lose: true})
		case "hang":
			stand.Add(value, 0, -1, awstest.Fault{Hang: true})
		case "break":
			stand.Broken.BrokenOff = true
		default:
			ts.Fatalf("unknown fault %s", fault)
		}
	}
	if neg {
		ts.Fatalf("s3 does not fail")
	}
	parameters, end := serve(stand)
	ts.Defer(end)
	ts.Setenv("S3", parameters)
}

// cmdDynamoDB puts a stand-in for DynamoDB on a port of this machine, with tables of
// reservations "locks" and "other" and one "odd" of another shape, and sets $DYNAMODB to
// the parameters of URLs on it, and $DYNAMODB_URL to its address.
func cmdDynamoDB(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: dynamodb")
	}
	stand := awstest.NewDynamoDB()
	stand.AddTable("locks", "path", "etag")
	stand.AddTable("other", "path", "etag")
	stand.AddTable("odd", "id", "")
	parameters, end := serve(stand)
	ts.Defer(end)
	ts.Setenv("DYNAMODB", strings.Replace(parameters, "path_style=true&", "", 1))
	_, address, _ := strings.Cut(parameters, "endpoint=")
	ts.Setenv("DYNAMODB_URL", address)
}
