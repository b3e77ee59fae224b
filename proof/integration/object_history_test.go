package integration_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/indexbucket"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/proof/integration/faultproxy"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// objectOp is a call on one object, in terms of bodies. Every body is written once, so a
// body stands for the state that was read. Empty means that there is no object.
type objectOp struct {
	kind    string // read, put, delete
	on      string // the state that a conditional write names
	any     bool   // it names none
	body    string // that is put, or was read
	outcome store.Outcome
	refused bool // not applied, for its condition
}

func (op objectOp) String() string {
	return fmt.Sprintf("%s %q on %q: %v, refused %v", op.kind, op.body, op.on, op.outcome, op.refused)
}

// objectModel is one object under conditional writes. A write of unknown outcome may take
// effect at any time after it began, if its condition holds then, or never.
func objectModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return "" },
		Step: func(state, input, _ any) (bool, any) {
			now, op := state.(string), input.(objectOp)
			holds := op.any || now == op.on
			switch {
			case op.kind == "read":
				return now == op.body, now
			case op.outcome == store.NotApplied && op.refused:
				return !holds, now
			case op.outcome == store.NotApplied, op.outcome == store.Unknown && !holds:
				return true, now
			}
			return holds, op.body
		},
		DescribeOperation: func(input, _ any) string { return fmt.Sprint(input) },
	}
}

// objectHistory records calls on one object. Its clock counts the starts and ends of calls, so
// that it also orders those of one instant of a bubble.
type objectHistory struct {
	clock atomic.Int64
	mu    sync.Mutex
	ops   []porcupine.Operation
	count map[store.Outcome]int
}

func newObjectHistory() *objectHistory {
	return &objectHistory{count: make(map[store.Outcome]int)}
}

func (h *objectHistory) add(client int, call int64, op objectOp) {
	now := h.clock.Add(1)
	if op.outcome == store.Unknown && op.kind != "read" {
		now = math.MaxInt64 - 1
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count[op.outcome]++
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: op, Call: call, Return: now})
}

// String shows the calls in the order of their starts, with the numbers of their starts and ends.
func (h *objectHistory) String() string {
	slices.SortFunc(h.ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	var b strings.Builder
	for _, op := range h.ops {
		fmt.Fprintf(&b, "\nclient %d, %d to %d: %v", op.ClientId, op.Call, op.Return, op.Input)
	}
	return b.String()
}

// check reports whether one object explains the answers that the clients got.
func (h *objectHistory) check(t *testing.T) bool {
	t.Helper()
	result := porcupine.CheckOperationsTimeout(objectModel(), h.ops, time.Minute)
	if result == porcupine.Unknown {
		t.Error("the history is too long to be checked")
	}
	return result == porcupine.Ok
}

// objectClient is one client that works on the object.
type objectClient struct {
	h       *objectHistory
	c       *object.Client
	id      int
	rnd     *rand.Rand
	deletes bool
	puts    int

	base *object.Info // what it last read or wrote; nil: it believes that there is no object
	on   string       // the body of that
}

// call makes one call, often on what the client last read or wrote.
func (o *objectClient) call(ctx context.Context) {
	call, op := o.h.clock.Add(1), objectOp{kind: "put", on: o.on}
	var info object.Info
	var err error
	switch choice := o.rnd.IntN(10); {
	case choice < 3:
		body, info, err := read(ctx, o.c)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return
		}
		o.on, o.base = string(body), nil
		if err == nil {
			o.base = &info
		}
		o.h.add(o.id, call, objectOp{kind: "read", body: o.on})
		return
	case choice == 3 && o.base != nil && o.deletes:
		op.kind = "delete"
		err = o.c.Delete(ctx, "object", &object.WriteOptions{Base: o.base})
	default:
		o.puts++
		op.body = fmt.Sprintf("%d.%d", o.id, o.puts)
		opts := &object.WriteOptions{Base: o.base, IfAbsent: o.base == nil}
		if choice > 7 && o.base != nil {
			opts = &object.WriteOptions{IfMatch: o.base.Version}
		}
		if choice == 4 && o.deletes {
			opts, op.any = nil, true
		}
		info, err = o.c.Put(ctx, "object", strings.NewReader(op.body), opts)
	}
	op.outcome = store.OutcomeOf(err)
	op.refused = errors.Is(err, store.ErrConflict)
	o.h.add(o.id, call, op)
	if err == nil {
		o.on, o.base = op.body, nil
		if info.Version != "" {
			o.base = &info
		} else {
			o.on = ""
		}
	}
}

// read returns the body of the object.
func read(ctx context.Context, c *object.Client) ([]byte, object.Info, error) {
	info, err := c.Stat(ctx, "object")
	if err != nil {
		return nil, info, err
	}
	// The body of exactly this state.
	body, _, err := object.ReadAll(ctx, c.Bucket(), "object", 1<<10, &object.GetOptions{IfMatch: info.Version})
	if err != nil {
		return nil, info, fmt.Errorf("it was replaced meanwhile: %v", err)
	}
	return body, info, nil
}

// slow is a bucket whose puts take a moment, in which others come between the two copies of a
// request that is repeated.
type slow struct{ object.Bucket }

func (b slow) Put(ctx context.Context, key string, body io.Reader, opts *object.PutOptions) (object.Info, error) {
	time.Sleep(rand.N(200 * time.Microsecond))
	return b.Bucket.Put(ctx, key, body, opts)
}

func (b slow) Unwrap() object.Bucket { return b.Bucket }

// Several clients put, replace and delete one object, while one request in four fails,
// loses its reply, is repeated, or comes late. The answers that they got can be explained by one
// object. The rounds in which requests are repeated are short, and nothing is deleted or
// overwritten without a condition: where the first copy of a request was applied, and others
// have removed all traces of that when the second copy is refused, nothing can tell.
func TestObjectHistories(t *testing.T) {
	t.Parallel()
	rounds := 60
	if torture() {
		rounds = 20_000
	}
	for name, open := range map[string]func() (object.Bucket, error){
		"unique versions": func() (object.Bucket, error) { return membucket.New(), nil },
		"equal bodies have equal versions": func() (object.Bucket, error) {
			return &membucket.Bucket{Hashed: true}, nil
		},
		"indexed": func() (object.Bucket, error) {
			return indexbucket.New(memstore.New(), &membucket.Bucket{Hashed: true}, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			count := make(map[store.Outcome]int)
			history := func(t *testing.T, round int) {
				seed, deletes, calls := rand.Uint64(), round%2 == 0, 16
				below, err := open()
				if err != nil {
					t.Fatal(err)
				}
				if !deletes {
					calls = 3
				}
				faulty := objecttest.NewFaulty(slow{below}, func(c objecttest.Call) objecttest.Fault {
					rnd := rand.New(rand.NewPCG(seed, uint64(c.N)))
					fault := objecttest.Fault(rnd.IntN(16))
					if !deletes && rnd.IntN(3) == 0 {
						fault = objecttest.Repeat
					}
					if fault > objecttest.Late || fault == objecttest.Repeat && deletes {
						return objecttest.Pass
					}
					return fault
				})
				h := newObjectHistory()
				var wg sync.WaitGroup
				for client := range 4 {
					c, err := object.New(faulty, nil)
					if err != nil {
						t.Fatal(err)
					}
					o := &objectClient{h: h, c: c, id: client, rnd: rand.New(rand.NewPCG(seed, uint64(client)+1<<32)), deletes: deletes}
					wg.Go(func() {
						for n := range calls {
							o.call(t.Context())
							if n%4 == 3 {
								faulty.Deliver()
							}
						}
					})
				}
				wg.Wait()
				if !h.check(t) {
					t.Fatalf("no object explains the history of seed %d:%s", seed, h)
				}
				for outcome, n := range h.count {
					count[outcome] += n
				}
			}
			for round := range rounds {
				synctest.Test(t, func(t *testing.T) { history(t, round) })
			}
			t.Logf("%d histories, outcomes %v", rounds, count)
		})
	}
}

// The control: a client that believes every answer accepts what no object explains.
func TestObjectHistoryFindsFaults(t *testing.T) {
	t.Parallel()
	for range 100 {
		faulty := objecttest.NewFaulty(membucket.New(), func(c objecttest.Call) objecttest.Fault {
			if c.Op == "put" && c.N%3 == 0 {
				return objecttest.Repeat
			}
			return objecttest.Pass
		})
		h := newObjectHistory()
		base := object.Version("")
		on := ""
		for n := range 6 {
			call, op := h.clock.Add(1), objectOp{kind: "put", on: on, body: fmt.Sprint(n)}
			info, err := faulty.Put(t.Context(), "object", strings.NewReader(op.body), &object.PutOptions{IfAbsent: base == "", IfMatch: base})
			op.outcome, op.refused = store.OutcomeOf(err), errors.Is(err, store.ErrConflict)
			h.add(0, call, op)
			if err == nil {
				on, base = op.body, info.Version
			}
		}
		if !h.check(t) {
			return
		}
	}
	t.Error("the check sees nothing")
}

// The same on servers, through a proxy that does any fault to one request in six. Nothing is
// deleted: a create that comes late, after the object was deleted, no server can refuse.
func TestObjectHistoriesUnderFaults(t *testing.T) {
	t.Parallel()
	calls := 20
	if torture() {
		calls = 200
	}
	for name, start := range s3Servers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			at := target{Kind: "s3", S3: s, Space: s.NewBucket(t, false)}
			direct, err := at.bucket(nil)
			if err != nil {
				t.Fatal(err)
			}
			// What finds out about the server is not what is tested here.
			if err := direct.Verify(t.Context(), object.PutIfAbsent, object.PutIfMatch); err != nil {
				t.Fatal(err)
			}
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			proxy := faultproxy.New(t, s.Endpoint)
			proxy.Inject(faultproxy.Random(seed, 1.0/6, nil, anyFault(time.Second)...))
			h := newObjectHistory()
			var wg sync.WaitGroup
			for client := range 4 {
				b, err := at.at(proxy.URL).bucket(&s3bucket.Options{AssumeAbilities: []object.Ability{object.PutIfAbsent, object.PutIfMatch}})
				if err != nil {
					t.Fatal(err)
				}
				c, err := object.New(b, nil)
				if err != nil {
					t.Fatal(err)
				}
				o := &objectClient{h: h, c: c, id: client, rnd: rand.New(rand.NewPCG(seed, uint64(client)))}
				wg.Go(func() {
					for range calls {
						ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
						o.call(ctx)
						cancel()
					}
				})
			}
			wg.Wait()
			if !h.check(t) {
				t.Errorf("no object explains the history:%s", h)
			}
			t.Logf("outcomes %v, %d requests, %d of them with faults", h.count, proxy.Count(nil), proxy.Count(func(c *faultproxy.Call) bool { return c.Fault != "" }))
		})
	}
}
