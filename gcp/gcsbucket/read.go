package gcsbucket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/storage"
	"google.golang.org/api/iterator"

	"github.com/holdfast-go/holdfast/internal/drivers/slowbody"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

// minReadRate is how fast the body of an answer has to come on average, in bytes a second, when more
// than the time limit was spent in reading it.
const minReadRate = 16 << 10

// generation returns the number of a version; false if no state has this version.
func generation(v object.Version) (int64, bool) {
	n, err := strconv.ParseInt(string(v), 10, 64)
	return n, err == nil && n > 0 && strconv.FormatInt(n, 10) == string(v)
}

// checkCall returns the error of an earlier check, a conflict if one of the versions cannot be a
// generation, or the error of the context.
func checkCall(ctx context.Context, err error, key string, versions ...object.Version) error {
	if err == nil && (key == "." || key == ".." || strings.ContainsAny(key, "\r\n") || strings.HasPrefix(key, ".well-known/acme-challenge/")) {
		err = fmt.Errorf("%w: Google Cloud Storage does not allow the key %q", store.ErrKey, key)
	}
	for _, v := range versions {
		if _, ok := generation(v); err == nil && v != "" && !ok {
			err = fmt.Errorf("%w: %q is not a generation of Google Cloud Storage", &object.ConflictError{Key: key}, v)
		}
	}
	return cmp.Or(err, store.CheckContext(ctx))
}

// about puts the key into an error of a call whose condition did not hold. 404 means that the object
// which the condition names is not there.
func about(key string, ifMatch object.Version, err error) error {
	switch {
	case store.InDoubt(err): // this call may have caused the conflict: an earlier try was lost
		return err
	case errors.Is(err, store.ErrConflict):
		return &object.ConflictError{Key: key}
	case errors.Is(err, store.ErrNotFound) && ifMatch != "":
		return &object.ConflictError{Key: key, HasCurrent: true}
	}
	return err
}

// errNotThisService is the error for an answer without a generation.
var errNotThisService = wrong("the reply has no generation, so another service sent it; check the address of the endpoint, and whether a proxy answers in its place")

// ReadAll implements [object.WholeReader]. If an answer ends too early or has another CRC32C, ReadAll
// starts again.
func (b *Bucket) ReadAll(ctx context.Context, key string, limit int64, opts *object.GetOptions) (body []byte, info object.Info, err error) {
	once := *b
	once.once = true
	err = b.repeat(ctx, func() (err error) {
		body, info, err = object.ReadBody(ctx, &once, key, limit, opts)
		return err
	})
	return body, info, err
}

// Get implements [object.Bucket].
func (b *Bucket) Get(ctx context.Context, key string, opts *object.GetOptions) (*object.Reader, error) {
	o, err := object.CheckGet(key, opts)
	if err = checkCall(ctx, err, key, o.IfMatch); err != nil {
		return nil, b.opError(store.OpGet, key, err)
	}
	r, err := b.get(ctx, key, o)
	return r, b.opError(store.OpGet, key, about(key, o.IfMatch, err))
}

// get reads an object. Only a request for the metadata can have the condition that the state has
// changed. The body is then that of the state which the metadata have shown.
func (b *Bucket) get(ctx context.Context, key string, o object.GetOptions) (r *object.Reader, err error) {
	seen, ok := generation(o.IfChanged)
	for try := 1; ; try++ {
		if ok {
			info, err := b.stat(ctx, key, &storage.Conditions{GenerationNotMatch: seen})
			if err == nil && info.Version == o.IfChanged { // not every server checks the condition
				err = object.ErrNotChanged
			}
			if err != nil {
				return nil, err
			}
			o.IfMatch = info.Version
		}
		err = b.repeat(ctx, func() (err error) {
			r, err = b.getOnce(ctx, key, o)
			return err
		})
		if errors.Is(err, object.ErrRange) && o.Offset == 0 && o.Length > 0 {
			o.Length = 0 // of an empty body not even the beginning can be asked for
			r, err = b.getOnce(ctx, key, o)
		}
		faster := errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrNotFound)
		if !ok || !faster || try == tries {
			return r, err
		}
	}
}

func (b *Bucket) getOnce(ctx context.Context, key string, o object.GetOptions) (_ *object.Reader, err error) {
	c := &call{ctx: ctx}
	if err := store.CheckContext(ctx); err != nil {
		return nil, err
	}
	body := slowbody.New(context.WithValue(ctx, callKey{}, c), b.o.Timeout, engine.Share(ctx, b.o.Timeout), errTimeout, minReadRate, func(_ context.Context, err error) error {
		if ctx.Err() != nil {
			return c.ended()
		}
		return fmt.Errorf("%w: cannot read the body of the answer: %s", store.ErrUnavailable, c.text(err))
	})
	defer func() {
		if err != nil {
			body.Close()
		}
	}()
	cond, _ := conditions(false, o.IfMatch, "", "")
	handle := b.handle(key, cond).ReadCompressed(true) // as the writer has written it
	r, err := handle.NewRangeReader(body.Context, o.Offset, cmp.Or(o.Length, -1))
	if err != nil {
		return nil, c.classify(err)
	}
	body.Begin(r)
	info := object.Info{
		Key:         key,
		Version:     versionOf(r.Attrs.Generation),
		Size:        r.Attrs.Size,
		Modified:    r.Attrs.LastModified,
		Now:         c.now(),
		ContentType: r.Attrs.ContentType,
		Headers: object.Headers{
			CacheControl: written(r.Attrs.CacheControl), ContentDisposition: c.header("Content-Disposition"),
			ContentEncoding: r.Attrs.ContentEncoding, ContentLanguage: c.header("Content-Language"),
		},
		Metadata: lower(r.Metadata()),
	}
	switch {
	case info.Version == "":
		err = errNotThisService
	case o.IfMatch != "" && info.Version != o.IfMatch: // not every server checks the condition
		err = &object.ConflictError{Key: key, HasCurrent: true, Version: info.Version}
	case r.Attrs.StartOffset != o.Offset:
		err = store.MarkNotApplied(fmt.Errorf("%w: the server ignores ranges", errors.ErrUnsupported))
	}
	if err != nil {
		return nil, err
	}
	return &object.Reader{ReadCloser: body, Info: info}, nil
}

// written removes the values that the service sends for objects without their own.
func written(cacheControl string) string {
	if cacheControl == "private, max-age=0" || cacheControl == "public, max-age=3600" {
		return ""
	}
	return cacheControl
}

// lower returns metadata with the names as [object.CheckMetadata] demands them: HTTP does not keep
// upper case.
func lower(metadata map[string]string) map[string]string {
	var all map[string]string
	for name, value := range metadata {
		if all == nil {
			all = make(map[string]string)
		}
		all[strings.ToLower(name)] = value
	}
	return all
}

// versionOf returns a generation as a version; empty if there is none.
func versionOf(generation int64) object.Version {
	if generation <= 0 {
		return ""
	}
	return object.Version(strconv.FormatInt(generation, 10))
}

// Stat implements [object.Bucket].
func (b *Bucket) Stat(ctx context.Context, key string) (object.Info, error) {
	err := checkCall(ctx, object.CheckKey(key), key)
	var info object.Info
	if err == nil {
		info, err = b.stat(ctx, key, nil)
	}
	return info, b.opError("stat", key, err)
}

func (b *Bucket) stat(ctx context.Context, key string, cond *storage.Conditions) (info object.Info, err error) {
	err = b.repeat(ctx, func() error {
		attrs, c, err := do(ctx, b, b.o.Timeout, b.handle(key, cond).Attrs)
		if err == nil {
			info, err = infoOf(key, attrs, c)
		}
		return err
	})
	return info, err
}

// infoOf describes an object by what the server has answered.
func infoOf(key string, attrs *storage.ObjectAttrs, c *call) (object.Info, error) {
	if attrs == nil || attrs.Generation <= 0 || attrs.Name != key {
		return object.Info{}, store.MarkUnknown(errNotThisService)
	}
	return object.Info{
		Key:         key,
		Version:     versionOf(attrs.Generation),
		Size:        attrs.Size,
		Modified:    attrs.Updated.Truncate(time.Second), // as Get returns it
		Now:         c.now(),
		ContentType: attrs.ContentType,
		Headers: object.Headers{
			CacheControl: written(attrs.CacheControl), ContentDisposition: attrs.ContentDisposition,
			ContentEncoding: attrs.ContentEncoding, ContentLanguage: attrs.ContentLanguage,
		},
		Metadata: lower(attrs.Metadata),
	}, nil
}

// List implements [object.Bucket]. It needs memory for one page of up to 1,000 objects.
func (b *Bucket) List(ctx context.Context, prefix string, opts *object.ListOptions) iter.Seq2[object.Info, error] {
	return b.list(ctx, prefix, cmp.Or(opts, &object.ListOptions{}).After, "")
}

// ListDir implements [object.DirLister]: the server omits the lower levels.
func (b *Bucket) ListDir(ctx context.Context, prefix string) iter.Seq2[object.Info, error] {
	return b.list(ctx, prefix, "", "/")
}

const (
	pageSize      = 1000
	maxEmptyPages = 1000
)

func (b *Bucket) list(ctx context.Context, prefix, after, delimiter string) iter.Seq2[object.Info, error] {
	return func(yield func(object.Info, error) bool) {
		query := &storage.Query{Prefix: prefix, StartOffset: after, Delimiter: delimiter, Projection: storage.ProjectionNoACL}
		err := query.SetAttrSelection([]string{"Name", "Generation", "Size", "Updated"})
		seen, token, empty := "", "", 0
		for err == nil {
			var page []*storage.ObjectAttrs
			var next string
			var c *call
			err = b.repeat(ctx, func() (err error) {
				next, c, err = do(ctx, b, b.o.Timeout, func(ctx context.Context) (string, error) {
					page = nil
					return iterator.NewPager(b.bucket.Objects(ctx, query), pageSize, token).NextPage(&page)
				})
				return noBucket(err)
			})
			if err != nil {
				break
			}
			for _, attrs := range page {
				info := object.Info{Key: cmp.Or(attrs.Prefix, attrs.Name)}
				if attrs.Prefix == "" {
					info.Version, info.Size, info.Modified, info.Now = versionOf(attrs.Generation), attrs.Size, attrs.Updated.Truncate(time.Second), c.now()
				}
				// The service begins at After itself, and not every server knows how to begin there.
				if (after == "" || info.Key > after) && strings.HasPrefix(info.Key, prefix) && !yield(info, nil) {
					return
				}
			}
			if empty++; len(page) > 0 {
				empty = 0
			}
			if next == "" {
				return
			}
			if next == seen || next == token || empty > maxEmptyPages {
				err = wrong("the listing does not end: the server sent a page again, or %d empty pages", maxEmptyPages)
			}
			seen, token = token, next
		}
		yield(object.Info{}, b.opError(store.OpList, prefix, err))
	}
}
