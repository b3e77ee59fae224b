package azblobbucket

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"

	"github.com/holdfast-go/holdfast/internal/drivers/secrettext"
	"github.com/holdfast-go/holdfast/internal/workerpool"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// sourceLifetime is how long the signature for the source of a copy is valid. The clocks may differ.
const sourceLifetime = time.Hour

// longTimeout bounds a request for which the server itself copies a block.
const longTimeout = 5 * time.Minute

// Copy implements [object.Copier]. All blocks of the copy are of the state of the source that Copy finds first.
func (b *Bucket) Copy(ctx context.Context, source, destination string, opts *object.CopyOptions) (object.Info, error) {
	o, err := object.CheckCopy(source, destination, opts)
	if err == nil {
		err = checkKey(destination)
	}
	if err = checkCall(ctx, err, source, o.SourceIfMatch, o.IfMatch); err == nil {
		var info object.Info
		if info, err = b.copy(ctx, source, destination, o); err == nil {
			return info, nil
		}
	}
	return object.Info{}, b.opError("copy", source, err)
}

func (b *Bucket) copy(ctx context.Context, source, destination string, o object.CopyOptions) (object.Info, error) {
	c := condition{o.IfAbsent, o.IfMatch}
	err := b.require(ctx, c.of(object.CopyIfAbsent, object.CopyIfMatch))
	if err == nil && o.SourceIfMatch != "" {
		err = b.require(ctx, object.CopySource)
	}
	if err != nil {
		return object.Info{}, err
	}
	from, sum, err := b.stat(ctx, source)
	absent := errors.Is(err, store.ErrNotFound)
	switch {
	case absent && o.SourceIfMatch == "":
		return object.Info{}, store.MarkNotApplied(fmt.Errorf("%q: %w", source, err))
	case err != nil && !absent:
		return object.Info{}, store.MarkNotApplied(err)
	case o.SourceIfMatch != "" && from.Version != o.SourceIfMatch:
		return object.Info{}, &object.ConflictError{Key: source, HasCurrent: true, Version: from.Version}
	}
	if o.Metadata == nil {
		o.Metadata, o.ContentType, o.Headers = from.Metadata, from.ContentType, from.Headers
	}
	u := newUpload(b, destination)
	u.progress, u.total = o.Progress, from.Size
	if err := u.copyFrom(ctx, from); err != nil {
		if errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrNotFound) {
			err = &object.ConflictError{Key: source} // the source has changed since
		}
		return object.Info{}, store.MarkNotApplied(err)
	}
	info, err := u.commit(ctx, c, httpHeaders(o.ContentType, o.Headers, sum), o.Metadata)
	return info, about(destination, c, err)
}

// copyFrom lets the server make all blocks from one state of the source. An empty source has no block.
func (u *upload) copyFrom(ctx context.Context, from object.Info) error {
	source, token, err := u.b.sourceURL(ctx, from.Key)
	if err != nil {
		return err
	}
	secrets := sourceSecrets(source, token)
	size := max(u.b.o.CopyBlockSize, (from.Size+maxBlocks-1)/maxBlocks)
	pool := workerpool.New(ctx, u.b.o.Parallel, 0)
	defer pool.Close()
	for at := int64(0); at < from.Size && pool.WaitRoom(0); at += size {
		part := blob.HTTPRange{Offset: at, Count: min(size, from.Size-at)}
		id := u.add(part.Count)
		pool.Go(0, func(ctx context.Context) error {
			err := u.b.repeat(ctx, func() error {
				_, _, err := do(ctx, u.b, longTimeout, func(ctx context.Context) (blockblob.StageBlockFromURLResponse, error) {
					return u.b.client.NewBlockBlobClient(u.key).StageBlockFromURL(ctx, id, source, &blockblob.StageBlockFromURLOptions{
						Range: part, CopySourceAuthorization: token,
						SourceModifiedAccessConditions: &blob.SourceModifiedAccessConditions{SourceIfMatch: etag(from.Version)},
					})
				})
				return err
			})
			var failed *Error
			if errors.As(err, &failed) {
				failed.text = secrettext.Hide(failed.text, secrets)
			}
			if failed != nil && failed.Code == "CannotVerifyCopySource" {
				// The source was there a moment ago.
				if _, _, now := u.b.stat(ctx, from.Key); errors.Is(now, store.ErrNotFound) {
					err = now
				}
			}
			if err == nil {
				u.stored(part.Count)
			}
			return err
		})
	}
	return pool.Wait()
}

// sourceSecrets returns the secrets with which the server reads the source of a copy.
func sourceSecrets(source string, token *string) (secrets []string) {
	if u, err := url.Parse(source); err == nil {
		secrets = sasSecrets(u.RawQuery)
	}
	if token != nil {
		secrets = append(secrets, strings.TrimPrefix(*token, "Bearer "))
	}
	return secrets
}

// sourceURL returns a URL with which the server may read a blob, or the URL and a token.
func (b *Bucket) sourceURL(ctx context.Context, key string) (url string, token *string, err error) {
	from := b.client.NewBlobClient(key)
	if b.o.Credential != nil {
		t, err := b.o.Credential.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{"https://storage.azure.com/.default"}})
		if err != nil {
			return "", nil, b.unanswered(ctx, err)
		}
		bearer := "Bearer " + t.Token
		return from.URL(), &bearer, nil
	}
	expiry, may := time.Now().Add(sourceLifetime), sas.BlobPermissions{Read: true}
	if b.o.key == nil {
		if url, err = from.GetSASURL(may, expiry, nil); err != nil {
			url = from.URL() // it has its own SAS token, or is public
		}
		return url, nil, nil
	}
	// The SDK would look for the name of the container in the wrong place, if the account is in the path.
	signed, err := sas.BlobSignatureValues{
		ContainerName: b.container, BlobName: key, Permissions: may.String(), ExpiryTime: expiry.UTC(),
	}.SignWithSharedKey(b.o.key)
	if err != nil {
		return "", nil, b.fail(store.ErrMisconfigured, store.NotApplied, "the source of the copy cannot be signed")
	}
	return from.URL() + "?" + signed.Encode(), nil, nil
}
