package s3bucket_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// TestClientResumes: a client that resumes an upload keeps the id, the fence and the metadata
// with which it began, sends the write only if the object still is in the state that it
// names, and recognises it where the completion was applied and its reply lost.
func TestClientResumes(t *testing.T) {
	body := strings.Repeat("x", 3*part)
	for _, c := range []struct {
		name    string
		replies bool // all replies arrive
		other   bool // another writer is faster
		want    store.Outcome
	}{
		{"all goes well", true, false, store.Applied},
		{"the replies of the completion are lost", false, false, store.Applied},
		{"another writer was faster", true, true, store.NotApplied},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { resumes(t, body, c.replies, c.other, c.want) })
		})
	}
}

func resumes(t *testing.T, body string, replies, other bool, want store.Outcome) {
	ctx := t.Context()
	f := awstest.NewS3("bucket")
	client, err := object.New(trusted(t, f), nil)
	if err != nil {
		t.Fatal(err)
	}
	base, err := client.Put(ctx, "k", strings.NewReader("old"), nil)
	if err != nil {
		t.Fatal(err)
	}
	kept := 0
	f.Add("UploadPart", 1, 1, awstest.Fault{Status: 403, Code: "AccessDenied"})
	_, err = client.Put(ctx, "k", strings.NewReader(body), &object.WriteOptions{
		Base: &base, Metadata: map[string]string{"a": "b"}, OnUpload: func(object.Upload) { kept++ },
	})
	var unfinished *object.UnfinishedError
	if !errors.As(err, &unfinished) || kept != 1 {
		t.Fatalf("got %v, kept %d", err, kept)
	}
	if other {
		if _, err := client.Put(ctx, "k", strings.NewReader("other"), &object.WriteOptions{Base: &base}); err != nil {
			t.Fatal(err)
		}
	}
	if !replies {
		f.Add("CompleteMultipartUpload", 0, 1, awstest.Fault{Lose: true})
	}
	info, err := client.Resume(ctx, unfinished.Upload, strings.NewReader(body), &object.WriteOptions{Base: &base})
	if store.OutcomeOf(err) != want {
		t.Fatalf("got %v (%v), want %v", err, store.OutcomeOf(err), want)
	}
	if err != nil {
		return
	}
	now, err := client.Stat(ctx, "k")
	if err != nil || now.Size != int64(len(body)) || now.Metadata["a"] != "b" || now.Version != info.Version ||
		now.WriteInfo.ID == "" || now.WriteInfo.ID != unfinished.Upload.Metadata["holdfast-write"] || now.WriteInfo.Previous[0] != base.WriteInfo.ID {
		t.Errorf("got %+v, %v", now, err)
	}
}

// TestQuietSDK: the SDK writes nothing to the log of a program that has not asked for it, as
// the default log is standard error.
func TestQuietSDK(t *testing.T) {
	for mode, wants := range map[aws.ClientLogMode]bool{0: false, aws.LogRequest: true} {
		wrote := ""
		f := awstest.NewS3("bucket")
		b, err := s3bucket.New(f.Client(func(o *s3.Options) {
			o.ClientLogMode = mode
			o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenSupported
			o.Logger = logging.LoggerFunc(func(class logging.Classification, format string, v ...any) {
				wrote += fmt.Sprintf(string(class)+" "+format+"\n", v...)
			})
		}), "bucket", nil)
		if err != nil {
			t.Fatal(err)
		}
		f.Put("bucket", "k", []byte("without a checksum"))
		if _, _, err := object.ReadAll(t.Context(), b, "k", 1<<10, nil); err != nil {
			t.Fatal(err)
		}
		if wants != (wrote != "") {
			t.Errorf("mode %v: it wrote %q", mode, wrote)
		}
	}
}
