package largeitem

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"os"
	"reflect"
	"strings"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// Large contains the contents of large attributes, by name.
type Large map[string]Source

// Source is the content of a large attribute, and its options.
type Source struct {
	// The store reads Body to its end. Only one goroutine at a time reads Body, and none after the
	// call has returned. If Body is an [io.ReadSeeker] that can seek, the store reads it from its
	// current position. The store can then read Body a second time: to notice that the content is
	// unchanged, or to repeat an upload. The bytes must not change during the call.
	Body io.Reader

	// Size is the size of the content in bytes; 0 means that the caller does not know the size. If
	// Body has another size, the write fails with [ErrInvalid].
	Size int64

	// ContentType is a MIME type; empty means application/octet-stream.
	ContentType string

	// Headers are HTTP headers that the bucket sends with the object. If the content is unchanged,
	// the store does not upload it, and the object keeps its old headers; see ForceUpload.
	Headers object.Headers

	// StorageClass and Tags are described at [object.PutOptions]. If the content is unchanged, the
	// store does not upload it, and the object keeps its old class and tags; see ForceUpload. If
	// the bucket has no classes or tags, the error is an [object.UnsupportedError], and nothing is
	// written.
	StorageClass string
	Tags         map[string]string

	// ForceUpload uploads the content even if the item already refers to the same content. It
	// repairs an item whose object is missing or damaged.
	ForceUpload bool

	// Metadata is stored with the object, together with the metadata of the layout. Both together
	// have at most [object.MaxMetadata] bytes.
	Metadata map[string]string
}

// Bytes returns a source with these bytes. The bytes must not change until the write has returned.
func Bytes(content []byte) Source { return Source{Body: bytes.NewReader(content)} }

// Text returns a source with this text.
func Text(content string) Source { return Source{Body: strings.NewReader(content)} }

// body is a source of one call.
type body struct {
	attr   string
	src    Source
	seeker io.Seeker // nil if it can be read once only
	start  int64     // where the content begins
	size   int64     // -1 if it is not known
	sums   *sums     // nil until they are known
	read   bool
	spool  *os.File // nil if there is none
}

// newBody finds out what can be done with a source. It reads nothing of it.
func newBody(attr string, src Source) (*body, error) {
	b := &body{attr: attr, src: src, size: -1}
	if src.Body == nil {
		return nil, fmt.Errorf("%w: the large attribute %q has no Body; to remove the attribute, name the attribute in Change.Remove", ErrInvalid, attr)
	}
	if src.Size < 0 {
		return nil, fmt.Errorf("%w: the large attribute %q has a negative Size, %d", ErrInvalid, attr, src.Size)
	}
	if _, err := object.CheckPut("k", &object.PutOptions{Headers: src.Headers, StorageClass: src.StorageClass, Tags: src.Tags}, object.StorageClass, object.Tags); err != nil {
		return nil, fmt.Errorf("%w: the large attribute %q: %w", ErrInvalid, attr, err)
	}
	if src.Size > 0 {
		b.size = src.Size
	}
	seeker, ok := src.Body.(io.Seeker)
	if !ok {
		return b, nil
	}
	start, err := seeker.Seek(0, io.SeekCurrent)
	if err != nil {
		return b, nil // a pipe, for example
	}
	end, err := seeker.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = seeker.Seek(start, io.SeekStart)
	}
	if err != nil {
		return nil, store.MarkNotApplied(fmt.Errorf("the body of the large attribute %q: %w", attr, err))
	}
	size := max(0, end-start)
	if src.Size > 0 && src.Size != size {
		return nil, fmt.Errorf("%w: the body of the large attribute %q has %d bytes, but Size is %d", ErrInvalid, attr, size, src.Size)
	}
	b.seeker, b.start, b.size = seeker, start, size
	return b, nil
}

// newBodies makes the bodies of all sources.
func newBodies(large Large) (map[string]*body, error) {
	bodies := make(map[string]*body, len(large))
	for attr, src := range large {
		for other, b := range bodies {
			if sameReader(src.Body, b.src.Body) {
				return nil, fmt.Errorf("%w: the large attributes %q and %q have the same Body", ErrInvalid, attr, other)
			}
		}
		b, err := newBody(attr, src)
		if err != nil {
			return nil, err
		}
		bodies[attr] = b
	}
	return bodies, nil
}

// sameReader reports whether a and b are one reader. Readers without state never are.
func sameReader(a, b io.Reader) bool {
	v := reflect.ValueOf(a)
	return a != nil && v.Comparable() && v.Type().Size() > 0 && a == b
}

// again reports whether the content can be read once more.
func (b *body) again() bool { return b.seeker != nil || !b.read }

// open returns the content from its beginning.
func (b *body) open() (io.Reader, error) {
	if b.seeker != nil {
		if _, err := b.seeker.Seek(b.start, io.SeekStart); err != nil {
			return nil, fmt.Errorf("the body of the large attribute %q: %w", b.attr, err)
		}
	} else if b.read {
		return nil, fmt.Errorf("the body of the large attribute %q cannot be read again", b.attr)
	}
	b.read = true
	if b.size >= 0 && b.size < math.MaxInt64 {
		return io.LimitReader(b.src.Body, b.size+1), nil // enough to see that it is longer
	}
	return b.src.Body, nil
}

// hash reads the content to find out its hashes. A stream is kept meanwhile, in memory or
// in a file.
func (b *body) hash(ctx context.Context, withMD5 bool, memory int64, dir string) error {
	if b.sums != nil {
		return nil
	}
	r, err := b.open()
	if err != nil {
		return err
	}
	s := newSums(ctx, r, withMD5)
	if b.seeker == nil {
		err = b.keep(s, memory, dir)
	} else {
		_, err = io.CopyBuffer(onlyWriter{io.Discard}, s, make([]byte, copyBuffer))
	}
	if err == nil && b.size >= 0 && s.size != b.size {
		than := "fewer"
		if s.size > b.size {
			than = "more"
		}
		err = fmt.Errorf("%w: the body has %s bytes than Size says (%d)", ErrInvalid, than, b.size)
	}
	if err != nil {
		return fmt.Errorf("the body of the large attribute %q: %w", b.attr, err)
	}
	b.sums, b.size = s, s.size
	return nil
}

// keep reads a stream to its end, so that it can be read again.
func (b *body) keep(r io.Reader, memory int64, dir string) error {
	var small bytes.Buffer
	n, err := io.CopyBuffer(onlyWriter{&small}, io.LimitReader(r, memory), make([]byte, copyBuffer))
	if err != nil {
		return err
	}
	if n < memory {
		b.src.Body = bytes.NewReader(small.Bytes())
		b.seeker = b.src.Body.(io.Seeker)
		return nil
	}
	f, err := os.CreateTemp(dir, "holdfast-item-")
	if err != nil {
		return err
	}
	_ = os.Remove(f.Name()) // so that it does not outlive the process, where the system allows that
	b.spool = f
	if _, err := f.Write(small.Bytes()); err != nil {
		return err
	}
	if _, err := io.CopyBuffer(onlyWriter{f}, r, make([]byte, copyBuffer)); err != nil {
		return err
	}
	b.src.Body, b.seeker = f, f
	return nil
}

// close removes what keep has made.
func (b *body) close() {
	if b.spool != nil {
		_ = b.spool.Close()
		_ = os.Remove(b.spool.Name())
	}
}

// copyBuffer is what a copy holds in memory, in bytes.
const copyBuffer = 64 << 10

// onlyWriter hides all methods of a writer but Write, so that the size of the buffer is
// known.
type onlyWriter struct{ io.Writer }

// maxIdle is how often in a row a reader may return neither bytes nor an error.
const maxIdle = 100

// sums is a reader that computes the hashes of what it reads.
type sums struct {
	ctx    context.Context // of the call that reads; nil does not end
	r      io.Reader
	sha256 hash.Hash
	md5    hash.Hash // nil if it is not needed
	size   int64
	idle   int // reads in a row that returned nothing
	ended  bool
	want   *sums // what it must be in the end; nil if that is not known
}

func newSums(ctx context.Context, r io.Reader, withMD5 bool) *sums {
	s := &sums{ctx: ctx, r: r, sha256: sha256.New()}
	if withMD5 {
		s.md5 = md5.New()
	}
	return s
}

func (s *sums) Read(p []byte) (int, error) {
	if s.ctx.Err() != nil {
		return 0, store.Cause(s.ctx)
	}
	n, err := s.r.Read(p)
	switch {
	case n < 0 || n > len(p):
		return 0, fmt.Errorf("%w: the Body is faulty: Read was called for %d bytes, but returned %d", ErrInvalid, len(p), n)
	case n > 0 || err != nil || len(p) == 0:
		s.idle = 0
	default:
		if s.idle++; s.idle >= maxIdle {
			return 0, io.ErrNoProgress
		}
	}
	s.size += int64(n)
	s.sha256.Write(p[:n])
	if s.md5 != nil {
		s.md5.Write(p[:n])
	}
	if err == io.EOF {
		s.ended = true
		if s.want != nil && (s.size != s.want.size || !bytes.Equal(s.sha(), s.want.sha())) {
			return n, errChanged
		}
	}
	return n, err
}

var errChanged = store.MarkNotApplied(errors.New("the content of the Body has changed between two reads"))

func (s *sums) sha() []byte { return s.sha256.Sum(nil) }

func (s *sums) md5Sum() []byte {
	if s.md5 == nil {
		return nil
	}
	return s.md5.Sum(nil)
}

// metadata returns the metadata of an object: the layout's and the user's.
func (b *body) metadata(layout map[string]string) (map[string]string, error) {
	size := 0
	all := make(map[string]string)
	for name, value := range layout {
		all[name] = value
		size += len(name) + len(value)
	}
	for name, value := range b.src.Metadata {
		if _, ok := all[name]; ok {
			return nil, fmt.Errorf("%w: the metadata %q of the large attribute %q is reserved for the store; use another name", ErrInvalid, name, b.attr)
		}
		all[name] = value
	}
	if err := object.CheckMetadata(all); err != nil {
		return nil, fmt.Errorf("the metadata of the large attribute %q (the key and the name take %d bytes of it): %w", b.attr, size, err)
	}
	return all, nil
}
