package objects

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/cmd/internal/transfer"
	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// uploadsDir is the directory, below the directory of this user's locks, in which put
// remembers incomplete uploads. put ignores files there that another user could have
// written.
const uploadsDir = "uploads"

// keepFrom is the smallest size, in bytes, of a file whose interrupted upload is kept, so
// that a later put can continue it. Its parts cost money until then.
const keepFrom = 32 << 20

// maxUpload is the largest record of an upload that is read, in bytes.
const maxUpload = 64 << 10

// rememberedUpload is where put remembers the upload of a file. There is one for each
// combination of a file in its present state, an object, and what is kept with the
// object.
type rememberedUpload struct{ dir, name string }

func rememberUpload(b stores.Bucket, key string, src *transfer.Source, o *object.WriteOptions) (rememberedUpload, error) {
	base, err := stores.DefaultDir()
	if err != nil {
		return rememberedUpload{}, err
	}
	path, err := filepath.Abs(src.Name)
	if err != nil {
		return rememberedUpload{}, err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %d %d %q %q %q %v", b.ID(), key, path, src.Size, src.Info.ModTime().UnixNano(), o.ContentType, o.Headers, o.Metadata, o.Fence))
	return rememberedUpload{filepath.Join(base, uploadsDir), hex.EncodeToString(sum[:])}, nil
}

// get returns the remembered upload.
func (r rememberedUpload) get() (u object.Upload, ok bool) {
	dir, err := safefile.OpenPrivateDir(r.dir)
	if err != nil {
		return u, false
	}
	defer dir.Close()
	text, err := dir.ReadFile(r.name, maxUpload)
	return u, err == nil && json.Unmarshal(text, &u) == nil && u.ID != ""
}

// put remembers an upload. If that fails, no later command can continue the upload.
func (r rememberedUpload) put(u object.Upload) error {
	text, err := json.Marshal(u)
	if err != nil {
		return err
	}
	dir, err := safefile.MakePrivateDir(r.dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Replace(r.name, ".new-", 0o600, text)
}

// upload puts a file. If the bucket uploads the file in parts, and the upload is
// interrupted, the error says how to continue. If an earlier upload of this file was
// interrupted, upload continues it.
func (a *access) upload(ctx context.Context, b stores.Bucket, key string, src *transfer.Source, o *object.WriteOptions, bar *output.Bar) (object.Info, error) {
	uploader, inParts := object.As[object.Uploader](b.Bucket())
	if src.File == nil || src.Size < keepFrom || !inParts {
		return b.Put(ctx, key, src.Reader, o)
	}
	r, err := rememberUpload(b, key, src, o)
	if err != nil {
		return b.Put(ctx, key, src.Reader, o)
	}
	var kept error
	o.OnUpload = func(u object.Upload) { kept = r.put(u) }
	var info object.Info
	u, resumes := r.get()
	if resumes {
		_, _, err := uploader.LastPart(ctx, u)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return object.Info{}, store.MarkNotApplied(err)
		}
		resumes = err == nil
	}
	if resumes {
		a.Notef("continuing the interrupted upload")
		on := *o // the upload began with these options already
		on.ContentType, on.Headers, on.Metadata, on.Fence = "", object.Headers{}, nil, nil
		bar.Resume()
		info, err = b.Resume(ctx, u, src.Reader, &on)
	} else {
		info, err = b.Put(ctx, key, src.Reader, o)
	}
	var unfinished *object.UnfinishedError
	if !errors.As(err, &unfinished) {
		_ = os.Remove(filepath.Join(r.dir, r.name))
		return info, err
	}
	if kept == nil {
		err = &store.OpError{Op: "put", Key: key, Err: unfinished.Err}
		return info, &unfinishedError{err, "the same command continues from there; or holdfast object sweep removes the stored parts, which cost money"}
	}
	// The upload cannot be continued: leave no parts that cost money.
	abortErr := uploader.AbortUpload(context.WithoutCancel(ctx), unfinished.Upload)
	return info, errors.Join(err, kept, abortErr)
}

// unfinishedError is an interrupted transfer, and how the user can continue it.
type unfinishedError struct {
	error
	goOn string
}

func (e *unfinishedError) Unwrap() error { return e.error }
