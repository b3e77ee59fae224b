package azblobbucket

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"

	"github.com/holdfast-go/holdfast/internal/workerpool"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// Put implements [object.Bucket]. It sends a put with a condition only once. If it gets no answer, the
// outcome is unknown.
func (b *Bucket) Put(ctx context.Context, key string, body io.Reader, opts *object.PutOptions) (object.Info, error) {
	o, err := object.CheckPut(key, opts)
	if err = checkCall(ctx, err, key, o.IfMatch); err != nil {
		return object.Info{}, b.opError("put", key, err)
	}
	info, err := b.put(ctx, key, body, o)
	return info, b.opError("put", key, about(key, condition{o.IfAbsent, o.IfMatch}, err))
}

func (b *Bucket) put(ctx context.Context, key string, body io.Reader, o object.PutOptions) (object.Info, error) {
	body = object.CheckedBody(body, o)
	length := o.Length
	if l, ok := body.(interface{ Len() int }); ok {
		length = int64(l.Len())
	}
	size := b.blockSize(length)
	if size > maxBlockSize {
		return object.Info{}, fmt.Errorf("%w: %d bytes do not fit into %d blocks", store.ErrTooLarge, length, maxBlocks)
	}
	first, err := readBlock(body, length, size)
	if err != nil && err != io.EOF {
		return object.Info{}, store.MarkNotApplied(err)
	}
	c := condition{o.IfAbsent, o.IfMatch}
	if err == io.EOF && !b.blocks && !o.Parts {
		if err := b.require(ctx, c.of(object.PutIfAbsent, object.PutIfMatch)); err != nil {
			return object.Info{}, err
		}
		return b.putOnce(ctx, key, first, o)
	}
	if err := b.require(ctx, c.of(object.PartsIfAbsent, object.PartsIfMatch)); err != nil {
		return object.Info{}, err
	}
	u := newUpload(b, key)
	u.progress, u.total = o.Progress, cmp.Or(length, -1)
	if err := u.send(ctx, first, body, size, err == io.EOF); err != nil {
		return object.Info{}, store.MarkNotApplied(err)
	}
	return u.commit(ctx, c, httpHeaders(o.ContentType, o.Headers, u.sum.Sum(nil)), o.Metadata)
}

// blockSize is the size of the blocks of a body of this length; a length of 0 is not known.
func (b *Bucket) blockSize(length int64) int64 {
	return max(b.o.BlockSize, (length+maxBlocks-1)/maxBlocks)
}

// readBlock reads up to size bytes. At the end of the body, it also returns io.EOF. length is the expected length
// of the rest, or 0.
func readBlock(body io.Reader, length, size int64) ([]byte, error) {
	var buf bytes.Buffer
	if length > 0 {
		buf.Grow(int(min(length, size)) + bytes.MinRead)
	}
	n, err := io.Copy(&buf, io.LimitReader(body, size))
	if err == nil && n < size {
		err = io.EOF
	}
	return buf.Bytes(), err
}

// putOnce writes a small body with one request, or with several if there is no condition.
func (b *Bucket) putOnce(ctx context.Context, key string, body []byte, o object.PutOptions) (info object.Info, err error) {
	c := condition{o.IfAbsent, o.IfMatch}
	sum := md5.Sum(body)
	info, err = b.write(ctx, key, c, int64(len(body)), b.timeoutFor(len(body)), func(ctx context.Context) (*azcore.ETag, error) {
		out, err := b.client.NewBlockBlobClient(key).Upload(ctx, streaming.NopCloser(bytes.NewReader(body)), &blockblob.UploadOptions{
			Metadata: encodeMetadata(o.Metadata), HTTPHeaders: httpHeaders(o.ContentType, o.Headers, sum[:]),
			AccessConditions: c.headers(), TransactionalValidation: blob.TransferValidationTypeMD5(sum[:]),
		})
		return out.ETag, err
	})
	if err == nil {
		o.Progress.Report(info.Size, info.Size)
	}
	return info, err
}

// write sends a request that writes a blob of this size. It repeats a request without a condition.
func (b *Bucket) write(ctx context.Context, key string, c condition, size int64, timeout time.Duration, send func(context.Context) (*azcore.ETag, error)) (info object.Info, err error) {
	once := func() error {
		written, answer, err := do(ctx, b, timeout, send)
		if err == nil && versionOf(written) == "" {
			err = b.fail(store.ErrUnavailable, store.Unknown, "the answer has no ETag")
		}
		info = object.Info{Key: key, Version: versionOf(written), Size: size, Now: now(answer)}
		return err
	}
	if c.any() {
		err = once()
	} else {
		err = b.repeat(ctx, once)
	}
	if err != nil {
		return object.Info{}, err
	}
	return info, nil
}

func (b *Bucket) timeoutFor(size int) time.Duration {
	return b.o.Timeout + time.Duration(size)*time.Second/minRate
}

// upload is an upload in blocks on its way.
type upload struct {
	b        *Bucket
	key      string
	name     [16]byte // random, so that the blocks of two uploads have different names
	sum      hash.Hash
	progress object.Progress
	total    int64 // -1: not known

	mu   sync.Mutex
	done int64

	size   int64 // of all blocks
	blocks []string
}

func newUpload(b *Bucket, key string) *upload {
	u := &upload{b: b, key: key, sum: md5.New(), total: -1}
	rand.Read(u.name[:])
	return u
}

// add returns the id of the next block, which has size bytes.
func (u *upload) add(size int64) string {
	u.size += size
	id := base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(u.name[:], uint32(len(u.blocks))))
	u.blocks = append(u.blocks, id)
	return id
}

// stored reports size more bytes in the store.
func (u *upload) stored(size int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.done += size
	u.progress.Report(u.done, u.total)
}

// send sends all blocks of a body, of which the first block was read already.
func (u *upload) send(ctx context.Context, block []byte, body io.Reader, size int64, end bool) (err error) {
	pool := workerpool.New(ctx, u.b.o.Parallel, 0)
	defer pool.Close()
	for {
		if len(u.blocks) == maxBlocks {
			err = fmt.Errorf("%w: the body has more than %d blocks of %d bytes; give the length of the body, or a larger block size", store.ErrTooLarge, maxBlocks, size)
			break
		}
		u.sum.Write(block)
		id, read := u.add(int64(len(block))), block
		pool.Go(0, func(ctx context.Context) error { return u.stage(ctx, id, read) })
		if end || !pool.WaitRoom(0) {
			break
		}
		block, err = readBlock(body, size, size)
		if end = err == io.EOF; end {
			err = nil
		}
		if err != nil || end && len(block) == 0 {
			break
		}
	}
	if err != nil {
		pool.Stop(err, true)
	}
	return cmp.Or(pool.Wait(), err)
}

// stage sends one block. It may be repeated: nothing else has the name of the block.
func (u *upload) stage(ctx context.Context, id string, block []byte) error {
	sum := md5.Sum(block)
	err := u.b.repeat(ctx, func() error {
		_, _, err := do(ctx, u.b, u.b.timeoutFor(len(block)), func(ctx context.Context) (blockblob.StageBlockResponse, error) {
			return u.b.client.NewBlockBlobClient(u.key).StageBlock(ctx, id, streaming.NopCloser(bytes.NewReader(block)), &blockblob.StageBlockOptions{
				TransactionalValidation: blob.TransferValidationTypeMD5(sum[:]),
			})
		})
		return err
	})
	if err == nil {
		u.stored(int64(len(block)))
	}
	return err
}

// commit makes the blob of the blocks. A commit without a condition may be repeated: a write of another client
// would have removed the blocks.
func (u *upload) commit(ctx context.Context, c condition, h *blob.HTTPHeaders, metadata map[string]string) (object.Info, error) {
	return u.b.write(ctx, u.key, c, u.size, u.b.timeoutFor(64*len(u.blocks)), func(ctx context.Context) (*azcore.ETag, error) {
		out, err := u.b.client.NewBlockBlobClient(u.key).CommitBlockList(ctx, u.blocks, &blockblob.CommitBlockListOptions{
			Metadata: encodeMetadata(metadata), HTTPHeaders: h, AccessConditions: c.headers(),
		})
		return out.ETag, err
	})
}

// Delete implements [object.Bucket].
func (b *Bucket) Delete(ctx context.Context, key string, opts *object.DeleteOptions) error {
	o, err := object.CheckDelete(key, opts)
	if err = checkCall(ctx, err, key, o.IfMatch); err != nil {
		return b.opError("delete", key, err)
	}
	c := condition{ifMatch: o.IfMatch}
	send := func() error {
		_, _, err := do(ctx, b, b.o.Timeout, func(ctx context.Context) (blob.DeleteResponse, error) {
			return b.client.NewBlobClient(key).Delete(ctx, &blob.DeleteOptions{AccessConditions: c.headers()})
		})
		return err
	}
	ability := object.DeleteIfMatch
	if o.OrAbsent {
		ability = object.DeleteOrAbsent
	}
	if !c.any() {
		err = b.repeat(ctx, send)
	} else if err = b.require(ctx, ability); err == nil {
		err = send()
	}
	if o.OrAbsent && errors.Is(err, store.ErrConflict) {
		// Azurite does not say whether there is another state or none.
		if _, _, now := b.stat(ctx, key); errors.Is(now, store.ErrNotFound) {
			err = nil
		}
	}
	if errors.Is(err, store.ErrNotFound) && (!c.any() || o.OrAbsent) {
		err = nil
	}
	return b.opError("delete", key, about(key, c, err))
}
