package integration_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/proof/integration/faultproxy"
	"github.com/holdfast-go/holdfast/store"
)

// uploadVar makes the test binary a process that puts a large object; its value is a
// target in JSON.
const uploadVar = "HOLDFAST_TEST_UPLOAD"

const (
	uploadPart = 5 << 20 // the least that S3 allows
	uploadKey  = "large"
)

// uploadBody is a body of two parts.
func uploadBody() []byte {
	body := make([]byte, uploadPart+1000)
	_, _ = rand.NewChaCha8([32]byte{3}).Read(body)
	return body
}

// uploader opens a bucket that uploads the body in parts, one at a time, so that the order
// of the requests is known.
func (a target) uploader() (*object.Client, error) {
	b, err := a.bucket(&s3bucket.Options{PartSize: uploadPart, Parallel: 1, AssumeAbilities: object.Abilities()})
	if err != nil {
		return nil, err
	}
	return object.New(b, nil)
}

// upload creates the object, and prints the upload when it begins.
func upload(at target) error {
	c, err := at.uploader()
	if err != nil {
		return err
	}
	_, err = c.Put(context.Background(), uploadKey, bytes.NewReader(uploadBody()), &object.WriteOptions{
		IfAbsent: true,
		OnUpload: func(u object.Upload) { _ = json.NewEncoder(os.Stdout).Encode(u) },
	})
	return err
}

// uploadsOf are the unfinished uploads.
func uploadsOf(t *testing.T, b object.Bucket) []object.Upload {
	t.Helper()
	up, ok := object.As[object.Uploader](b)
	if !ok {
		t.Fatal("the bucket does not list uploads")
	}
	var all []object.Upload
	for u, err := range up.Uploads(t.Context(), uploadKey) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, u)
	}
	return all
}

// checkWhole checks that there is no object, or the whole one, and says which.
func checkWhole(t *testing.T, b object.Bucket) bool {
	t.Helper()
	got, _, err := object.ReadAll(t.Context(), b, uploadKey, 1<<30, nil)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return false
	case err != nil:
		t.Fatal(err)
	case !bytes.Equal(got, uploadBody()):
		t.Fatalf("an object of %d bytes that was never put", len(got))
	}
	return true
}

// Whatever happens to one request of a large put, the outcome that is reported is right, and
// no part is left.
func TestUploadUnderOneFault(t *testing.T) {
	t.Parallel()
	faults := map[string]faultproxy.Fault{
		"lost": faultproxy.Drop(), "reply lost": faultproxy.Lose(), "refused, applied": faultproxy.RefuseAfter(500),
		"twice": faultproxy.Repeat(), "late": faultproxy.Late(500 * time.Millisecond),
	}
	eachUpload(t, func(t *testing.T, at target) {
		proxy := faultproxy.New(t, at.endpoint())
		c, err := at.at(proxy.URL).uploader()
		if err != nil {
			t.Fatal(err)
		}
		late := make(map[string]bool) // uploads of which a part came late
		for name, fault := range faults {
			for n, clean := 0, false; !clean; n++ {
				proxy.Reset()
				proxy.Inject(&faultproxy.Rule{Skip: n, Times: 1, Do: fault})
				_, err := c.Put(t.Context(), uploadKey, bytes.NewReader(uploadBody()), &object.WriteOptions{IfAbsent: true})
				calls := proxy.Calls()
				proxy.Heal()
				proxy.WaitIdle()
				clean = len(calls) <= n
				there := checkWhole(t, c.Bucket())
				outcome := store.OutcomeOf(err)
				if outcome == store.Applied != there && outcome != store.Unknown || clean && err != nil {
					t.Errorf("%s, request %d of %d: %v, and the object is there: %v (%v)\n%v", name, n+1, len(calls), outcome, there, err, calls)
				}
				// Where the answer that names an upload is lost, only a sweep can remove it.
				unnamed := !clean && (calls[n].Query == "uploads=" || strings.HasPrefix(calls[n].Query, "uploads&"))
				// A part that arrives during the end of its upload makes versitygw's folder of the
				// upload again. The server lists that only when the next upload begins.
				if name == "late" && !clean {
					if q, _ := url.ParseQuery(calls[n].Query); q.Has("partNumber") {
						late[q.Get("uploadId")] = true
					}
				}
				for _, u := range uploadsOf(t, c.Bucket()) {
					if !unnamed && !late[u.ID] {
						t.Errorf("%s, request %d: upload %s is left: %v\n%v", name, n+1, u.ID, err, calls)
					}
					up, _ := object.As[object.Uploader](c.Bucket())
					if err := up.AbortUpload(t.Context(), u); err != nil {
						t.Error(err)
					}
				}
				if err := c.Bucket().Delete(t.Context(), uploadKey, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// eachUpload runs a test on a bucket of each server.
func eachUpload(t *testing.T, f func(t *testing.T, at target)) {
	for name, start := range s3Servers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			f(t, target{Kind: "s3", S3: s, Space: s.NewBucket(t, false)})
		})
	}
}

// A process is killed while each request of a large put is on its way, or was applied and
// not answered. No part of the body can be seen as an object; what the process left is
// listed, is too young for a sweep, and is completed by another process that resumes it,
// which also finds out that the put was complete already.
func TestUploadKilled(t *testing.T) {
	t.Parallel()
	eachUpload(t, func(t *testing.T, at target) {
		c, err := at.uploader()
		if err != nil {
			t.Fatal(err)
		}
		for _, applied := range []bool{false, true} {
			for n := 1; n <= 4; n++ { // begin, two parts, complete
				name := fmt.Sprintf("request %d, applied %v", n, applied)
				begun := killUpload(t, at, n, applied)
				there := checkWhole(t, c.Bucket())
				if want := n == 4 && applied; there != want {
					t.Fatalf("%s: the object is there: %v, want %v", name, there, want)
				}
				left := uploadsOf(t, c.Bucket())
				if want := n == 1 && applied || n > 1 && !there; (len(left) == 1) != want {
					t.Errorf("%s: %d uploads are left, want one: %v", name, len(left), want)
				}
				swept, err := object.SweepUploads(t.Context(), c.Bucket(), uploadKey[:2], nil)
				if err != nil || swept.TooYoung != len(left) || swept.Removed != 0 {
					t.Errorf("%s: a sweep does %+v, %v", name, swept, err)
				}
				if begun != nil {
					if _, err := c.Resume(t.Context(), *begun, bytes.NewReader(uploadBody()), &object.WriteOptions{IfAbsent: true}); err != nil {
						t.Errorf("%s: resume: %v", name, err)
					}
				} else if _, err := c.Put(t.Context(), uploadKey, bytes.NewReader(uploadBody()), &object.WriteOptions{IfAbsent: true}); err != nil {
					t.Errorf("%s: put again: %v", name, err)
				}
				if !checkWhole(t, c.Bucket()) {
					t.Errorf("%s: no object after the second process", name)
				}
				up, _ := object.As[object.Uploader](c.Bucket())
				for _, u := range uploadsOf(t, c.Bucket()) {
					if begun != nil {
						t.Errorf("%s: upload %s is left", name, u.ID)
					}
					if err := up.AbortUpload(t.Context(), u); err != nil {
						t.Error(err)
					}
				}
				if left := uploadsOf(t, c.Bucket()); len(left) > 0 {
					t.Errorf("%s: after an abort there are %+v", name, left)
				}
				if err := c.Bucket().Delete(t.Context(), uploadKey, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// killUpload starts a process that puts the object, kills it at its n-th request, and
// returns the upload that it began, if it knew that.
func killUpload(t *testing.T, at target, n int, applied bool) *object.Upload {
	t.Helper()
	out, _ := killAt(t, at, uploadVar, n, applied)
	var begun *object.Upload
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		if err := json.Unmarshal(lines.Bytes(), &begun); err != nil {
			t.Errorf("%q: %v", lines.Text(), err)
		}
	}
	return begun
}

// killAt starts this binary with a variable whose value is the target in JSON, and kills it
// at its n-th request: once the server has answered it, or before it has seen it. It returns
// what the process wrote, and whether it ended before, with fewer requests.
func killAt(t *testing.T, at target, variable string, n int, applied bool) (out []byte, ended bool) {
	t.Helper()
	proxy := faultproxy.New(t, at.endpoint())
	defer proxy.Close()
	fault := faultproxy.Hang()
	if applied {
		fault = faultproxy.DelayReply(time.Hour)
	}
	proxy.Inject(&faultproxy.Rule{Skip: n - 1, Times: 1, Do: fault})
	config, err := json.Marshal(at.at(proxy.URL))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), variable+"="+string(config))
	cmd.Stderr = os.Stderr
	var written bytes.Buffer
	cmd.Stdout = &written
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	reached := func() bool {
		calls := proxy.Calls()
		return len(calls) >= n && (!applied || len(calls[n-1].Upstream) > 0)
	}
	for deadline := time.Now().Add(time.Minute); !reached(); {
		select {
		case err := <-done:
			if err != nil {
				t.Fatalf("the process ended: %v", err)
			}
			return written.Bytes(), true
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("request %d was not sent: %v", n, proxy.Calls())
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-done // it was killed
	return written.Bytes(), false
}

// Uploads, resumed ones and copies in parts are complete also where the SDK sends a checksum
// with each part, which is its default, and that of AWS.
func TestUploadChecksums(t *testing.T) {
	t.Parallel()
	for name, start := range s3Servers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := objecttest.Options{Large: uploadPart + 1000}
			o.Unsupported, o.Skip = bucketExceptions(name)
			open := func(t *testing.T) object.Bucket {
				s := start(t)
				at := target{Kind: "s3", S3: s, Space: s.NewBucket(t, false)}
				b, err := at.bucket(&s3bucket.Options{PartSize: uploadPart}, func(o *s3.Options) {
					o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenSupported
				})
				if err != nil {
					t.Fatal(err)
				}
				return b
			}
			for _, failure := range objecttest.Check(t, open, &o, "LargeBody", "LargeIfAbsent", "Resume", "ResumeOther", "CopyIfAbsent", "Copy") {
				t.Errorf("%s: %s", failure.Case, failure)
			}
		})
	}
}
