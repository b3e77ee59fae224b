package s3bucket

import (
	"errors"
	"net/http"

	"github.com/holdfast-go/holdfast/internal/aws/awscall"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

var errNoBucket = errors.New("the bucket does not exist here; check its name, the region and the endpoint")

// classify says what an answer of S3 means. Codes are judged before the status:
// some operations hide an error behind status 200.
func (b *Bucket) classify(c *awscall.Call, err error) error {
	if damaged := c.Damaged(); damaged != nil {
		return damaged
	}
	status := c.Status()
	switch code := awscall.Code(err); {
	case code == "PreconditionFailed" || status == http.StatusPreconditionFailed:
		return &object.ConflictError{}
	case status == http.StatusNotModified:
		return object.ErrNotChanged
	case code == "ConditionalRequestConflict" || code == "OperationAborted" || code == "ExistingObjectIsDirectory":
		// The last is versitygw's: it also answers so when, while it wrote, another
		// request removed the last other object of the directory, and the directory with it.
		return c.Fail(err, object.ErrBusy, store.NotApplied, "%s", c.Text(err))
	case code == "NoSuchBucket":
		return c.Fail(err, store.ErrMisconfigured, store.NotApplied, "%v", errNoBucket)
	case code == "NoSuchUpload":
		// Another program aborted it, or a copy of our own request completed it.
		return c.Fail(err, errNoUpload, store.Unknown, "%v", errNoUpload)
	case code == "NoSuchKey" || code == "NoSuchVersion":
		// Only these: 404 also stands for a user that does not exist, and for a path
		// that an endpoint does not know.
		return store.ErrNotFound
	case code == "InvalidRange" || status == http.StatusRequestedRangeNotSatisfiable:
		return object.ErrRange
	case code == "NotImplemented" || status == http.StatusNotImplemented:
		return &object.UnsupportedError{Found: c.Text(err)}
	case code == "AuthorizationHeaderMalformed" || code == "PermanentRedirect" || code == "IllegalLocationConstraintException" || status == http.StatusMovedPermanently:
		return c.Fail(err, store.ErrMisconfigured, store.NotApplied, "wrong region%s: %s", rightRegion(c), c.Text(err))
	case code == "InvalidAccessKeyId" || code == "SignatureDoesNotMatch" || code == "ExpiredToken" || code == "InvalidToken" || code == "XAdminUserNotFound":
		return c.Fail(err, store.ErrCredentials, store.NotApplied, "the credentials were refused: %s", c.Text(err))
	case code == "RequestTimeTooSkewed":
		return c.Fail(err, store.ErrMisconfigured, store.NotApplied, "the clock of this machine is wrong: %s", c.Text(err))
	case status == http.StatusForbidden:
		return c.Fail(err, store.ErrDenied, store.NotApplied, "%s (without the right s3:ListBucket, the server also refuses access to an object that does not exist)", c.Text(err))
	case code == "SlowDown" || code == "InternalError" || code == "ServiceUnavailable" || code == "RequestTimeout":
		return c.Fail(err, store.ErrUnavailable, store.Unknown, "%s", c.Text(err))
	}
	return c.Classify(err)
}

func rightRegion(c *awscall.Call) string {
	if r := c.Header("X-Amz-Bucket-Region"); r != "" {
		return ", the bucket is in " + c.Hide(r)
	}
	return ""
}

// about puts the key into an error of a write whose condition did not hold, and
// says what is known: 404 means that the object which the condition names is not
// there.
func about(key string, ifMatch object.Version, a object.Ability, err error) error {
	var unsupported *object.UnsupportedError
	switch {
	case store.InDoubt(err): // this call may have caused the conflict: an earlier try was lost
		return err
	case errors.Is(err, store.ErrConflict):
		return &object.ConflictError{Key: key}
	case errors.Is(err, store.ErrNotFound) && ifMatch != "":
		return &object.ConflictError{Key: key, HasCurrent: true}
	case errors.As(err, &unsupported) && unsupported.Ability == "":
		return &object.UnsupportedError{Ability: a, Found: unsupported.Found}
	}
	return err
}

func (b *Bucket) opError(op store.Kind, key string, err error) error {
	if err == nil {
		return nil
	}
	return &store.OpError{Op: op, Key: key, Store: b.Traits().Name, Err: err}
}
