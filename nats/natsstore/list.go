package natsstore

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

const (
	// sizeHeader is the size of a message of which a consumer gets the headers alone.
	sizeHeader = "Nats-Msg-Size"

	// maxConsumers is how many consumers a listing creates at most. Of five replicas, one is the right one.
	maxConsumers = 50

	// pageWait is how long a request of a listing waits for messages. A consumer that comes to a message which was
	// replaced waits for the next message or request.
	pageWait = 500 * time.Millisecond
)

// list yields the keys below a prefix. It reads the headers of the last message of each subject with a
// consumer in the memory of the server. The numbers of a consumer do not tell when the listing is complete: a message that
// is replaced, or lost with a connection, is not sent, and the count of pending messages is too small for a moment. So
// the listing first reads the names of the subjects, and ends when each of them has had a message.
func list[T any](ctx context.Context, d *driver, prefix string, tombstones bool, show func(store.Tagged) T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		all := "$KV." + d.bucket + "."
		filter := strings.TrimSuffix(d.prefix+prefix, "/")
		if filter != "" {
			filter = escape(filter) + "."
		}
		filter = all + filter + ">"
		missing, leader, err := d.subjects(ctx, filter)
		if err == nil && len(missing) == 0 {
			return
		}
		var consumer jetstream.Consumer
		if err == nil {
			consumer, err = d.consumer(ctx, filter, leader)
		}
		if err != nil {
			yield(none, err)
			return
		}
		defer d.end(ctx, consumer)
		for moved := time.Now(); len(missing) > 0; {
			page, err := d.page(ctx, consumer, min(len(missing), pageSize))
			if len(page) > 0 {
				moved = time.Now()
			} else if limit := engine.Share(ctx, d.o.Timeout); err == nil && time.Since(moved) > limit {
				var now map[string]uint64
				now, _, err = d.subjects(ctx, filter)
				maps.DeleteFunc(missing, func(subject string, _ uint64) bool { return now[subject] == 0 }) // removed meanwhile
				if err == nil && len(missing) > 0 {
					err = fmt.Errorf("%w: the listing got no further message within %v", store.ErrUnavailable, limit)
				}
			}
			if err != nil {
				yield(none, err)
				return
			}
			for _, m := range page {
				if _, ok := missing[m.Subject()]; !ok {
					continue // the key was written meanwhile
				}
				delete(missing, m.Subject())
				key, ok := unescape(strings.TrimPrefix(m.Subject(), all))
				name, within := strings.CutPrefix(key, d.prefix)
				deleted := m.Headers().Get(sizeHeader) == strconv.Itoa(engine.TombstoneSize)
				meta, err := m.Metadata()
				if !ok || !within || store.CheckKey(name) != nil || err != nil || deleted && !tombstones {
					continue
				}
				if !yield(show(store.Tagged{Key: name, Tag: string(tagOf(meta.Sequence.Stream))}), nil) {
					return
				}
			}
		}
	}
}

// subjects returns the subjects in the bucket that match a filter, and the server that leads the bucket.
func (d *driver) subjects(ctx context.Context, filter string) (all map[string]uint64, leader string, err error) {
	all = map[string]uint64{}
	bytes := 0
	for more := true; more; {
		ask, _ := json.Marshal(map[string]any{"subjects_filter": filter, "offset": len(all)})
		var answer struct {
			Error   *jetstream.APIError                  `json:"error"`
			Total   int                                  `json:"total"`
			Cluster struct{ Leader string }              `json:"cluster"`
			State   struct{ Subjects map[string]uint64 } `json:"state"`
		}
		err := d.send(ctx, &nats.Msg{Subject: "$JS.API.STREAM.INFO." + d.stream(), Data: ask}, &answer)
		if err == nil && answer.Error != nil {
			err = d.explain(answer.Error)
		}
		for subject := range answer.State.Subjects {
			bytes += len(subject)
		}
		if err == nil && bytes > maxListing {
			err = fmt.Errorf("%w: the keys below the prefix have more than %d bytes, too many for a listing; list a longer prefix", store.ErrCorrupt, maxListing)
		}
		if err != nil {
			return nil, "", err
		}
		maps.Copy(all, answer.State.Subjects)
		leader, more = answer.Cluster.Leader, len(all) < answer.Total && len(answer.State.Subjects) > 0
	}
	return all, leader, nil
}

// consumer creates a consumer on the server that leads the bucket. The server that creates a consumer puts it on a random
// replica, whose messages can be some writes behind.
func (d *driver) consumer(ctx context.Context, filter, leader string) (jetstream.Consumer, error) {
	for range maxConsumers {
		consumer, err := bounded(ctx, d, "$JS.API.CONSUMER.", func(ctx context.Context) (jetstream.Consumer, error) {
			return d.js.CreateConsumer(ctx, d.stream(), jetstream.ConsumerConfig{
				FilterSubject: filter, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, AckPolicy: jetstream.AckNonePolicy,
				HeadersOnly: true, InactiveThreshold: 30 * time.Second, MemoryStorage: true, Replicas: 1,
			})
		})
		if err != nil {
			return nil, err
		}
		if on := consumer.CachedInfo().Cluster; on == nil || leader == "" || on.Leader == leader {
			return consumer, nil
		}
		d.end(ctx, consumer)
	}
	return nil, fmt.Errorf("%w: the server that leads the bucket takes no consumer", store.ErrUnavailable)
}

// end removes a consumer. If that fails, the server removes it after a while.
func (d *driver) end(ctx context.Context, consumer jetstream.Consumer) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = d.js.DeleteConsumer(ctx, d.stream(), consumer.CachedInfo().Name)
}

// page fetches the next messages of a listing, but at most n.
func (d *driver) page(ctx context.Context, consumer jetstream.Consumer, n int) (page []jetstream.Msg, err error) {
	if err := store.CheckContext(ctx); err != nil {
		return nil, err
	}
	batch, err := consumer.Fetch(n, jetstream.FetchMaxWait(min(pageWait, engine.Share(ctx, d.o.Timeout))))
	if err != nil {
		return nil, d.explain(err)
	}
	for m := range batch.Messages() {
		page = append(page, m)
	}
	if err := batch.Error(); err != nil {
		return nil, d.explain(err)
	}
	return page, nil
}
