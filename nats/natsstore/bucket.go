package natsstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-go/holdfast/store"
)

// Description contains the properties of a bucket.
type Description struct {
	Replicas int
	Leader   string   // name of the server that leads the stream; empty without a cluster
	Behind   []string // replicas that are offline, or do not have all messages

	// Wakes says that the bucket wakes waiters. If it does not, waiters read every two seconds.
	Wakes bool

	// Unsafe says which settings of the bucket are not safe for registers. It is empty if the bucket is
	// safe.
	Unsafe []string
}

// Describe reads the properties of the bucket.
func (s *Store) Describe(ctx context.Context) (Description, error) { return s.d.describe(ctx) }

func (d *driver) describe(ctx context.Context) (Description, error) {
	info, err := d.info(ctx)
	if err != nil {
		return Description{}, err
	}
	found := Description{Replicas: info.Config.Replicas, Unsafe: unsafeSettings(&info.Config)}
	if r := info.Config.RePublish; r != nil {
		found.Wakes = r.Destination == d.wakeSubject(">")
	}
	d.wakes.Store(found.Wakes)
	if !slices.Equal(info.Config.Subjects, []string{"$KV." + d.bucket + ".>"}) {
		found.Unsafe = append(found.Unsafe, "its subjects are not those of a key-value bucket")
	}
	if info.Cluster != nil {
		found.Leader = info.Cluster.Leader
		for _, r := range info.Cluster.Replicas {
			if r.Offline || !r.Current {
				found.Behind = append(found.Behind, r.Name)
			}
		}
	}
	return found, nil
}

func (d *driver) info(ctx context.Context) (*jetstream.StreamInfo, error) {
	stream, err := bounded(ctx, d, "$JS.API.STREAM.INFO."+d.stream(), func(ctx context.Context) (jetstream.Stream, error) { return d.js.Stream(ctx, d.stream()) })
	if err != nil {
		return nil, err
	}
	return stream.CachedInfo(), nil
}

// unsafeSettings lists the settings of a stream that can lose a register, or split it.
func unsafeSettings(c *jetstream.StreamConfig) (found []string) {
	for text, is := range map[string]bool{
		"it is in memory (storage)":                                  c.Storage != jetstream.FileStorage,
		"it removes messages after a time (max_age)":                 c.MaxAge > 0,
		"messages can have a TTL (allow_msg_ttl)":                    c.AllowMsgTTL,
		"it removes old messages when it is full (discard)":          c.Discard != jetstream.DiscardNew,
		"consumers remove messages (retention)":                      c.Retention != jetstream.LimitsPolicy,
		"it is a copy of other streams (mirror, sources)":            c.Mirror != nil || len(c.Sources) > 0,
		"it changes subjects (subject_transform)":                    c.SubjectTransform != nil,
		"it acknowledges no message (no_ack)":                        c.NoAck,
		"it acknowledges messages before it has them (persist_mode)": c.PersistMode != jetstream.DefaultPersistMode,
		"it is read-only (sealed)":                                   c.Sealed,
		"it adds numbers (allow_msg_counter)":                        c.AllowMsgCounter,
		"it refuses to replace a message (discard_new_per_subject)":  c.DiscardNewPerSubject,
	} {
		if is {
			found = append(found, text)
		}
	}
	slices.Sort(found)
	return found
}

// check looks at the bucket, before the first write.
func (d *driver) check(ctx context.Context) error {
	found, err := d.describe(ctx)
	if err == nil && len(found.Unsafe) > 0 {
		err = fmt.Errorf("%w: the bucket %s can lose locks: %s; use a bucket that holdfast init or CreateBucket has created", store.ErrUnsafe, d.bucket, strings.Join(found.Unsafe, ", "))
	}
	return store.MarkNotApplied(err)
}

// CreateBucket creates a bucket for registers: in files, without limits, with Options.Replicas replicas. If
// there is already a bucket with this name, CreateBucket changes nothing. If the settings of that bucket are
// not safe, the error matches [store.ErrUnsafe].
func CreateBucket(ctx context.Context, conn *nats.Conn, bucket string, opts *Options) error {
	d, err := newDriver(conn, bucket, opts)
	if err != nil {
		return err
	}
	_, err = bounded(ctx, d, "$JS.API.STREAM.CREATE."+d.stream(), func(ctx context.Context) (jetstream.Stream, error) {
		return d.js.CreateStream(ctx, jetstream.StreamConfig{
			Name: d.stream(), Subjects: []string{"$KV." + bucket + ".>"}, Description: "registers of Holdfast",
			Storage: jetstream.FileStorage, Replicas: max(d.o.Replicas, 1), Discard: jetstream.DiscardNew, MaxMsgsPerSubject: 1,
			MaxMsgs: -1, MaxBytes: -1, MaxConsumers: -1, MaxMsgSize: -1, DenyDelete: true, AllowRollup: true,
			// So the sequences of a deleted bucket do not return in the bucket that replaces it.
			FirstSeq:  uint64(time.Now().UnixMicro()),
			RePublish: &jetstream.RePublish{Source: "$KV." + bucket + ".>", Destination: d.wakeSubject(">"), HeadersOnly: true},
		})
	})
	if err != nil && !strings.Contains(err.Error(), "already in use") {
		return err
	}
	return d.check(ctx)
}
