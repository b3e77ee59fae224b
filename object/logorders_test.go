package object_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// These tests run the code of the log itself in every order of its requests: several
// writers, a cleaner and readers, each with a handle of its own, as in processes of their
// own. Between any two requests a client may be stopped for any time. Some requests fail,
// or their reply is lost, or they are applied long after, or a second time.
//
// Each order is run from its beginning, with the clients as coroutines. Two orders that
// have led to the same objects and the same answers to every client continue in the same way, so only
// one of them is followed.

// logWorld is one run: a bucket, and the clients that wait for the answers to their
// requests.
type logWorld struct {
	objects map[string]logObject
	clients []*logClient
	late    []lateRequest
	names   map[string]string
	faults  int // how many more may happen
	wrong   []string

	// log is what the log is, by what was written: an entry that is written while the
	// floor is not above it. Nothing else can ever be part of it.
	log     []logTruth
	refused map[string]bool // bodies whose appends were reported as not applied
}

type logTruth struct{ id, body string }

// lateRequest is a write that may be applied at any later time.
type lateRequest struct {
	text string
	do   func() (string, error)
}

type logObject struct {
	body    []byte
	meta    map[string]string
	version object.Version
	text    string // of all, without chance
}

// logClient is one client. It is the bucket that its log uses.
type logClient struct {
	w       *logWorld
	name    string
	log     *object.Log
	pause   func(*logRequest) bool // returns when the request is to be carried out; nil before the run
	waiting *logRequest            // nil when the client is done
	history [32]byte               // of all that it was answered
	ids     int
	steps   int
	least   int // how long the log was when the present reading began
}

type logRequest struct {
	text  string
	write bool
	fault logFault // chosen by the run
}

type logFault int

const (
	noFault    logFault = iota
	notApplied          // the request is lost
	lostReply           // it is applied, the reply is lost
	lateWrite           // it is applied at any later time, or never
	twice               // it is applied, and once more at any later time
	repeated            // it is applied twice at once, as by a proxy, and the second answer counts
)

var errLost = errors.New("the connection broke")

// ask waits until the run lets the request be carried out.
func (c *logClient) ask(text string, write bool, do func() (string, error)) error {
	r := &logRequest{text: text, write: write}
	if c.pause == nil {
		_, err := do()
		return err
	}
	if !c.pause(r) {
		return store.MarkNotApplied(context.Canceled)
	}
	answer, err := "", errLost
	switch r.fault {
	case noFault:
		answer, err = do()
	case lostReply:
		_, _ = do()
	case repeated:
		_, _ = do()
		answer, err = do()
	case twice:
		answer, err = do()
		fallthrough
	case lateWrite:
		c.w.late = append(c.w.late, lateRequest{c.name + " " + text, do})
	}
	told := answer
	if err != nil {
		told = err.Error()
	}
	c.history = sha256.Sum256(fmt.Appendf(nil, "%x|%s|%s", c.history, text, told))
	return err
}

var idPattern = regexp.MustCompile(`[A-Z2-7]{26}`)

// named replaces random ids by names that do not depend on chance or on the order of
// requests.
func (w *logWorld) named(text string) string {
	return idPattern.ReplaceAllStringFunc(text, func(id string) string { return w.names[id] })
}

// learn gives names to the ids in what a client writes.
func (c *logClient) learn(text string) string {
	for _, id := range idPattern.FindAllString(text, -1) {
		if c.w.names[id] == "" {
			c.ids++
			c.w.names[id] = fmt.Sprintf("%s%d", c.name, c.ids)
		}
	}
	return c.w.named(text)
}

func (c *logClient) Get(_ context.Context, key string, _ *object.GetOptions) (*object.Reader, error) {
	var o logObject
	err := c.ask("get "+key, false, func() (answer string, err error) { o, err = c.w.find(key); return o.text, err })
	if err != nil {
		return nil, err
	}
	return &object.Reader{ReadCloser: io.NopCloser(bytes.NewReader(o.body)), Info: o.info(key)}, nil
}

func (c *logClient) Stat(_ context.Context, key string) (object.Info, error) {
	var o logObject
	err := c.ask("stat "+key, false, func() (answer string, err error) { o, err = c.w.find(key); return o.text, err })
	return o.info(key), err
}

func (w *logWorld) find(key string) (logObject, error) {
	o, ok := w.objects[key]
	if !ok {
		return o, store.ErrNotFound
	}
	return o, nil
}

func (o logObject) info(key string) object.Info {
	return object.Info{Key: key, Version: o.version, Size: int64(len(o.body)), Metadata: o.meta}
}

// Put makes versions as S3 does: they return when the same bytes are written again.
func (c *logClient) Put(_ context.Context, key string, body io.Reader, opts *object.PutOptions) (object.Info, error) {
	all, err := io.ReadAll(body)
	if err != nil {
		return object.Info{}, err
	}
	sum := sha256.Sum256(all)
	o := logObject{all, maps.Clone(opts.Metadata), object.Version(hex.EncodeToString(sum[:8])), ""}
	o.text = c.learn(fmt.Sprintf("%s %v", o.body, o.meta))
	err = c.ask("put "+key+" "+o.text, true, func() (string, error) {
		current, there := c.w.objects[key]
		if opts.IfAbsent && there || opts.IfMatch != "" && current.version != opts.IfMatch {
			return "", &object.ConflictError{Key: key}
		}
		c.w.objects[key] = o
		c.w.written(key, o)
		return "", nil
	})
	return o.info(key), err
}

func (c *logClient) Delete(_ context.Context, key string, _ *object.DeleteOptions) error {
	return c.ask("delete "+key, true, func() (string, error) { delete(c.w.objects, key); return "", nil })
}

func (c *logClient) List(_ context.Context, prefix string, _ *object.ListOptions) iter.Seq2[object.Info, error] {
	return func(yield func(object.Info, error) bool) {
		var keys []string
		err := c.ask("list", false, func() (string, error) {
			keys = slices.Sorted(maps.Keys(c.w.objects))
			return fmt.Sprint(keys), nil
		})
		if err != nil {
			yield(object.Info{}, err)
			return
		}
		for _, key := range keys {
			if strings.HasPrefix(key, prefix) && !yield(object.Info{Key: key}, nil) {
				return
			}
		}
	}
}

// Traits say that the conditions need not be tried, and that versions return.
func (c *logClient) Traits() object.Traits { return object.Traits{Name: "model", Trusted: true} }

func logKey(number int) string { return fmt.Sprintf("log/%020d", number) }

// written keeps account of what the log is.
func (w *logWorld) written(key string, o logObject) {
	next := len(w.log) + 1
	id := o.meta["holdfast-write"]
	if key == "log/floor" || key < logKey(w.floor()) {
		return // what is written below the floor is nothing
	}
	if key != logKey(next) {
		w.fault("%s was written, the next entry is %d", key, next)
	}
	truth := logTruth{id, string(o.body)}
	if slices.ContainsFunc(w.log, func(e logTruth) bool { return e.body == truth.body }) {
		w.fault("%q was appended twice", truth.body)
	}
	w.log = append(w.log, truth)
}

func (w *logWorld) fault(format string, args ...any) {
	w.wrong = append(w.wrong, w.named(fmt.Sprintf(format, args...)))
}

func (w *logWorld) floor() int {
	var f struct{ Floor int }
	if o, ok := w.objects["log/floor"]; ok {
		if err := json.Unmarshal(o.body, &f); err != nil {
			w.fault("the floor: %v", err)
		}
	}
	return f.Floor
}

// has reports whether the log has an entry of this number and id.
func (w *logWorld) has(number uint64, id string) bool {
	return number >= 1 && number <= uint64(len(w.log)) && w.log[number-1].id == id
}

// check checks what holds at all times.
func (w *logWorld) check() {
	floor := w.floor()
	if floor > max(len(w.log), 1) {
		w.fault("the floor is %d, the last entry %d", floor, len(w.log))
	}
	for n := max(floor, 1); n <= len(w.log); n++ {
		if o, ok := w.objects[logKey(n)]; !ok || o.meta["holdfast-write"] != w.log[n-1].id {
			w.fault("entry %d is gone, and the floor is %d", n, floor)
		}
	}
	for n, e := range w.log {
		if w.refused[e.body] {
			w.fault("an append was reported as not applied, and is entry %d", n+1)
		}
	}
}

// state is the same for all orders that continue in the same way.
func (w *logWorld) state() [32]byte {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(w.objects)) {
		fmt.Fprintf(&b, "%s=%s\n", key, w.objects[key].text)
	}
	fmt.Fprintln(&b, w.faults, len(w.log), len(w.refused))
	for _, e := range w.log {
		fmt.Fprintln(&b, w.names[e.id], e.body)
	}
	for _, c := range w.clients {
		if c.waiting != nil {
			fmt.Fprintf(&b, "%x %d", c.history, c.least)
		}
		fmt.Fprintln(&b)
	}
	for _, l := range w.late {
		fmt.Fprintln(&b, l.text)
	}
	return sha256.Sum256([]byte(b.String()))
}

// A script is what a client does; the error of a failed step ends it.
type logScript func(ctx context.Context, c *logClient) error

// append appends a body after a number, and checks its answer.
func (c *logClient) append(ctx context.Context, after uint64, body string) error {
	e, err := c.log.Append(ctx, after, []byte(body))
	defer c.forget(err)
	w := c.w
	switch {
	case ctx.Err() != nil:
	case err == nil && (!w.has(e.Number, e.ID) || e.Number != after+1 || w.log[after].body != body):
		w.fault("%s was told that %q is entry %d; the log is %v", c.name, body, e.Number, w.log)
	case err != nil && store.OutcomeOf(err) == store.NotApplied:
		w.refused[body] = true
		if errors.Is(err, store.ErrInvalid) {
			w.fault("%s: %v", c.name, err)
		}
	case err != nil && errors.Is(err, store.ErrConflict):
		w.fault("an unknown outcome looks like a conflict: %v", err)
	}
	return err
}

// read reads the log from a number, and checks that it gets the log, up to at least
// where it was when the reading began. It returns the last number.
func (c *logClient) read(ctx context.Context, from uint64) (last uint64, err error) {
	w := c.w
	c.least = len(w.log)
	defer func() { c.forget(err) }()
	last = max(from, 1) - 1
	for e, err := range c.log.Read(ctx, from) {
		if err != nil {
			return last, err
		}
		if !w.has(e.Number, e.ID) || w.log[e.Number-1].body != string(e.Body) || from > 0 && e.Number != last+1 {
			w.fault("%s read %q as entry %d; the log is %v", c.name, e.Body, e.Number, w.log)
		}
		last = e.Number
	}
	if last < uint64(c.least) && ctx.Err() == nil {
		w.fault("%s was told that the log ends at %d; it ended at %d", c.name, last, c.least)
	}
	return last, nil
}

func (c *logClient) latest(ctx context.Context) (uint64, error) {
	w := c.w
	c.least = len(w.log)
	e, err := c.log.Latest(ctx)
	defer c.forget(err)
	if err == nil && (e.Number < uint64(c.least) || e.Number > 0 && !w.has(e.Number, e.ID)) {
		w.fault("%s was told that entry %d is the last; the log had %d then, and is %v", c.name, e.Number, c.least, w.log)
	}
	return e.Number, err
}

// forget replaces the history of a client by what it knows, after a call that is over.
func (c *logClient) forget(err error) {
	if errors.Is(err, store.ErrCorrupt) {
		c.w.fault("%s: %v", c.name, err)
	}
	c.steps++
	c.history = sha256.Sum256(fmt.Append(nil, c.steps, c.w.named(fmt.Sprint(object.LogKnows(c.log), err))))
	c.least = 0
}

// The scripts. Bodies are named after the client.

// appends appends once after a number.
func appends(after uint64) logScript {
	return func(ctx context.Context, c *logClient) error { return c.append(ctx, after, c.name) }
}

// insists appends after a number, and reads on and tries again until it succeeds or does
// not know.
func insists(first uint64) logScript {
	return func(ctx context.Context, c *logClient) error {
		for after := first; ; {
			err := c.append(ctx, after, c.name)
			if err == nil || store.OutcomeOf(err) != store.NotApplied || !errors.Is(err, store.ErrConflict) {
				return err
			}
			delete(c.w.refused, c.name) // it is tried again under its name
			if after, err = c.read(ctx, after+1); err != nil {
				after, err = c.read(ctx, 0)
			}
			if err != nil {
				return err
			}
		}
	}
}

// goesOn appends some entries after a number, then removes all but the last.
func goesOn(first uint64, entries int) logScript {
	return func(ctx context.Context, c *logClient) error {
		after := first
		for i := range entries {
			if err := c.append(ctx, after, fmt.Sprint(c.name, i)); err != nil {
				return err
			}
			after++
		}
		return c.log.Trim(ctx, after)
	}
}

// keepsOn insists on some entries, then removes all but the last.
func keepsOn(first uint64, entries int) logScript {
	return func(ctx context.Context, c *logClient) error {
		after := first
		for i := 0; i < entries; {
			err := c.append(ctx, after, fmt.Sprint(c.name, i))
			switch {
			case err == nil:
				i++
				after++
			case store.OutcomeOf(err) == store.NotApplied && errors.Is(err, store.ErrConflict):
				delete(c.w.refused, fmt.Sprint(c.name, i))
				if after, err = c.read(ctx, after+1); err != nil {
					return err
				}
			default:
				return err
			}
		}
		return c.log.Trim(ctx, after)
	}
}

func cleans(below uint64) logScript {
	return func(ctx context.Context, c *logClient) error {
		if err := c.log.Trim(ctx, below); err != nil {
			return err
		}
		return c.log.Sweep(ctx)
	}
}

func reads(from uint64) logScript {
	return func(ctx context.Context, c *logClient) error {
		_, err := c.read(ctx, from)
		return err
	}
}

func asks(ctx context.Context, c *logClient) error {
	_, err := c.latest(ctx)
	return err
}

func asksLatest(ctx context.Context, c *logClient) error {
	n, err := c.latest(ctx)
	if err == nil {
		err = c.append(ctx, n, c.name)
	}
	return err
}

// logScene is a log of some entries, and clients. Those that are warm have read it before
// the run begins.
type logScene struct {
	name    string
	entries int
	warm    string
	clients []logScript // named a, b, c
	faults  int         // in each order
}

// Scenes that are small enough for all orders.
var logScenes = []logScene{
	{"two make the log", 0, "", []logScript{appends(0), insists(0)}, 1},
	{"two make the log, one reads", 0, "", []logScript{appends(0), appends(0), reads(0)}, 0},
	{"two append", 1, "ab", []logScript{insists(1), insists(1)}, 1},
	{"two append, one reads", 1, "ab", []logScript{insists(1), insists(1), reads(1)}, 0},
	{"one sleeps through a clean-up", 1, "ab", []logScript{appends(1), goesOn(1, 2)}, 1},
	{"one sleeps through a clean-up, one reads", 1, "ab", []logScript{appends(1), goesOn(1, 2), reads(2)}, 0},
	{"one sleeps through a clean-up, one asks", 1, "abc", []logScript{appends(1), goesOn(1, 2), asks}, 0},
	{"two clean", 3, "", []logScript{cleans(2), cleans(3)}, 0},
	{"one cleans, one reads", 3, "", []logScript{cleans(3), reads(2)}, 1},
}

// Scenes of which orders are chosen at random.
var largeLogScenes = []logScene{
	{"three make the log", 0, "", []logScript{insists(0), insists(0), insists(0), reads(0)}, 3},
	{"all at once", 2, "ab", []logScript{insists(2), goesOn(2, 2), reads(1), asksLatest}, 3},
	{"two sleep through a clean-up", 2, "abc", []logScript{insists(2), insists(2), goesOn(2, 3), asksLatest}, 3},
	{"two clean while one appends and one reads", 3, "a", []logScript{insists(3), cleans(2), cleans(3), reads(2)}, 3},
	{"one sleeps far", 1, "ab", []logScript{appends(1), keepsOn(1, 10), reads(0)}, 2},
	{"one sleeps after its append", 1, "ab", []logScript{appends(1), keepsOn(1, 2), reads(0)}, 2},
}

// logStart is the bucket and what the clients know when a run begins.
type logStart struct {
	objects map[string]logObject
	names   map[string]string
	log     []logTruth
	known   *object.Log
}

func (w *logWorld) open(t *testing.T, name string) *logClient {
	c := &logClient{w: w, name: name}
	client, err := object.New(c, nil)
	if err == nil {
		c.log, err = object.OpenLog(client, "log", nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (scene logScene) start(t *testing.T) logStart {
	w := &logWorld{objects: map[string]logObject{}, names: map[string]string{}, refused: map[string]bool{}}
	setup := w.open(t, "s")
	for n := range scene.entries {
		if err := setup.append(t.Context(), uint64(n), fmt.Sprint("s", n)); err != nil {
			t.Fatal(err)
		}
	}
	return logStart{w.objects, w.names, w.log, setup.log}
}

func newLogWorld(t *testing.T, scene logScene, start logStart, faults int) *logWorld {
	w := &logWorld{
		objects: maps.Clone(start.objects), names: maps.Clone(start.names), log: slices.Clone(start.log),
		refused: map[string]bool{}, faults: faults,
	}
	for i := range scene.clients {
		c := w.open(t, string(rune('a'+i)))
		w.clients = append(w.clients, c)
		if strings.Contains(scene.warm, c.name) {
			object.LogLearn(c.log, start.known)
		}
	}
	return w
}

// choice is what happens next: the request of a client is carried out, or a late write.
type choice struct {
	client int // -1: a late write
	fault  logFault
	late   int
}

// choices returns all that may happen next.
func (w *logWorld) choices() (all []choice) {
	for i, c := range w.clients {
		if c.waiting == nil {
			continue
		}
		faults := []logFault{noFault}
		switch {
		case w.faults == 0:
		case c.waiting.write:
			faults = append(faults, notApplied, lostReply, lateWrite, twice, repeated)
		default:
			faults = append(faults, notApplied)
		}
		for _, f := range faults {
			all = append(all, choice{client: i, fault: f})
		}
	}
	for i := range w.late {
		all = append(all, choice{client: -1, late: i})
	}
	return all
}

// runLog runs one order, which is chosen as it goes.
func runLog(t *testing.T, scene logScene, start logStart, faults int, choose func(*logWorld) (choice, bool)) {
	ctx, cancel := context.WithCancel(t.Context())
	w := newLogWorld(t, scene, start, faults)
	resume := make([]func(), len(w.clients))
	for i, c := range w.clients {
		next, stop := iter.Pull(func(yield func(*logRequest) bool) {
			c.pause = yield
			_ = scene.clients[i](ctx, c)
		})
		defer stop()
		resume[i] = func() { c.waiting, _ = next() }
		resume[i]()
	}
	defer cancel()
	for {
		next, ok := choose(w)
		if !ok {
			return
		}
		if next.client < 0 {
			_, _ = w.late[next.late].do()
			w.late = slices.Delete(w.late, next.late, next.late+1)
			continue
		}
		if next.fault != noFault {
			w.faults--
		}
		c := w.clients[next.client]
		if c.waiting == nil {
			t.Fatalf("client %s does not do in every run what it did in the first", c.name)
		}
		c.waiting.fault = next.fault
		resume[next.client]()
	}
}

// follow chooses a given order, and ends with then.
func follow(order []choice, then func(*logWorld)) func(*logWorld) (choice, bool) {
	return func(w *logWorld) (choice, bool) {
		if len(order) == 0 {
			then(w)
			return choice{}, false
		}
		next := order[0]
		order = order[1:]
		return next, true
	}
}

// TestLogOrders follows the orders of the small scenes, in a long run all of them.
func TestLogOrders(t *testing.T) {
	for _, scene := range logScenes {
		t.Run(scene.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { exploreLog(t, scene, scene.faults) })
		})
	}
}

// TestLogRandomOrders follows random orders of the large scenes.
func TestLogRandomOrders(t *testing.T) {
	runs := 1_000
	if os.Getenv("HOLDFAST_TORTURE") != "" {
		runs = 50_000
	}
	for _, scene := range largeLogScenes {
		t.Run(scene.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := scene.start(t)
				for seed := range runs {
					walkLog(t, scene, start, rand.New(rand.NewPCG(uint64(seed), 0)))
				}
			})
		})
	}
}

// walkLog follows one random order to its end. Some clients are stopped for long.
func walkLog(t *testing.T, scene logScene, start logStart, random *rand.Rand) {
	var order []choice
	faulty := random.IntN(10)
	weights := make([]int, len(scene.clients))
	next := func(w *logWorld) (choice, bool) {
		w.check()
		if len(w.wrong) > 0 {
			t.Fatalf("%s\nafter:\n%s", strings.Join(w.wrong, "\n"), explain(t, scene, start, scene.faults, order))
		}
		if random.IntN(8) == 0 || len(order) == 0 {
			for i := range weights {
				weights[i] = max(0, random.IntN(20)-8)
			}
		}
		var all []choice
		possible := w.choices()
		for _, c := range possible {
			times := 1
			switch {
			case c.client >= 0 && c.fault == noFault:
				times = 10 * weights[c.client]
			case random.IntN(10) > faulty:
				times = 0
			}
			all = append(all, slices.Repeat([]choice{c}, times)...)
		}
		if len(possible) == 0 {
			return choice{}, false
		}
		if len(all) == 0 {
			all = possible
		}
		order = append(order, all[random.IntN(len(all))])
		return order[len(order)-1], true
	}
	runLog(t, scene, start, scene.faults, next)
}

func exploreLog(t *testing.T, scene logScene, faults int) {
	most := 1_500
	if os.Getenv("HOLDFAST_TORTURE") != "" {
		most = math.MaxInt
	}
	start := scene.start(t)
	seen := map[[32]byte]bool{}
	ends := 0
	orders := [][]choice{nil}
	for len(orders) > 0 && len(seen) < most {
		order := orders[len(orders)-1]
		orders = orders[:len(orders)-1]
		runLog(t, scene, start, faults, follow(order, func(w *logWorld) {
			w.check()
			if len(w.wrong) > 0 {
				t.Fatalf("%s\nafter:\n%s", strings.Join(w.wrong, "\n"), explain(t, scene, start, faults, order))
			}
			state := w.state()
			if seen[state] {
				return
			}
			seen[state] = true
			next := w.choices()
			if len(next) == 0 {
				ends++
			}
			for _, c := range next {
				orders = append(orders, append(slices.Clone(order), c))
			}
		}))
	}
	t.Logf("%d states, %d ends, all: %t", len(seen), ends, len(orders) == 0)
}

// explain describes an order in words.
func explain(t *testing.T, scene logScene, start logStart, faults int, order []choice) string {
	var b strings.Builder
	faultNames := [...]string{"", ": the request is lost", ": the reply is lost", ": it will be applied later", ": it will be applied again later", ": a proxy repeats it"}
	for i, next := range order {
		runLog(t, scene, start, faults, follow(order[:i], func(w *logWorld) {
			if next.client < 0 {
				fmt.Fprintf(&b, "late: %s\n", w.late[next.late].text)
				return
			}
			c := w.clients[next.client]
			fmt.Fprintf(&b, "%s: %s%s\n", c.name, c.waiting.text, faultNames[next.fault])
		}))
	}
	return b.String()
}
