package gcsbucket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/api/storage/v1"

	"github.com/holdfast-go/holdfast/internal/drivers/slowbody"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

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
			info, err := b.stat(ctx, key, seen)
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
	body := slowbody.New(context.WithValue(ctx, callKey{}, c), b.o.Timeout, engine.Share(ctx, b.o.Timeout), errTimeout, func(_ context.Context, err error) error {
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
	r, err := b.client.Do(b.readRequest(body.Context, key, o))
	if err != nil {
		return nil, c.classify(err)
	}
	body.Begin(checkedBody(r))
	if r.StatusCode/100 != 2 {
		return nil, c.classify(errors.New(r.Status))
	}
	n, _ := generation(object.Version(r.Header.Get("X-Goog-Generation")))
	info := object.Info{
		Key:         key,
		Version:     versionOf(n),
		Size:        r.ContentLength,
		Now:         c.now(),
		ContentType: r.Header.Get("Content-Type"),
		Headers: object.Headers{
			CacheControl: written(r.Header.Get("Cache-Control")), ContentDisposition: r.Header.Get("Content-Disposition"),
			ContentEncoding: r.Header.Get("Content-Encoding"), ContentLanguage: r.Header.Get("Content-Language"),
		},
		Metadata: metadata(r.Header),
	}
	if t := r.Header.Get("Last-Modified"); t != "" {
		if info.Modified, err = http.ParseTime(t); err != nil {
			return nil, c.classify(err)
		}
	}
	var first, last int64
	if r.StatusCode == http.StatusPartialContent {
		text := r.Header.Get("Content-Range")
		if _, err := fmt.Sscanf(text, "bytes %d-%d/%d", &first, &last, &info.Size); err != nil {
			return nil, c.classify(fmt.Errorf("the Content-Range %q is not valid", text))
		}
	}
	switch {
	case info.Version == "":
		err = errNotThisService
	case o.IfMatch != "" && info.Version != o.IfMatch: // not every server checks the condition
		err = &object.ConflictError{Key: key, HasCurrent: true, Version: info.Version}
	case first != o.Offset, o.Length > 0 && r.StatusCode != http.StatusPartialContent && info.Size > o.Length:
		err = store.MarkNotApplied(fmt.Errorf("%w: the server ignores ranges", errors.ErrUnsupported))
	}
	if err != nil {
		return nil, err
	}
	return &object.Reader{ReadCloser: body, Info: info}, nil
}

// readRequest returns the request for a body. It uses the XML API: in the JSON API, the answer has no metadata.
func (b *Bucket) readRequest(ctx context.Context, key string, o object.GetOptions) *http.Request {
	u := &url.URL{Scheme: b.endpoint.Scheme, Host: b.endpoint.Host, Path: "/" + b.name + "/" + key, RawPath: "/" + b.name + "/" + url.PathEscape(key)}
	r := (&http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}}).WithContext(ctx)
	r.Header.Set("Accept-Encoding", "gzip") // as the writer has written it
	switch {
	case o.Length > 0:
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", o.Offset, o.Offset+o.Length-1))
	case o.Offset > 0:
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", o.Offset))
	}
	if o.IfMatch != "" {
		r.Header.Set("X-Goog-If-Generation-Match", string(o.IfMatch))
	}
	if b.o.UserProject != "" {
		r.Header.Set("X-Goog-User-Project", b.o.UserProject)
	}
	return r
}

// checked is a whole body that is compared with its CRC32C.
type checked struct {
	io.ReadCloser
	sum  uint32
	want string
}

// checkedBody returns the body of an answer. The answer to a range has the CRC32C of the whole object, and so
// has the answer of a server that has decompressed the body.
func checkedBody(r *http.Response) io.ReadCloser {
	for _, hash := range r.Header.Values("X-Goog-Hash") {
		for part := range strings.SplitSeq(hash, ",") {
			want, ok := strings.CutPrefix(strings.TrimSpace(part), "crc32c=")
			decompressed := r.Header.Get("X-Goog-Stored-Content-Encoding") == "gzip" && r.Header.Get("Content-Encoding") != "gzip"
			if ok && r.StatusCode == http.StatusOK && !decompressed {
				return &checked{ReadCloser: r.Body, want: want}
			}
		}
	}
	return r.Body
}

func (c *checked) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.sum = crc32.Update(c.sum, castagnoli, p[:n])
	if got := sumText(c.sum); err == io.EOF && got != c.want {
		err = fmt.Errorf("the body has the CRC32C %s, and the object %s", got, c.want)
	}
	return n, err
}

// written removes the values that the service sends for objects without their own.
func written(cacheControl string) string {
	if cacheControl == "private, max-age=0" || cacheControl == "public, max-age=3600" {
		return ""
	}
	return cacheControl
}

// metadata returns the metadata of an answer. The names are as [object.CheckMetadata] demands them: HTTP does
// not keep upper case.
func metadata(h http.Header) map[string]string {
	all := make(map[string]string)
	for name, values := range h {
		if name, ok := strings.CutPrefix(name, "X-Goog-Meta-"); ok {
			all[name] = values[0]
		}
	}
	return lower(all)
}

// lower returns metadata with names in lower case, and nil if there are none.
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
		info, err = b.stat(ctx, key, 0)
	}
	return info, b.opError("stat", key, err)
}

// stat describes an object. If it still has the generation seen, the error is [object.ErrNotChanged]; 0 is no
// generation.
func (b *Bucket) stat(ctx context.Context, key string, seen int64) (info object.Info, err error) {
	err = b.repeat(ctx, func() error {
		attrs, c, err := do(ctx, b, b.o.Timeout, func(ctx context.Context) (*storage.Object, error) {
			get := b.service.Objects.Get(b.name, key).Projection("full").Context(ctx)
			if seen != 0 {
				get.IfGenerationNotMatch(seen)
			}
			return get.Do(b.options...)
		})
		if err == nil {
			info, err = infoOf(key, attrs, c)
		}
		return err
	})
	return info, err
}

// infoOf describes an object by what the server has answered.
func infoOf(key string, attrs *storage.Object, c *call) (object.Info, error) {
	if attrs == nil || attrs.Generation <= 0 || attrs.Name != key {
		return object.Info{}, store.MarkUnknown(errNotThisService)
	}
	return object.Info{
		Key:         key,
		Version:     versionOf(attrs.Generation),
		Size:        int64(attrs.Size),
		Modified:    modified(attrs),
		Now:         c.now(),
		ContentType: attrs.ContentType,
		Headers: object.Headers{
			CacheControl: written(attrs.CacheControl), ContentDisposition: attrs.ContentDisposition,
			ContentEncoding: attrs.ContentEncoding, ContentLanguage: attrs.ContentLanguage,
		},
		Metadata: lower(attrs.Metadata),
	}, nil
}

// modified returns the time of the last change, in whole seconds, as Get returns it; zero if there is none.
func modified(attrs *storage.Object) time.Time {
	t, _ := time.Parse(time.RFC3339, attrs.Updated)
	return t.Truncate(time.Second)
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
		var err error
		seen, token, empty := "", "", 0
		for err == nil {
			var page *storage.Objects
			var c *call
			err = b.repeat(ctx, func() (err error) {
				page, c, err = do(ctx, b, b.o.Timeout, func(ctx context.Context) (*storage.Objects, error) {
					return b.service.Objects.List(b.name).Prefix(prefix).StartOffset(after).Delimiter(delimiter).Projection("noAcl").MaxResults(pageSize).PageToken(token).
						Fields("nextPageToken", "prefixes", "items(name,generation,size,updated)").Context(ctx).Do(b.options...)
				})
				return noBucket(err)
			})
			if err != nil {
				break
			}
			infos := make([]object.Info, 0, len(page.Items)+len(page.Prefixes))
			for _, attrs := range page.Items {
				infos = append(infos, object.Info{Key: attrs.Name, Version: versionOf(attrs.Generation), Size: int64(attrs.Size), Modified: modified(attrs), Now: c.now()})
			}
			for _, dir := range page.Prefixes {
				infos = append(infos, object.Info{Key: dir})
			}
			for _, info := range infos {
				// The service begins at After itself, and not every server knows how to begin there.
				if (after == "" || info.Key > after) && strings.HasPrefix(info.Key, prefix) && !yield(info, nil) {
					return
				}
			}
			if empty++; len(infos) > 0 {
				empty = 0
			}
			next := page.NextPageToken
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
