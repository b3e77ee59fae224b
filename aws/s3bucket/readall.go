package s3bucket

import (
	"bytes"
	"context"
	"crypto/fips140"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/holdfast-go/holdfast/internal/aws/awscall"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// mixedTries is how often an object is read whose answers do not fit together.
const mixedTries = 6

var errMixed = errors.New("the replies of the server mix two states of one object")

// ReadAll implements [object.WholeReader]. If an answer ends too early, ReadAll starts again.
//
// A server that keeps objects as files may return the ETag of one state with the body of another
// state. A write that is conditional on that ETag could replace a state that no client has read. So
// if an ETag looks like an MD5, but is not the MD5 of the body, ReadAll reads the object again. It
// stops when the ETag is the MD5 of the body. It also stops when it gets the same ETag and the same
// body twice: then the ETags of this server are not MD5s.
func (b *Bucket) ReadAll(ctx context.Context, key string, limit int64, opts *object.GetOptions) ([]byte, object.Info, error) {
	var last []byte
	var lastInfo object.Info
	for try := 1; ; try++ {
		var body []byte
		var info object.Info
		err := b.repeat(ctx, func() (err error) {
			body, info, err = object.ReadBody(ctx, single{b}, key, limit, opts)
			return err
		})
		ranged := opts != nil && (opts.Offset > 0 || opts.Length > 0)
		if err != nil || ranged || b.matchesETag(info.Version, body) {
			return body, info, err
		}
		if last != nil && info.Version == lastInfo.Version && bytes.Equal(body, last) {
			b.notMD5.Store(true)
			return body, info, nil
		}
		last, lastInfo = body, info
		if try == mixedTries {
			c := awscall.New(ctx, b.where)
			return nil, info, b.opError("get", key, c.Fail(errMixed, store.ErrUnavailable, store.Unknown, "%v", errMixed))
		}
	}
}

// single reads without repeating: the whole is repeated.
type single struct{ *Bucket }

// Get is that of the bucket, sent once.
func (b single) Get(ctx context.Context, key string, opts *object.GetOptions) (*object.Reader, error) {
	view := *b.Bucket
	view.tries = 1
	return view.Get(ctx, key, opts)
}

// matchesETag reports whether a body can be that of its ETag.
func (b *Bucket) matchesETag(v object.Version, body []byte) bool {
	tag := strings.Trim(string(v), `"`)
	if b.onAWS || len(tag) != 2*md5.Size || b.notMD5.Load() || fips140.Enabled() {
		return true
	}
	return isMD5Of(v, body)
}

// isMD5Of reports whether an ETag is the MD5 of body.
func isMD5Of(v object.Version, body []byte) bool {
	if fips140.Enabled() {
		return false
	}
	sum := md5.Sum(body)
	return strings.EqualFold(strings.Trim(string(v), `"`), hex.EncodeToString(sum[:]))
}
