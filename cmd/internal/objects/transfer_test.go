package objects

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/cmd/internal/transfer"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/store"
)

// failing is a bucket whose reads fail after some bytes; negative means never.
type failing struct {
	object.Bucket
	mu         sync.Mutex
	left, sent int
}

// take returns how many of n bytes may be read; negative means that reads fail.
func (f *failing) take(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.left == 0:
		return -1
	case f.left > 0:
		n = min(n, f.left)
		f.left -= n
	}
	f.sent += n
	return n
}

func (f *failing) set(left int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left, f.sent = left, 0
}

func (f *failing) Get(ctx context.Context, key string, opts *object.GetOptions) (*object.Reader, error) {
	if f.take(0) < 0 {
		return nil, &store.OpError{Op: "get", Key: key, Err: store.ErrUnavailable}
	}
	r, err := f.Bucket.Get(ctx, key, opts)
	if err == nil {
		r.ReadCloser = io.NopCloser(&failingBody{r.ReadCloser, f})
	}
	return r, err
}

func (f *failing) Unwrap() object.Bucket { return f.Bucket }

type failingBody struct {
	io.Reader
	f *failing
}

// Read reads whole blocks, so that what is taken is what is read.
func (b *failingBody) Read(p []byte) (int, error) {
	n := b.f.take(min(len(p), 16<<10))
	if n < 0 {
		return 0, store.ErrUnavailable
	}
	return b.Reader.Read(p[:n])
}

// After an interrupted transfer of a large object, the next get continues it, if the object
// is in the same state. Until the transfer is complete, the file keeps its old content.
func TestGetGoesOn(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789abcdef"), 12<<16) // 12 MiB
	other := bytes.Repeat([]byte("fedcba9876543210"), 10<<16)
	for _, c := range []struct {
		name    string
		between func(t *testing.T, b object.Bucket, dir string)
		want    []byte
		whole   bool // nothing of what was kept can be used
	}{
		{"the same object", func(*testing.T, object.Bucket, string) {}, large, false},
		{"another state", func(t *testing.T, b object.Bucket, _ string) {
			if _, err := b.Put(t.Context(), "k", bytes.NewReader(other), nil); err != nil {
				t.Fatal(err)
			}
		}, other, true},
		{"a part that others can write", func(t *testing.T, _ object.Bucket, dir string) {
			if err := os.Chmod(partIn(t, dir), 0o622); err != nil {
				t.Fatal(err)
			}
		}, large, true},
		{"a part that is a link", func(t *testing.T, _ object.Bucket, dir string) {
			name := partIn(t, dir)
			if err := errors.Join(os.Rename(name, name+".real"), os.Symlink(filepath.Base(name)+".real", name)); err != nil {
				t.Fatal(err)
			}
		}, large, true},
		{"a part that was shortened", func(t *testing.T, _ object.Bucket, dir string) {
			name := partIn(t, dir)
			text, err := os.ReadFile(name)
			if err == nil {
				err = os.WriteFile(name, text[1:], 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, large, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "file")
			synctest.Test(t, func(t *testing.T) {
				b := &failing{Bucket: membucket.New(), left: -1}
				if _, err := b.Put(t.Context(), "k", bytes.NewReader(large), nil); err != nil {
					t.Fatal(err)
				}
				client, err := object.New(b, nil)
				if err != nil {
					t.Fatal(err)
				}
				a := &access{&cmdline.Invocation{Access: stores.Access{Printer: output.Printer{Stdout: io.Discard, Stderr: io.Discard}}}}
				get := func() error {
					return a.get(t.Context(), stores.Bucket{Client: client}, "k", object.GetOptions{}, file, true)
				}
				if err := os.WriteFile(file, []byte("old"), 0o640); err != nil {
					t.Fatal(err)
				}
				b.set(11 << 20)
				if err := get(); err == nil || !strings.Contains(err.Error(), "the same command continues from there") {
					t.Fatalf("it was cut: %v", err)
				}
				if text, err := os.ReadFile(file); string(text) != "old" {
					t.Errorf("the file is %.10q, %v", text, err)
				}
				if info, err := os.Stat(partIn(t, dir)); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("the part: %v, %v", info, err)
				}
				c.between(t, b.Bucket, dir)
				b.set(-1)
				if err := get(); err != nil {
					t.Fatal(err)
				}
				if got, err := os.ReadFile(file); !bytes.Equal(got, c.want) {
					t.Errorf("the file has %d other bytes, %v", len(got), err)
				}
				if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o640 {
					t.Errorf("the file: %v, %v", info, err)
				}
				if sent := b.sent; c.whole != (sent >= len(c.want)) {
					t.Errorf("%d bytes were read again", sent)
				}
				if names, err := filepath.Glob(dir + "/.holdfast-get-*"); err != nil || len(names) > 0 {
					t.Errorf("left behind: %q, %v", names, err)
				}
			})
		})
	}
}

// partIn returns the path of the part that was kept in a directory.
func partIn(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(dir + "/.holdfast-part-*")
	if err != nil || len(names) != 1 {
		t.Fatalf("kept: %q, %v", names, err)
	}
	return names[0]
}

// After an interrupted upload of a large file, the next put continues it, and does not send
// again what the store has. It starts again if the file has changed or the upload no longer exists.
func TestPutGoesOn(t *testing.T) {
	for _, c := range []struct {
		name    string
		between func(t *testing.T, file string, b *s3bucket.Bucket)
		resumes bool
	}{
		{"the same file", func(*testing.T, string, *s3bucket.Bucket) {}, true},
		{"a file that was changed", func(t *testing.T, file string, _ *s3bucket.Bucket) {
			if err := os.Truncate(file, keepFrom+1); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"an upload that is gone", func(t *testing.T, _ string, b *s3bucket.Bucket) {
			for u, err := range b.Uploads(t.Context(), "") {
				if err == nil {
					err = b.AbortUpload(t.Context(), u)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			base := filepath.Join(dir, "holdfast")
			ownState(t, base)
			remembered := func() []string {
				names, err := filepath.Glob(filepath.Join(base, uploadsDir, "*"))
				if err != nil {
					t.Fatal(err)
				}
				return names
			}
			file := filepath.Join(dir, "large")
			if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, keepFrom+5)); err != nil {
				t.Fatal(err)
			}
			stand := awstest.NewS3("bucket")
			in, err := s3bucket.New(stand.Client(), "bucket", nil)
			if err != nil {
				t.Fatal(err)
			}
			client, err := object.New(in, &object.Options{Abilities: map[object.Ability]bool{object.PartsIfAbsent: true, object.PutIfAbsent: true}})
			if err != nil {
				t.Fatal(err)
			}
			a := &access{&cmdline.Invocation{Access: stores.Access{Printer: output.Printer{Stdout: io.Discard, Stderr: io.Discard}}}}
			put := func() error {
				src, err := transfer.OpenSource(t.Context(), a.Stdin, file, -1)
				if err != nil {
					return err
				}
				defer src.Close()
				_, err = a.upload(t.Context(), stores.Bucket{Client: client}, "k", src, &object.WriteOptions{Length: src.Size}, nil)
				return err
			}
			stand.AddWhen(func(r awstest.Request) bool { return r.Op == "UploadPart" }, 3, 1, awstest.Fault{Status: 403, Code: "AccessDenied"})
			err = put()
			var unfinished *unfinishedError
			if !errors.As(err, &unfinished) {
				t.Fatalf("it was cut: %v", err)
			}
			if kept := a.cut(err, 24<<20, keepFrom+5).Error(); !strings.Contains(kept, "after 24.0 MiB of 32.0 MiB: the same command continues from there") {
				t.Errorf("it says %s", kept)
			}
			c.between(t, file, in)
			stand.Reset()
			if err := put(); err != nil {
				t.Fatal(err)
			}
			sent := 0
			for _, op := range stand.Ops() {
				if op == "UploadPart" {
					sent++
				}
			}
			if c.resumes != (sent < 4) {
				t.Errorf("%d parts were sent: %q", sent, stand.Ops())
			}
			if !c.resumes != slices.Contains(stand.Ops(), "CreateMultipartUpload") {
				t.Errorf("requests: %q", stand.Ops())
			}
			info, err := client.Stat(t.Context(), "k")
			if size, _ := os.Stat(file); err != nil || info.Size != size.Size() {
				t.Errorf("%+v, %v", info, err)
			}
			if names := remembered(); c.resumes && len(names) > 0 {
				t.Errorf("left behind: %q", names)
			}
		})
	}
}

// replaced is a bucket whose object another writer replaces in the middle of a download, so
// many times.
type replaced struct {
	object.Bucket
	mu    sync.Mutex
	times int
	begun int
	body  []byte
}

func (r *replaced) Get(ctx context.Context, key string, opts *object.GetOptions) (*object.Reader, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if opts.IfMatch == "" {
		r.begun++
	} else if r.times > 0 {
		r.times--
		r.body[0]++
		if _, err := r.Put(ctx, key, bytes.NewReader(r.body), nil); err != nil {
			return nil, err
		}
	}
	return r.Bucket.Get(ctx, key, opts)
}

// A get of an object that is replaced meanwhile begins again, a few times, and writes one
// whole state; a get of one version does not.
func TestGetBeginsAgain(t *testing.T) {
	for _, c := range []struct {
		times, begun int
		fails        bool
	}{{0, 1, false}, {1, 2, false}, {restarts, restarts + 1, false}, {restarts + 1, restarts + 1, true}} {
		b := &replaced{Bucket: membucket.New(), body: make([]byte, 8<<20+1)}
		if _, err := b.Put(t.Context(), "k", bytes.NewReader(b.body), nil); err != nil {
			t.Fatal(err)
		}
		client, err := object.New(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		first, err := client.Stat(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		b.times = c.times
		a := &access{&cmdline.Invocation{Access: stores.Access{Printer: output.Printer{Stdout: io.Discard, Stderr: io.Discard}}}}
		file := filepath.Join(t.TempDir(), "file")
		err = a.get(t.Context(), stores.Bucket{Client: client}, "k", object.GetOptions{}, file, true)
		got, readErr := os.ReadFile(file)
		if c.fails != errors.Is(err, store.ErrConflict) || !c.fails && (err != nil || !bytes.Equal(got, b.body)) || c.fails && readErr == nil || b.begun != c.begun {
			t.Errorf("replaced %d times: %v, begun %d times; the file has %d bytes, %v", c.times, err, b.begun, len(got), readErr)
		}
		if c.times == 0 {
			continue
		}
		b.begun = 0
		if err := a.get(t.Context(), stores.Bucket{Client: client}, "k", object.GetOptions{IfMatch: first.Version}, file, true); !errors.Is(err, store.ErrConflict) || b.begun != 0 {
			t.Errorf("of a version that was replaced: %v", err)
		}
	}
}

// ownState makes this test remember uploads in a directory of its own.
func ownState(t *testing.T, dir string) {
	t.Setenv("XDG_STATE_HOME", filepath.Dir(dir))
	was := stores.RootState
	t.Cleanup(func() { stores.RootState = was })
	stores.RootState = dir
}
