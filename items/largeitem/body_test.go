package largeitem_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/items/largeitem"
)

// TestBodiesThatDoNotCompare: the store distinguishes two bodies without comparing what cannot be
// compared, and two empty bodies of a type without state are not one.
func TestBodiesThatDoNotCompare(t *testing.T) {
	w := newWorld(t, nil)
	body := func(text string) largeitem.Source {
		return largeitem.Source{Body: struct{ io.Reader }{readers{strings.NewReader(text)}}}
	}
	w.create(key("a"), nil, large{"x": body("1"), "y": body("2")})
	expectText(t, "readers in values", w.contents(key("a")), "item x=1 y=2")
	w.create(key("b"), nil, large{"x": {Body: http.NoBody}, "y": {Body: http.NoBody}})
	expectText(t, "no bodies", w.contents(key("b")), "item x= y=")
	same := struct{ io.Reader }{strings.NewReader("1")}
	if _, err := w.store.Create(t.Context(), key("c"), nil, large{"x": {Body: same}, "y": {Body: same}}, nil); !errors.Is(err, largeitem.ErrInvalid) {
		t.Errorf("one body for two attributes: %v", err)
	}
}

// readers is a reader of a type that cannot be compared.
type readers []io.Reader

func (r readers) Read(p []byte) (int, error) { return r[0].Read(p) }

// endless counts what is read of a body without an end.
type endless struct{ read int64 }

func (e *endless) Read(p []byte) (int, error) {
	if e.read += int64(len(p)); e.read > 100<<20 {
		return 0, errors.New("the test stops the reading")
	}
	return len(p), nil
}

// liar is a body without an end that says how many bytes it has. A device says none.
type liar struct {
	endless
	size int64
}

func (l *liar) Seek(_ int64, whence int) (int64, error) {
	if whence == io.SeekEnd {
		return l.size, nil
	}
	return 0, nil
}

// TestEndlessBody: of a body that is longer than its size, no more than a buffer is read
// and kept, also where it is hashed before the upload.
func TestEndlessBody(t *testing.T) {
	hashed, err := largeitem.CustomLayout(largeitem.CustomNames{
		Name: func(c largeitem.Content) (string, error) {
			return c.Key.Partition.Text + "/" + c.Attr + "/" + c.ID, nil
		},
		Owner: func(name string) (o largeitem.Owner, ok bool) {
			parts := strings.Split(name, "/")
			if len(parts) != 3 {
				return o, false
			}
			return largeitem.Owner{Key: key(parts[0]), Attr: parts[1], ID: parts[2]}, true
		},
		Hashed: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, layout := range map[string]largeitem.Layout{"own": nil, "hashed": hashed} {
		w := newWorld(t, &largeitem.Options{Layout: layout, SpoolDir: t.TempDir()})
		stream, seeker, device := &endless{}, &liar{size: 10}, &liar{}
		for what, c := range map[string]struct {
			src  largeitem.Source
			read *int64
		}{
			"a stream": {largeitem.Source{Body: stream, Size: 10}, &stream.read},
			"a seeker": {largeitem.Source{Body: seeker}, &seeker.read},
			"a device": {largeitem.Source{Body: device}, &device.read},
		} {
			_, err := w.store.Create(t.Context(), key("a"), nil, large{"x": c.src}, nil)
			if !errors.Is(err, largeitem.ErrInvalid) && !strings.Contains(errText(err), "bytes") {
				t.Errorf("%s, %s: %v", name, what, err)
			}
			if *c.read > 1<<20 {
				t.Errorf("%s, %s: %d bytes were read", name, what, *c.read)
			}
		}
		if got := w.objects(); len(got) > 0 {
			t.Errorf("%s: objects are left: %q", name, got)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// idle is a body that never returns anything.
type idle struct{}

func (*idle) Read([]byte) (int, error) { return 0, nil }

// TestIdleBody: a body that returns neither bytes nor an error is given up.
func TestIdleBody(t *testing.T) {
	for name, layout := range map[string]largeitem.Layout{"own": nil, "hashed": largeitem.PynamoDBMateLayout()} {
		w := newWorld(t, &largeitem.Options{Layout: layout, BaseURI: "s3://bucket"})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_, err := w.store.Create(ctx, key("a"), nil, large{"x": {Body: &idle{}}}, nil)
		cancel()
		if !errors.Is(err, io.ErrNoProgress) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// exiting is a body that ends its goroutine, as a test does that fails.
type exiting struct{}

func (*exiting) Read([]byte) (int, error) { runtime.Goexit(); return 0, nil }

// TestBodyEndsItsGoroutine: a body whose reading ends the goroutine is not one that was
// uploaded: the item gets no reference to nothing.
func TestBodyEndsItsGoroutine(t *testing.T) {
	for _, parallel := range []int{1, 4} {
		w := newWorld(t, &largeitem.Options{Parallel: parallel})
		done := make(chan error, 1)
		go func() {
			_, err := w.store.Create(t.Context(), key("a"), nil, large{"x": {Body: &exiting{}}, "y": largeitem.Text("y")}, nil)
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil {
				item, _ := w.table.Get(t.Context(), key("a"), nil)
				t.Errorf("%d at a time: the item was written: %v", parallel, item)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("%d at a time: the call does not return", parallel)
		}
	}
}
