package object_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/store"
)

// TestBadInput: what cannot be carried out is refused before any request, and nothing is
// written.
func TestBadInput(t *testing.T) {
	ctx := t.Context()
	below := membucket.New()
	state, err := newClient(t, below, nil).Put(ctx, "a", body("old"), nil)
	if err != nil {
		t.Fatal(err)
	}
	b := objecttest.NewFaulty(below, nil)
	c := newClient(t, b, nil)
	other := state
	other.Key = "b"
	big := strings.Repeat("x", object.MaxClientMetadata)
	for what, o := range map[string]*object.WriteOptions{
		"IfAbsent and IfMatch":                {IfAbsent: true, IfMatch: state.Version},
		"IfMatch and Base":                    {IfMatch: state.Version, Base: &state},
		"IfAbsent and Base":                   {IfAbsent: true, Base: &state},
		"a Base without a version":            {Base: &object.Info{Key: "a"}},
		"a Base of another object":            {Base: &other},
		"a fence without a lock":              {Fence: &object.Fence{Token: 1}},
		"a fence without a token":             {Fence: &object.Fence{Lock: "l"}},
		"a name with upper case":              {Metadata: map[string]string{"Name": "v"}},
		"a value with a newline":              {Metadata: map[string]string{"k": "a\nb"}},
		"a value with a carriage return":      {Metadata: map[string]string{"k": "a\rb"}},
		"a name of the client's":              {Metadata: map[string]string{"holdfast-write": "x"}},
		"metadata that leaves no room":        {Metadata: map[string]string{"k": big}},
		"a header with a newline":             {Headers: object.Headers{ContentLanguage: "en\nX: y"}},
		"headers that are too long":           {Headers: object.Headers{CacheControl: big, ContentDisposition: big + "x"}},
		"a negative length":                   {Length: -1},
		"a length that is too short":          {Length: 2},
		"a length that is too long":           {Length: 4},
		"a length that is too long, if match": {Length: 4, Base: &state},
	} {
		for reader, r := range map[string]io.Reader{"with seek": body("new"), "without": iotest.OneByteReader(body("new"))} {
			_, err := c.Put(ctx, "a", r, o)
			if !errors.Is(err, store.ErrInvalid) || store.OutcomeOf(err) != store.NotApplied {
				t.Errorf("%s, %s: got %v (%v)", what, reader, err, store.OutcomeOf(err))
			}
		}
	}
	_, err = c.Put(ctx, "a", body("new"), &object.WriteOptions{SourceIfMatch: state.Version})
	_, copyErr := c.Copy(ctx, "a", "b", &object.WriteOptions{Headers: object.Headers{CacheControl: "no-cache "}})
	_, resumeErr := c.Resume(ctx, object.Upload{Key: "a", ID: "1"}, body("new"), nil)
	for what, err := range map[string]error{
		"a put with a source": err, "a copy with a header that ends with a space": copyErr, "an upload of another program": resumeErr,
		"a delete if absent":                          c.Delete(ctx, "a", &object.WriteOptions{IfAbsent: true}),
		"a delete with a type":                        c.Delete(ctx, "a", &object.WriteOptions{ContentType: "text/plain"}),
		"a delete with a header":                      c.Delete(ctx, "a", &object.WriteOptions{Headers: object.Headers{CacheControl: "no-cache"}}),
		"an update with an object's metadata in part": second(c.Update(ctx, "a", increment, &object.WriteOptions{ContentType: "text/plain"})),
		"an update if absent":                         second(c.Update(ctx, "a", increment, &object.WriteOptions{IfAbsent: true})),
		"an update if match":                          second(c.Update(ctx, "a", increment, &object.WriteOptions{IfMatch: state.Version})),
		"an update with a base":                       second(c.Update(ctx, "a", increment, &object.WriteOptions{Base: &state})),
		"an update with a source":                     second(c.Update(ctx, "a", increment, &object.WriteOptions{SourceIfMatch: state.Version})),
		"an update with a length":                     second(c.Update(ctx, "a", increment, &object.WriteOptions{Length: 3})),
		"an update that is kept":                      second(c.Update(ctx, "a", increment, &object.WriteOptions{OnUpload: func(object.Upload) {}})),
	} {
		if !errors.Is(err, object.ErrInvalid) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("%s: got %v", what, err)
		}
	}
	for _, key := range []string{"", "\xff", strings.Repeat("k", object.MaxKey+1)} {
		_, putErr := c.Put(ctx, key, body("x"), nil)
		_, updateErr := c.Update(ctx, key, increment, nil)
		_, raiseErr := c.RaiseFence(ctx, key, token1)
		for op, err := range map[string]error{"put": putErr, "update": updateErr, "raise": raiseErr, "delete": c.Delete(ctx, key, nil)} {
			if !errors.Is(err, store.ErrKey) || store.OutcomeOf(err) != store.NotApplied {
				t.Errorf("%s %.10q: got %v", op, key, err)
			}
		}
	}
	for _, call := range b.Calls() {
		if call.Write() && call.Op != "put" {
			t.Errorf("%s %q was sent", call.Op, call.Key)
		}
	}
	if now, err := below.Stat(ctx, "a"); err != nil || now.Version != state.Version {
		t.Errorf("the object has changed: %v", err)
	}

	for what, opts := range map[string]*object.Options{
		"abilities": {Abilities: map[object.Ability]bool{"levitation": true}},
	} {
		if _, err := object.New(below, opts); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	if _, err := object.New(nil, nil); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("no bucket: got %v", err)
	}
}

// TestBodyFails: a body that fails, early or late, writes nothing.
func TestBodyFails(t *testing.T) {
	broken := errors.New("the disk is gone")
	c := newClient(t, membucket.New(), nil)
	for _, size := range []int{0, 5, 3 << 20} {
		r := io.MultiReader(strings.NewReader(strings.Repeat("x", size)), iotest.ErrReader(broken))
		_, err := c.Put(t.Context(), "a", r, &object.WriteOptions{IfAbsent: true})
		if !errors.Is(err, broken) || store.OutcomeOf(err) != store.NotApplied || content(t, c, "a") != "absent" {
			t.Errorf("after %d bytes: got %v, there is %.10q", size, err, content(t, c, "a"))
		}
	}
}

// unseekable is a body that pretends to be able to seek, as a pipe does.
type unseekable struct{ io.Reader }

func (unseekable) Seek(int64, int) (int64, error) { return 0, errors.New("illegal seek") }

// TestBodySentAgain: what is sent again is the whole body, from its first position; a
// body that is too long to be kept and cannot be read again is sent once.
func TestBodySentAgain(t *testing.T) {
	half := strings.NewReader("skipped, sent")
	if _, err := half.Seek(9, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 2<<20)
	for _, c := range []struct {
		name string
		body io.Reader
		want string
		once bool
	}{
		{"from the middle", half, "sent", false},
		{"a stream", iotest.OneByteReader(body("stream")), "stream", false},
		{"a pipe", unseekable{body("pipe")}, "pipe", false},
		{"nothing", nil, "", false},
		{"a long one", body(long), long, false},
		{"a long stream", struct{ io.Reader }{body(long)}, "old", true},
	} {
		below := membucket.New()
		base, err := newClient(t, below, nil).Put(t.Context(), "a", body("old"), nil)
		if err != nil {
			t.Fatal(err)
		}
		b := objecttest.NewFaulty(below, objecttest.Nth(1, objecttest.Fail))
		client := newClient(t, b, fast())
		_, err = client.Put(t.Context(), "a", c.body, &object.WriteOptions{Base: &base})
		if (err != nil) != c.once || c.once && store.OutcomeOf(err) != store.Unknown {
			t.Errorf("%s: got %v", c.name, err)
		}
		if got := content(t, client, "a"); got != c.want {
			t.Errorf("%s: there is %.20q, want %.20q", c.name, got, c.want)
		}
	}
}

// TestCancelled: a context that has ended sends nothing, and one that ends later does not
// hide what is known.
func TestCancelled(t *testing.T) {
	b := objecttest.NewFaulty(membucket.New(), nil)
	c := newClient(t, b, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, putErr := c.Put(ctx, "a", body("x"), nil)
	_, copyErr := c.Copy(ctx, "a", "b", nil)
	for op, err := range map[string]error{"put": putErr, "copy": copyErr, "delete": c.Delete(ctx, "a", nil)} {
		if !errors.Is(err, context.Canceled) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("%s: got %v", op, err)
		}
	}
	if n := len(b.Calls()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// idle is a Reserver that does nothing, and says that all is well.
type idle struct{}

func (idle) Do(context.Context, string, object.Version, func(context.Context) error, func(context.Context) error) error {
	return nil
}

// TestIdleReserver: a write that was never sent is not committed.
func TestIdleReserver(t *testing.T) {
	c := newClient(t, &membucket.Bucket{Hashed: true}, &object.Options{Reserver: idle{}})
	_, err := c.Put(t.Context(), "a", body("x"), &object.WriteOptions{IfAbsent: true})
	if !errors.Is(err, store.ErrUnsafe) || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("got %v (%v)", err, store.OutcomeOf(err))
	}
}

// failing is a Reserver that returns an error of its own after the operation, for example of its release.
type failing struct{ err error }

func (f failing) Do(ctx context.Context, _ string, _ object.Version, _, operate func(context.Context) error) error {
	_ = operate(ctx)
	return f.err
}

// TestFailingReserver: an error of a Reserver after the operation does not say that nothing was written.
func TestFailingReserver(t *testing.T) {
	for _, fault := range []objecttest.Fault{objecttest.Pass, objecttest.Lose} {
		for _, of := range []error{store.ErrClosed, &object.ConflictError{Key: "a"}} {
			below := membucket.New()
			fails := false // the bucket, after the first write
			c := newClient(t, objecttest.NewFaulty(below, func(c objecttest.Call) objecttest.Fault {
				if c.Op != store.OpPut || fails {
					return map[bool]objecttest.Fault{true: objecttest.Fail}[fails]
				}
				fails = fault != objecttest.Pass
				return fault
			}), object.Fast(object.Options{Reserver: failing{of}}, 0))
			_, err := c.Put(t.Context(), "a", body("x"), &object.WriteOptions{IfAbsent: true})
			if store.OutcomeOf(err) != store.Unknown || store.AttemptedVersion(err) == "" || errors.Is(err, of) || strings.Contains(err.Error(), of.Error()) != (fault == objecttest.Pass) {
				t.Errorf("a put that was applied: got %v (%v)", err, store.OutcomeOf(err))
			}
			if fault == objecttest.Pass {
				now, _ := c.Stat(t.Context(), "a")
				err := c.Delete(t.Context(), "a", &object.WriteOptions{IfMatch: now.Version})
				if store.OutcomeOf(err) != store.Unknown || errors.Is(err, of) || !strings.Contains(err.Error(), of.Error()) {
					t.Errorf("a delete that was applied: got %v (%v)", err, store.OutcomeOf(err))
				}
			}
		}
	}
}

// TestProgressRises: the progress of a body that is sent twice never falls.
func TestProgressRises(t *testing.T) {
	below := membucket.New()
	base, err := newClient(t, below, nil).Put(t.Context(), "a", body("old"), nil)
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, telling{objecttest.NewFaulty(below, objecttest.Nth(1, objecttest.Fail))}, fast())
	var told []int64
	_, err = c.Put(t.Context(), "a", body("new"), &object.WriteOptions{Base: &base, Progress: func(done, _ int64) { told = append(told, done) }})
	if err != nil || len(told) != 3 || told[0] != 0 || told[2] != 3 {
		t.Errorf("told %v, %v", told, err)
	}
}

// telling reports for each put that it begins, and comes half way.
type telling struct{ object.Bucket }

func (b telling) Put(ctx context.Context, key string, body io.Reader, opts *object.PutOptions) (object.Info, error) {
	opts.Progress.Report(0, 3)
	opts.Progress.Report(2, 3)
	info, err := b.Bucket.Put(ctx, key, body, opts)
	if err == nil {
		opts.Progress.Report(3, 3)
	}
	return info, err
}

func (b telling) Traits() object.Traits { return object.TraitsOf(b.Bucket) }
