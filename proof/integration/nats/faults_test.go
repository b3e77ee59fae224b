package nats_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-go/holdfast/nats/natsstore"
	"github.com/holdfast-go/holdfast/proof/integration/registers"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/store"
)

// TestNATSCluster: the server that leads a bucket with three replicas is killed with -9 under contenders and
// writers. The others elect a leader, and lose nothing that was acknowledged.
func TestNATSCluster(t *testing.T) {
	t.Parallel()
	var bucket string
	registers.Kind{
		Start: func(t *testing.T) registers.Server {
			return registers.NewCluster(t, servers.NewNATSCluster(t, 3), func(address string) int {
				st, err := natsstore.Open(t.Context(), "nats://"+address+"/"+bucket, nil)
				if err != nil {
					return -1
				}
				defer st.Close()
				found, _ := st.Describe(t.Context())
				return slices.Index([]string{"n0", "n1", "n2"}, found.Leader)
			})
		},
		NewSpace: func(t *testing.T, server registers.Server) registers.Open {
			bucket = newBucket(t, server.Address(), 3)
			return func(t testing.TB, address string) store.Store { return open(t, "nats://"+address+"/"+bucket) }
		},
	}.RunKills(t)
}

// TestNATSInProgress: many writers of one key in a bucket with three replicas get refusals with the error
// 10164, which say nothing about the condition. No writer takes one for a server that is not safe, and
// exactly one write of each round is applied.
func TestNATSInProgress(t *testing.T) {
	t.Parallel()
	members := servers.NewNATSCluster(t, 3)
	bucket := newBucket(t, members[0].Address(), 3)
	var stores []store.Store
	for i := range 9 {
		stores = append(stores, open(t, "nats://"+members[i%3].Address()+"/"+bucket))
	}
	raw, err := jetstream.New(connected(t, members[0].Address()))
	if err != nil {
		t.Fatal(err)
	}
	var inProgress atomic.Int64
	for round := range 20 {
		key := fmt.Sprint("key-", round)
		var won, lost atomic.Int64
		var wg sync.WaitGroup
		for i, st := range stores {
			wg.Go(func() {
				_, err := st.Put(t.Context(), key, "", []byte(fmt.Sprint(i)))
				switch {
				case err == nil:
					won.Add(1)
				case errors.Is(err, store.ErrConflict):
					lost.Add(1)
				default:
					t.Errorf("round %d: %v", round, err)
				}
			})
			wg.Go(func() { // the same condition, without a register, to see the server's answers
				_, err := raw.Publish(t.Context(), "$KV."+bucket+".raw-"+key, nil, jetstream.WithExpectLastSequencePerSubject(0))
				if api := (*jetstream.APIError)(nil); errors.As(err, &api) && api.ErrorCode == 10164 {
					inProgress.Add(1)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 || lost.Load() != int64(len(stores))-1 {
			t.Errorf("round %d: %d writers won and %d lost", round, won.Load(), lost.Load())
		}
	}
	if inProgress.Load() == 0 {
		t.Error("the server never answered 10164: the test tests nothing")
	}
	t.Logf("the server answered 10164 %d times", inProgress.Load())
}

// outage is a proxy whose server can be away.
type outage struct {
	*servers.TCPProxy
	away, loseReply atomic.Bool
}

func newOutage(t *testing.T, server *servers.NATS) *outage {
	o := &outage{}
	o.TCPProxy = servers.NewTCPProxy(t, func() string {
		if o.away.Load() {
			return "127.0.0.1:1"
		}
		return server.Address()
	}, func() (before, after bool) { return o.away.Load(), o.loseReply.Swap(false) })
	return o
}

// TestNATSLateMessages: by default, a client of NATS keeps messages while its connection is broken. The caller
// gets an error, and the message is applied after the reconnection. A register is not written late.
func TestNATSLateMessages(t *testing.T) {
	t.Parallel()
	server := servers.NewNATS(t, "")
	bucket := newBucket(t, server.Address(), 1)
	proxy := newOutage(t, server)
	ctx := t.Context()
	js, err := jetstream.New(connected(t, proxy.Address, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond)))
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(ctx, bucket)
	if err != nil {
		t.Fatal(err)
	}
	st := open(t, "nats://"+proxy.Address+"/"+bucket)
	if _, err := st.Put(ctx, "first", "", nil); err != nil {
		t.Fatal(err)
	}
	proxy.away.Store(true)
	late, ours := 0, 0
	for i := range 5 {
		within, cancel := context.WithTimeout(ctx, time.Second)
		if _, err := kv.Create(within, fmt.Sprint("sdk-", i), []byte("late")); err == nil {
			t.Error("the client of NATS wrote without a server")
		}
		if _, err := st.Put(within, fmt.Sprint("ours-", i), "", []byte("late")); err == nil || errors.Is(err, store.ErrConflict) || store.Permanent(err) {
			t.Errorf("a register without a server: %v", err)
		}
		cancel()
	}
	proxy.away.Store(false)
	direct := open(t, "nats://"+server.Address()+"/"+bucket)
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if _, _, err := st.Get(ctx, "first"); err == nil { // the connection is back
			break
		}
		if time.Now().After(end) {
			t.Fatal("no connection within 10 s")
		}
	}
	time.Sleep(3 * time.Second)
	raw, err := jetstream.New(connected(t, server.Address()))
	if err != nil {
		t.Fatal(err)
	}
	there, err := raw.KeyValue(ctx, bucket)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if _, err := there.Get(ctx, fmt.Sprint("sdk-", i)); err == nil {
			late++
		}
		if _, _, err := direct.Get(ctx, fmt.Sprint("ours-", i)); err == nil {
			ours++
		}
	}
	if late == 0 || ours > 0 {
		t.Errorf("%d of 5 writes of the client of NATS, and %d of 5 of a register, were applied after their callers had given up; want some, and none", late, ours)
	}
	t.Logf("%d of 5 writes of the client of NATS were applied late", late)
}

// TestNATSLostReplies: one reply to a write is lost. The client of NATS waits until its context ends, and
// returns an error. When the caller tries again, its own success is a conflict. A message id does not help:
// the server compares the sequence first. A register reports its success.
func TestNATSLostReplies(t *testing.T) {
	t.Parallel()
	server := servers.NewNATS(t, "")
	bucket := newBucket(t, server.Address(), 1)
	proxy := newOutage(t, server)
	ctx := t.Context()
	js, err := jetstream.New(connected(t, proxy.Address, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond)))
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(ctx, bucket)
	if err != nil {
		t.Fatal(err)
	}
	proxy.loseReply.Store(true)
	within, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, first := kv.Create(within, "sdk", []byte("mine"))
	_, second := kv.Create(ctx, "sdk", []byte("mine"))
	t.Logf("the client of NATS: %v; then %v", first, second)
	if first == nil || !errors.Is(second, jetstream.ErrKeyExists) {
		t.Errorf("the client of NATS: %v; then %v", first, second)
	}
	subject := "$KV." + bucket + ".id"
	publish := func() error {
		_, err := js.Publish(ctx, subject, []byte("mine"), jetstream.WithMsgID("one"), jetstream.WithExpectLastSequencePerSubject(0))
		return err
	}
	first, second = publish(), publish()
	t.Logf("one message id twice: %v; then %v", first, second)
	if api := (*jetstream.APIError)(nil); first != nil || !errors.As(second, &api) || api.ErrorCode != jetstream.JSErrCodeStreamWrongLastSequence {
		t.Errorf("one message id twice: %v; then %v", first, second)
	}
	st := open(t, "nats://"+proxy.Address+"/"+bucket)
	if _, err := st.Put(ctx, "warm", "", nil); err != nil {
		t.Fatal(err)
	}
	proxy.loseReply.Store(true)
	began := time.Now()
	v, err := st.Put(ctx, "ours", "", []byte("mine"))
	if value, now, readErr := st.Get(ctx, "ours"); err != nil || readErr != nil || now != v || string(value) != "mine" {
		t.Errorf("a register: %v; then %q %q, %v; want the version %q", err, value, now, readErr, v)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("a register needed %v after the connection was lost", took)
	}
}

// TestNATSMemory: the control. A bucket in memory loses acknowledged writes when its server is killed.
// Holdfast refuses such a bucket, and others with settings that lose registers.
func TestNATSMemory(t *testing.T) {
	t.Parallel()
	server := servers.NewNATS(t, "")
	ctx := t.Context()
	js, err := jetstream.New(connected(t, server.Address()))
	if err != nil {
		t.Fatal(err)
	}
	good := newBucket(t, server.Address(), 1)
	if _, err := open(t, "nats://"+server.Address()+"/"+good).Put(ctx, "job", "", []byte("held")); err != nil {
		t.Fatal(err)
	}
	for name, config := range map[string]jetstream.StreamConfig{
		"memory":  {Storage: jetstream.MemoryStorage, Discard: jetstream.DiscardNew},
		"max_age": {MaxAge: time.Hour, Discard: jetstream.DiscardNew},
		"discard": {MaxBytes: 1 << 20, Discard: jetstream.DiscardOld},
		"no_ack":  {NoAck: true, Discard: jetstream.DiscardNew},
		"ttl":     {AllowMsgTTL: true, Discard: jetstream.DiscardNew},
		"once":    {Discard: jetstream.DiscardNew, DiscardNewPerSubject: true},
		"work":    {Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew},
	} {
		config.Name, config.Subjects, config.MaxMsgsPerSubject = "KV_"+name, []string{"$KV." + name + ".>"}, 1
		if _, err := js.CreateStream(ctx, config); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_, err := open(t, "nats://"+server.Address()+"/"+name).Put(ctx, "job", "", []byte("held"))
		if !errors.Is(err, store.ErrUnsafe) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("%s: %v (%v)", name, err, store.OutcomeOf(err))
		}
		if err := natsstore.CreateBucket(ctx, connected(t, server.Address()), name, nil); !errors.Is(err, store.ErrUnsafe) {
			t.Errorf("%s: init: %v", name, err)
		}
	}
	// A bucket that a program created with the defaults of the client is safe.
	if _, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "plain"}); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, "nats://"+server.Address()+"/plain").Put(ctx, "job", "", []byte("held")); err != nil {
		t.Errorf("a bucket with the defaults: %v", err)
	}
	if _, err := js.Publish(ctx, "$KV.memory.job", []byte("held")); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	if err := server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if js, err = jetstream.New(connected(t, server.Address())); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Stream(ctx, "KV_memory"); err == nil {
		stream, _ := js.Stream(ctx, "KV_memory")
		if _, err := stream.GetLastMsgForSubject(ctx, "$KV.memory.job"); err == nil {
			t.Error("the control: a bucket in memory still has its message after kill -9")
		}
	}
	if value, _, err := open(t, "nats://"+server.Address()+"/"+good).Get(ctx, "job"); err != nil || string(value) != "held" {
		t.Errorf("a bucket in files, after kill -9: %q, %v", value, err)
	}
}

// TestNATSWakes: a waiter hears of a release at once, although it would look by itself only after seconds.
func TestNATSWakes(t *testing.T) {
	t.Parallel()
	server := servers.NewNATS(t, "")
	bucket := newBucket(t, server.Address(), 1)
	registers.Wakes(t, func() *natsstore.Store { return open(t, "nats://"+server.Address()+"/"+bucket) })
}

// TestNATSNewBucket: a program that has read a register before an administrator deleted the bucket and created it
// again does not replace a state of the new bucket. In a bucket whose sequences begin with 1 it does.
func TestNATSNewBucket(t *testing.T) {
	t.Parallel()
	server := servers.NewNATS(t, "")
	js, err := jetstream.New(connected(t, server.Address()))
	if err != nil {
		t.Fatal(err)
	}
	for _, fromOne := range []bool{false, true} {
		bucket := newBucket(t, server.Address(), 1)
		again := func(change func(*jetstream.StreamConfig)) {
			t.Helper()
			stream, err := js.Stream(t.Context(), "KV_"+bucket)
			if err != nil {
				t.Fatal(err)
			}
			config := stream.CachedInfo().Config
			change(&config)
			// The server removes files after its answer. A stream that it creates at once can have old messages.
			for empty := false; !empty; {
				if err := js.DeleteStream(t.Context(), config.Name); err != nil {
					t.Fatal(err)
				}
				if fromOne {
					if _, err := js.CreateStream(t.Context(), config); err != nil {
						t.Fatal(err)
					}
				} else if err := natsstore.CreateBucket(t.Context(), connected(t, server.Address()), bucket, nil); err != nil {
					t.Fatal(err)
				}
				if stream, err = js.Stream(t.Context(), config.Name); err != nil {
					t.Fatal(err)
				}
				empty = stream.CachedInfo().State.Msgs == 0
			}
		}
		if fromOne {
			again(func(c *jetstream.StreamConfig) { c.FirstSeq = 0 })
		}
		old := open(t, "nats://"+server.Address()+"/"+bucket)
		version, err := old.Put(t.Context(), "k", "", []byte("old"))
		if err != nil {
			t.Fatal(err)
		}
		again(func(c *jetstream.StreamConfig) { c.FirstSeq = 0 })
		if _, err := open(t, "nats://"+server.Address()+"/"+bucket).Put(t.Context(), "k", "", []byte("new")); err != nil {
			t.Fatal(err)
		}
		_, err = old.Put(t.Context(), "k", version, []byte("late"))
		if replaced := err == nil; replaced != fromOne || !fromOne && !errors.Is(err, store.ErrConflict) {
			t.Errorf("sequences begin with 1: %v; a write on the old state: %v", fromOne, err)
		}
	}
}
