package integration_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/items/dynamotable"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/store"
)

// itemsVar makes the test binary a process that writes items until it is killed; its value is
// an itemJob in JSON.
const itemsVar = "HOLDFAST_TEST_ITEMS"

// itemOptions are the options that a process gets as JSON.
type itemOptions struct {
	Prefix                        string
	Attributes                    []string
	RemoveSuperseded, RemoveYoung bool
}

// itemJob is what a writer of items does.
type itemJob struct {
	Table   target
	Bucket  target
	Name    string // the beginning of the ids of its writes
	Seed    uint64
	Options itemOptions
}

// itemWrite is one write, as its process reports it: when it begins, and again when it ended.
type itemWrite struct {
	ID      string
	Op      string
	Item    int
	Attrs   []string
	Begin   int64 // by the clock of now
	End     int64 // 0: the process did not tell
	Outcome string
	Err     string
}

// itemAttrs are the large attributes. Next to each is the id of its write.
var itemAttrs = []string{"html", "image"}

// items are how many items the processes fight over.
const items = 5

func killKey(n int) largeitem.Key {
	text := fmt.Sprint("item ", n)
	if n == 0 {
		text = strings.Repeat("long", 100) // so that the names of its objects have a hash of it
	}
	key, err := largeitem.NewKey(text)
	if err != nil {
		panic(err)
	}
	return key
}

// itemBody is the content of an attribute by one write.
func itemBody(attr, id string) string {
	text := attr + " of " + id + "\n"
	if attr == "image" {
		return strings.Repeat(text, 100<<10/len(text))
	}
	return text
}

func (j itemJob) open() (*largeitem.Store, *s3bucket.Bucket, error) {
	b, err := j.Bucket.bucket(&s3bucket.Options{AssumeAbilities: object.Abilities()})
	if err != nil {
		return nil, nil, err
	}
	s, err := j.on(b)
	return s, b, err
}

// on opens the store with another bucket.
func (j itemJob) on(b object.Bucket) (*largeitem.Store, error) {
	table, err := dynamotable.New(j.Table.Dynamo.Client(), j.Table.Space, nil)
	if err != nil {
		return nil, err
	}
	return largeitem.New(table, b, &largeitem.Options{
		Prefix: j.Options.Prefix, Attributes: j.Options.Attributes, RemoveSuperseded: j.Options.RemoveSuperseded, RemoveYoung: j.Options.RemoveYoung,
	})
}

// writeItems writes items, and prints an itemWrite before each write and after it.
func writeItems(j itemJob) error {
	s, _, err := j.open()
	if err != nil {
		return err
	}
	ctx := context.Background()
	rnd := rand.New(rand.NewPCG(j.Seed, 0))
	ops := []string{"create", "update", "update", "upsert", "replace", "delete"}
	out := json.NewEncoder(os.Stdout)
	for n := 0; ; n++ {
		w := itemWrite{ID: fmt.Sprint(j.Name, ".", n), Op: ops[rnd.IntN(len(ops))], Item: rnd.IntN(items), Attrs: itemAttrs, Begin: now()}
		if w.Op == "update" && rnd.IntN(2) == 0 {
			w.Attrs = itemAttrs[rnd.IntN(2):][:1]
		}
		if err := out.Encode(w); err != nil {
			return err
		}
		err := w.write(ctx, s)
		if w.Outcome = store.OutcomeOf(err).String(); err != nil {
			w.Err = err.Error()
		}
		w.End = now()
		if err := out.Encode(w); err != nil {
			return err
		}
	}
}

func (w *itemWrite) write(ctx context.Context, s *largeitem.Store) (err error) {
	plain, large := largeitem.Attributes{}, largeitem.Large{}
	for _, attr := range w.Attrs {
		plain[attr+" id"], large[attr] = w.ID, largeitem.Text(itemBody(attr, w.ID))
	}
	key, change := killKey(w.Item), largeitem.Change{Set: plain}
	switch w.Op {
	case "create":
		_, err = s.Create(ctx, key, plain, large, nil)
	case "update":
		_, err = s.Update(ctx, key, change, large, nil)
	case "upsert":
		_, err = s.Upsert(ctx, key, change, large, nil)
	case "replace":
		_, err = s.Replace(ctx, key, plain, large, nil)
	case "delete":
		_, err = s.Delete(ctx, key, nil)
	}
	return err
}

// itemRead is what an attribute of an item was at some instant between two.
type itemRead struct {
	item       int
	attr, id   string // id is empty where there is no item
	begin, end int64
}

// explains reports whether the read can have seen what the write made, given all other writes
// of the attribute: none that was acknowledged is between the two.
func (r itemRead) explains(w itemWrite, all []itemWrite) bool {
	if w.Outcome == store.NotApplied.String() || w.Begin > r.end {
		return false
	}
	return w.Outcome != store.Applied.String() || !slices.ContainsFunc(all, func(other itemWrite) bool {
		return other.Outcome == store.Applied.String() && w.End < other.Begin && other.End < r.begin
	})
}

// itemFight is processes that write items and are killed.
type itemFight struct {
	job     itemJob
	store   *largeitem.Store
	bucket  *s3bucket.Bucket
	mu      sync.Mutex
	starts  map[string]time.Time // of the processes whose requests may be under way
	writes  map[string]itemWrite // by id
	reads   []itemRead
	kills   int
	removed atomic.Int64 // by the concurrent sweeps
	sweeps  int
}

// inFlight is how long after its sender's death a request may take effect. It is part of the
// grace: no object is old whose writer may still refer to it.
const inFlight = 2 * time.Second

// old returns the time before which objects are older than the grace.
func (f *itemFight) old() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	first := time.Now()
	for _, start := range f.starts {
		if start.Before(first) {
			first = start
		}
	}
	return first.Add(-time.Second) // servers tell whole seconds
}

// killOne runs a process, kills it at random, and looks at what it has left.
func (f *itemFight) killOne(ctx context.Context, name string, rnd *rand.Rand) error {
	j := f.job
	j.Name, j.Seed, j.Options.RemoveSuperseded = name, rnd.Uint64(), rnd.IntN(2) == 0
	j.Options.RemoveYoung = j.Options.RemoveSuperseded
	config, err := json.Marshal(j)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), itemsVar+"="+string(config))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.starts[name] = time.Now()
	f.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	// It is killed in one of its first writes, which take about as long as the one before.
	var kill *time.Timer
	took := 80 * time.Millisecond
	last := rnd.IntN(5)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var w itemWrite
		if err := json.Unmarshal(lines.Bytes(), &w); err != nil {
			continue // a line that a kill has cut
		}
		f.mu.Lock()
		f.writes[w.ID] = w
		f.mu.Unlock()
		if w.End > 0 {
			took = time.Duration(w.End - w.Begin)
			last--
		} else if last == 0 {
			kill = time.AfterFunc(time.Duration(rnd.Int64N(int64(took)*3/2)), func() { _ = cmd.Process.Kill() })
		}
	}
	err = cmd.Wait()
	time.AfterFunc(inFlight, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.starts, name)
	})
	if kill == nil || kill.Stop() {
		return fmt.Errorf("process %s ended before it was killed: %v", name, err)
	}
	f.mu.Lock()
	f.kills++
	f.mu.Unlock()
	return f.look(ctx)
}

// look verifies all items, and notes of which writes they are.
func (f *itemFight) look(ctx context.Context) error {
	if got, err := f.store.Verify(ctx, nil); err != nil || !got.Complete {
		return fmt.Errorf("verify: %+v: %w", got, err)
	}
	for n := range items {
		begin := now()
		item, err := f.store.GetMeta(ctx, killKey(n))
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		end := now()
		for _, attr := range itemAttrs {
			id := ""
			if item != nil {
				id, _ = item.Attributes[attr+" id"].(string)
				if sum := sha256.Sum256([]byte(itemBody(attr, id))); id == "" || !slices.Equal(item.Refs[attr].SHA256, sum[:]) {
					return fmt.Errorf("item %d has %s of write %q, and refers to %+v", n, attr, id, item.Refs[attr])
				}
			}
			f.mu.Lock()
			f.reads = append(f.reads, itemRead{n, attr, id, begin, end})
			f.mu.Unlock()
		}
	}
	return nil
}

// sweep sweeps once while the processes run.
func (f *itemFight) sweep(ctx context.Context) error {
	s, err := f.job.on(laterBucket{Bucket: f.bucket, before: f.old()})
	if err != nil {
		return err
	}
	got, err := s.Sweep(ctx, nil)
	f.sweeps++
	f.removed.Add(got.Deleted)
	return err
}

// check says which reads no order of the writes explains.
func (f *itemFight) check(t *testing.T) {
	t.Helper()
	said, acknowledged := map[string]int{}, 0
	all := map[string][]itemWrite{} // by item and attribute
	of := func(item int, attr string) string { return fmt.Sprint(item, attr) }
	for _, w := range f.writes {
		said[w.Op+": "+w.Outcome]++
		switch w.Outcome {
		case store.Applied.String():
			acknowledged++
		case store.Unknown.String():
			t.Logf("%s: %s", w.Op, w.Err)
		}
		for _, attr := range w.Attrs {
			all[of(w.Item, attr)] = append(all[of(w.Item, attr)], w)
		}
	}
	nothing := itemWrite{Op: "delete", Outcome: store.Applied.String()} // before all others
	for _, r := range f.reads {
		writes := append(all[of(r.item, r.attr)], nothing)
		if !slices.ContainsFunc(writes, func(w itemWrite) bool {
			return (r.id == w.ID && w.Op != "delete" || r.id == "" && w.Op == "delete") && r.explains(w, writes)
		}) {
			t.Errorf("no order of the writes explains %+v; it was written as %+v", r, f.writes[r.id])
		}
	}
	t.Logf("%d kills, %d reads, %d sweeps removed %d objects beside the writers; writes: %v", f.kills, len(f.reads), f.sweeps, f.removed.Load(), said)
	if acknowledged < f.kills/2 {
		t.Errorf("%d processes were killed, and %d writes acknowledged: was there a fight?", f.kills, acknowledged)
	}
}

// TestItemsKilled kills processes at random while they write items with large attributes, with
// sweeps at the same time. Nothing that an item refers to is missing or damaged, what was acknowledged
// is there or was superseded later, and the last sweep leaves no orphan.
func TestItemsKilled(t *testing.T) {
	t.Parallel()
	kills, least := 15, 4*time.Second
	if torture() {
		kills, least = 1500, time.Minute
	}
	for name, start := range s3Servers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			dynamo, s3 := set.DynamoDB(t), start(t)
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			f := &itemFight{
				job: itemJob{
					Table:  target{Kind: "dynamodb", Dynamo: dynamo, Space: servers.Unique("items")},
					Bucket: target{Kind: "s3", S3: s3, Space: s3.NewBucket(t, false)}, Options: itemOptions{Prefix: "app", Attributes: itemAttrs},
				},
				starts: map[string]time.Time{}, writes: map[string]itemWrite{},
			}
			var err error
			if err = dynamotable.CreateTable(ctx, dynamo.Client(), f.job.Table.Space, largeitem.KeyAttribute{Name: "pk"}, largeitem.KeyAttribute{}, nil); err == nil {
				f.store, f.bucket, err = f.job.open()
			}
			if err != nil {
				t.Fatal(err)
			}
			f.run(t, seed, kills, time.Now().Add(least))
			f.end(t)
			f.check(t)
		})
	}
}

// run kills processes, two at a time, until there were so many kills, the time is over, and a
// sweep has removed something meanwhile.
func (f *itemFight) run(t *testing.T, seed uint64, kills int, until time.Time) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var killers, sweeper sync.WaitGroup
	for k := range 2 {
		rnd := rand.New(rand.NewPCG(seed, uint64(k)))
		killers.Go(func() {
			for n := 0; !t.Failed() && (2*n < kills || time.Now().Before(until) || f.removed.Load() == 0); n++ {
				if err := f.killOne(ctx, fmt.Sprint(k, "-", n), rnd); err != nil {
					t.Error(err)
				}
			}
		})
	}
	sweeper.Go(func() {
		for ctx.Err() == nil {
			if err := f.sweep(ctx); err != nil && ctx.Err() == nil {
				t.Error("sweep: ", err)
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	killers.Wait()
	cancel()
	sweeper.Wait()
}

// end removes all orphans when no request is under way, and looks for the last time.
func (f *itemFight) end(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	time.Sleep(inFlight)
	s, err := f.job.on(laterBucket{Bucket: f.bucket})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Sweep(ctx, nil); err != nil || !got.Complete {
		t.Errorf("the last sweep: %v, %+v", err, got)
	}
	if err := f.look(ctx); err != nil {
		t.Error(err)
	}
	if got, err := s.Sweep(ctx, &largeitem.SweepOptions{DryRun: true}); err != nil || got.Referenced != got.Seen {
		t.Errorf("after the last sweep: %v, %+v", err, got)
	}
}
