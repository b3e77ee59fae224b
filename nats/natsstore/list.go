package natsstore

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

// maxConsumers is how many consumers a listing creates at most. Of five replicas, one is the right one.
const maxConsumers = 50

// sizeHeader is the size of a message of which a consumer gets the headers alone.
const sizeHeader = "Nats-Msg-Size"

// list yields the keys below a prefix. It reads the headers of the last message of each subject with a
// consumer in the memory of the server.
func list[T any](ctx context.Context, d *driver, prefix string, tombstones bool, show func(store.Tagged) T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		all := "$KV." + d.bucket + "."
		filter := d.prefix + prefix
		if filter = strings.TrimSuffix(filter, "/"); filter != "" {
			filter = escape(filter) + "."
		}
		consumer, err := d.consumer(ctx, all+filter+">")
		if err != nil {
			yield(none, err)
			return
		}
		defer d.end(ctx, consumer)
		seen, total := map[string]bool{}, 0 // a key that is written meanwhile comes again
		got := uint64(0)
		for pending := consumer.CachedInfo().NumPending; pending > 0; {
			page, left, err := d.page(ctx, consumer, &got)
			if err != nil {
				yield(none, err)
				return
			}
			pending = left
			for _, m := range page {
				key, ok := unescape(strings.TrimPrefix(m.Subject(), all))
				name, within := strings.CutPrefix(key, d.prefix)
				if !ok || !within || seen[key] || store.CheckKey(name) != nil {
					continue
				}
				if total += len(key); total > maxListing {
					yield(none, fmt.Errorf("%w: the keys below the prefix have more than %d bytes, too many for a listing; list a longer prefix", store.ErrCorrupt, maxListing))
					return
				}
				seen[key] = true
				deleted := m.Headers().Get(sizeHeader) == strconv.Itoa(engine.TombstoneSize)
				meta, err := m.Metadata()
				if err != nil || deleted && !tombstones {
					continue
				}
				if !yield(show(store.Tagged{Key: name, Tag: string(tagOf(meta.Sequence.Stream))}), nil) {
					return
				}
			}
		}
	}
}

// consumer creates a consumer on the server that leads the stream. The server that creates a consumer puts it on a random
// replica, whose messages can be some writes behind.
func (d *driver) consumer(ctx context.Context, filter string) (jetstream.Consumer, error) {
	stream, err := d.info(ctx)
	if err != nil {
		return nil, err
	}
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
		if on := consumer.CachedInfo().Cluster; on == nil || stream.Cluster == nil || on.Leader == stream.Cluster.Leader {
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

// errMissed: the server sends each message of a listing once.
var errMissed = fmt.Errorf("%w: a part of the listing was lost with the connection", store.ErrUnavailable)

// page fetches the next messages of a listing, and returns how many remain. It adds their number to got.
func (d *driver) page(ctx context.Context, consumer jetstream.Consumer, got *uint64) (page []jetstream.Msg, left uint64, err error) {
	if err := store.CheckContext(ctx); err != nil {
		return nil, 0, err
	}
	batch, err := consumer.Fetch(pageSize, jetstream.FetchMaxWait(engine.Share(ctx, d.o.Timeout)))
	if err != nil {
		return nil, 0, d.explain(err)
	}
	for m := range batch.Messages() {
		page = append(page, m)
		meta, err := m.Metadata()
		if err != nil {
			return nil, 0, d.explain(err)
		}
		if *got++; meta.Sequence.Consumer != *got {
			return nil, 0, errMissed
		}
		if left = meta.NumPending; left == 0 {
			return page, 0, nil // without a wait for further messages
		}
	}
	switch {
	case batch.Error() != nil:
		return nil, 0, d.explain(batch.Error())
	case len(page) == 0:
		// The messages that were pending may have been removed meanwhile.
		info, err := bounded(ctx, d, "$JS.API.CONSUMER.", consumer.Info)
		switch {
		case err == nil && info.NumPending > 0:
			err = fmt.Errorf("%w: the listing got no answer within %v", store.ErrUnavailable, engine.Share(ctx, d.o.Timeout))
		case err == nil && info.Delivered.Consumer != *got:
			err = errMissed
		}
		return nil, 0, err
	}
	return page, left, nil
}
