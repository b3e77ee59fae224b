package azure_test

import (
	"context"
	"crypto/md5"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
)

// raw sends single requests to Azurite, in a container of its own.
type raw struct {
	t *testing.T
	c *container.Client
}

// answer is the result of a request: "ok", or the status and the code.
func answer(err error) string {
	var failed *azcore.ResponseError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &failed):
		return fmt.Sprint(failed.StatusCode, " ", failed.ErrorCode)
	}
	return err.Error()
}

func body(s string) io.ReadSeekCloser { return streaming.NopCloser(strings.NewReader(s)) }

var absent = func() *blob.ModifiedAccessConditions {
	any := azcore.ETagAny
	return &blob.ModifiedAccessConditions{IfNoneMatch: &any}
}()

func match(e azcore.ETag) *blob.ModifiedAccessConditions {
	return &blob.ModifiedAccessConditions{IfMatch: &e}
}

const wrongETag = azcore.ETag(`"0x8D000000000000"`)

func (r *raw) put(key, text string, on *blob.ModifiedAccessConditions) (azcore.ETag, error) {
	out, err := r.c.NewBlockBlobClient(key).Upload(context.Background(), body(text), &blockblob.UploadOptions{AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: on}})
	if err != nil {
		return "", err
	}
	return *out.ETag, nil
}

func (r *raw) must(key, text string) azcore.ETag {
	e, err := r.put(key, text, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return e
}

func (r *raw) get(key string) string {
	out, err := r.c.NewBlobClient(key).DownloadStream(r.t.Context(), nil)
	if err != nil {
		return answer(err)
	}
	defer out.Body.Close()
	text, _ := io.ReadAll(out.Body)
	return string(text)
}

func (r *raw) delete(key string, on *blob.ModifiedAccessConditions) error {
	_, err := r.c.NewBlobClient(key).Delete(r.t.Context(), &blob.DeleteOptions{AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: on}})
	return err
}

func (r *raw) stage(key, id, text string) error {
	_, err := r.c.NewBlockBlobClient(key).StageBlock(r.t.Context(), base64.StdEncoding.EncodeToString([]byte(id)), body(text), nil)
	return err
}

func (r *raw) commit(key string, on *blob.ModifiedAccessConditions, ids ...string) error {
	for i := range ids {
		ids[i] = base64.StdEncoding.EncodeToString([]byte(ids[i]))
	}
	_, err := r.c.NewBlockBlobClient(key).CommitBlockList(r.t.Context(), ids, &blockblob.CommitBlockListOptions{AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: on}})
	return err
}

// behaviours pin down what Azurite does where it matters to us. A failure after a change of the version means that what
// we say of Azurite, and what the code does for it, have to be looked at again. Where Azurite differs from Azure (as its
// documentation and its users have it; it was not tested), the entry says so.
var behaviours = []struct {
	name, want string
	probe      func(r *raw) string
}{
	{"create if absent: new, again", "ok, 409 BlobAlreadyExists, first", func(r *raw) string {
		_, err1 := r.put("k", "first", absent)
		_, err2 := r.put("k", "second", absent)
		return join(answer(err1), answer(err2), r.get("k"))
	}},
	{"create if absent, raced", "1 of 10", func(r *raw) string {
		return race(func(i int) error {
			_, err := r.put("k", fmt.Sprint(i), absent)
			return err
		})
	}},
	{"swap: wrong ETag, right ETag", "412 ConditionNotMet, ok, 2", func(r *raw) string {
		e := r.must("k", "1")
		_, err1 := r.put("k", "x", match(wrongETag))
		_, err2 := r.put("k", "2", match(e))
		return join(answer(err1), answer(err2), r.get("k"))
	}},
	{"swap, raced", "1 of 10", func(r *raw) string {
		e := r.must("k", "before")
		return race(func(i int) error {
			_, err := r.put("k", fmt.Sprint(i), match(e))
			return err
		})
	}},
	{"swap of what is not there", "412 ConditionNotMet, 404 BlobNotFound", func(r *raw) string {
		_, err := r.put("k", "x", match(wrongETag))
		return join(answer(err), r.get("k"))
	}},
	{"equal bodies", "different ETags", func(r *raw) string {
		first := r.must("k", "body")
		if first == r.must("k", "body") {
			return "equal ETags"
		}
		return "different ETags"
	}},
	{"delete if match: wrong ETag, right ETag", "412 ConditionNotMet, body, ok, 404 BlobNotFound", func(r *raw) string {
		e := r.must("k", "body")
		err1 := r.delete("k", match(wrongETag))
		before := r.get("k")
		return join(answer(err1), before, answer(r.delete("k", match(e))), r.get("k"))
	}},
	// So a delete that may find nothing costs one more read. Azure: 404 BlobNotFound.
	{"delete if match: not there", "412 ConditionNotMet", func(r *raw) string { return answer(r.delete("k", match(wrongETag))) }},
	{"commit of blocks if absent: new, again", "ok, ab, 409 BlobAlreadyExists, ab", func(r *raw) string {
		errs := errors.Join(r.stage("k", "1", "a"), r.stage("k", "2", "b"))
		err1 := errors.Join(errs, r.commit("k", absent, "1", "2"))
		before := r.get("k")
		errs = r.stage("k", "3", "c")
		return join(answer(err1), before, answer(errors.Join(errs, r.commit("k", absent, "3"))), r.get("k"))
	}},
	{"blocks that are not committed", "404 BlobNotFound", func(r *raw) string {
		if err := r.stage("k", "1", "a"); err != nil {
			return answer(err)
		}
		return r.get("k")
	}},
	{"a commit after another commit", "400 InvalidBlockList", func(r *raw) string {
		if err := errors.Join(r.stage("k", "1", "a"), r.stage("k", "2", "b"), r.commit("k", nil, "1")); err != nil {
			return answer(err)
		}
		return answer(r.commit("k", nil, "2"))
	}},
	{"the same commit again", "ok, a", func(r *raw) string {
		if err := errors.Join(r.stage("k", "1", "a"), r.commit("k", nil, "1")); err != nil {
			return answer(err)
		}
		return join(answer(r.commit("k", nil, "1")), r.get("k"))
	}},
	// Azure: 400 InvalidBlockList, because Put Blob removes the blocks.
	{"a commit after Put Blob", "ok, a", func(r *raw) string {
		if err := r.stage("k", "1", "a"); err != nil {
			return answer(err)
		}
		r.must("k", "small")
		return join(answer(r.commit("k", nil, "1")), r.get("k"))
	}},
	{"blocks with names of two lengths", "ok, 400 InvalidBlobOrBlock", func(r *raw) string {
		return join(answer(r.stage("k", "1", "a")), answer(r.stage("k", "1234567", "b")))
	}},
	// Azure: 416 InvalidRange.
	{"a range that begins at the end", "206 and no byte", func(r *raw) string {
		r.must("k", "body")
		out, err := r.c.NewBlobClient("k").DownloadStream(r.t.Context(), &blob.DownloadStreamOptions{Range: blob.HTTPRange{Offset: 4}})
		if err != nil {
			return answer(err)
		}
		defer out.Body.Close()
		if text, _ := io.ReadAll(out.Body); len(text) == 0 && out.ContentRange != nil {
			return "206 and no byte"
		}
		return "something"
	}},
	{"a body with a wrong MD5", "400 Md5Mismatch", func(r *raw) string {
		sum := md5.Sum([]byte("another"))
		_, err := r.c.NewBlockBlobClient("k").Upload(r.t.Context(), body("body"), &blockblob.UploadOptions{TransactionalValidation: blob.TransferValidationTypeMD5(sum[:])})
		return answer(err)
	}},
	// Azure: the second write replaces the first.
	{"a name that ends with a dot", "1, 2", func(r *raw) string {
		r.must("k", "1")
		r.must("k.", "2")
		return join(r.get("k"), r.get("k."))
	}},
	{"a put and a delete under an Azure lease of another program", "412 LeaseIdMissing, 412 LeaseIdMissing", func(r *raw) string {
		r.must("k", "1")
		l, err := lease.NewBlobClient(r.c.NewBlobClient("k"), nil)
		if err == nil {
			_, err = l.AcquireLease(r.t.Context(), 15, nil)
		}
		if err != nil {
			return answer(err)
		}
		_, err = r.put("k", "2", nil)
		return join(answer(err), answer(r.delete("k", nil)))
	}},
	{"a delete of a blob with a snapshot", "409 SnapshotsPresent", func(r *raw) string {
		r.must("k", "1")
		if _, err := r.c.NewBlobClient("k").CreateSnapshot(r.t.Context(), nil); err != nil {
			return answer(err)
		}
		return answer(r.delete("k", nil))
	}},
}

func join(parts ...string) string { return strings.Join(parts, ", ") }

// race reports how many of ten concurrent requests succeed.
func race(f func(i int) error) string {
	var wg sync.WaitGroup
	errs := make([]error, 10)
	for i := range errs {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	n := 0
	for _, err := range errs {
		if err == nil {
			n++
		}
	}
	return fmt.Sprint(n, " of ", len(errs))
}

// TestBehaviour: see behaviours.
func TestBehaviour(t *testing.T) {
	t.Parallel()
	a := azurite(t)
	for _, b := range behaviours {
		t.Run(b.name, func(t *testing.T) {
			r := &raw{t, client(t, a.NewContainer(t), a.Address())}
			if got := b.probe(r); got != b.want {
				t.Errorf("got %q, want %q", got, b.want)
			}
		})
	}
}
