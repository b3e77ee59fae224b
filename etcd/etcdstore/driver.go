package etcdstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

// keys returns the key of a register in etcd, and that of its tombstone.
func (d *driver) keys(key string) (live, tombstone string) {
	return d.prefix + key, d.prefix + key + "/"
}

// getBoth are the operations that read a register.
func getBoth(live, tombstone string) []clientv3.Op {
	return []clientv3.Op{clientv3.OpGet(live), clientv3.OpGet(tombstone)}
}

// found returns what [getBoth] has read, without its envelope, and the text of the envelope. The tag of a
// state is its modification revision. The revision of a tombstone is negative.
func found(answers []*etcdserverpb.ResponseOp) (kv *mvccpb.KeyValue, tag engine.Tag, err error) {
	if len(answers) != 2 {
		return nil, "", fmt.Errorf("%w: the server answered %d of 2 reads", store.ErrUnavailable, len(answers))
	}
	for i, sign := range []int64{1, -1} {
		if kvs := answers[i].GetResponseRange().GetKvs(); len(kvs) > 0 {
			return kvs[0], tagOf(sign * kvs[0].ModRevision), nil
		}
	}
	return nil, "", store.ErrNotFound
}

func tagOf(revision int64) engine.Tag { return engine.Tag(strconv.FormatInt(revision, 10)) }

// decode returns the state that answers of [getBoth] show.
func decode(answers []*etcdserverpb.ResponseOp) (engine.Stored, error) {
	kv, tag, err := found(answers)
	if err != nil {
		return engine.Stored{}, err
	}
	e, err := engine.Decode(kv.Value)
	return engine.Stored{Envelope: e, Tag: tag}, err
}

// get reads the two keys of a register. It also returns the revision at which the server has read them.
func (d *driver) get(ctx context.Context, key string) (answers []*etcdserverpb.ResponseOp, revision int64, err error) {
	resp, err := send(ctx, d, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return d.client.Txn(ctx).Then(getBoth(d.keys(key))...).Commit()
	})
	if err != nil {
		return nil, 0, err
	}
	return resp.Responses, resp.Header.GetRevision(), nil
}

// Read implements [engine.Driver].
func (d *driver) Read(ctx context.Context, key string, _ engine.Tag) (engine.Stored, error) {
	answers, _, err := d.get(ctx, key)
	if err != nil {
		return engine.Stored{}, err
	}
	return decode(answers)
}

// ReadRaw implements [engine.RawReader].
func (d *driver) ReadRaw(ctx context.Context, key string) (body []byte, on engine.Stored, err error) {
	answers, _, err := d.get(ctx, key)
	if err != nil {
		return nil, on, err
	}
	kv, tag, err := found(answers)
	if err != nil {
		return nil, on, err
	}
	on.Nonce, on.Tag = "revision", tag // the condition is the tag alone
	return kv.Value, on, nil
}

// Write implements [engine.Driver] by one transaction.
func (d *driver) Write(ctx context.Context, key string, on engine.Stored, e engine.Envelope) (engine.Tag, error) {
	live, tombstone := d.keys(key)
	revision, err := strconv.ParseInt(string(cmp.Or(on.Tag, "0")), 10, 64)
	if err != nil || (revision == 0) != on.Absent() {
		return "", fmt.Errorf("%w: the version has the revision %.40q", store.ErrVersion, on.Tag)
	}
	// A condition on a tombstone, or on nothing, also demands that there is no value.
	conditions := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(live), "=", max(revision, 0))}
	if revision <= 0 {
		conditions = append(conditions, clientv3.Compare(clientv3.ModRevision(tombstone), "=", -revision))
	}
	written, removed, sign := live, tombstone, int64(1)
	if e.Deleted {
		written, removed, sign = tombstone, live, -1
	}
	resp, err := send(ctx, d, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return d.client.Txn(ctx).If(conditions...).
			Then(clientv3.OpPut(written, string(e.Encode())), clientv3.OpDelete(removed)).
			Else(getBoth(live, tombstone)...).Commit()
	})
	switch {
	case err != nil:
		return "", err
	case resp.Succeeded:
		return tagOf(sign * resp.Header.GetRevision()), nil
	}
	current, err := decode(resp.Responses)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return "", store.MarkNotApplied(err)
	}
	return "", &engine.ConditionFailedError{HasCurrent: true, Current: current}
}

// Remove implements [engine.Remover].
func (d *driver) Remove(ctx context.Context, key string) error {
	live, tombstone := d.keys(key)
	_, err := send(ctx, d, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return d.client.Txn(ctx).Then(clientv3.OpDelete(live), clientv3.OpDelete(tombstone)).Commit()
	})
	return err
}

// List implements [engine.Driver].
func (d *driver) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return list(ctx, d, prefix, false, func(t store.Tagged) string { return t.Key })
}

// ListAll does the same as List, but also yields the keys of tombstones. A program that has created
// registers to test a store finds them with ListAll and removes them with Erase.
func (s *Store) ListAll(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return list(ctx, s.d, prefix, true, func(t store.Tagged) string { return t.Key })
}

// ListTags implements [store.TagLister]. The tag is the modification revision of the key.
func (s *Store) ListTags(ctx context.Context, prefix string) iter.Seq2[store.Tagged, error] {
	return engine.Listing(ctx, s.Store, store.OpListTags, prefix, func(ctx context.Context, prefix string) iter.Seq2[store.Tagged, error] {
		return list(ctx, s.d, prefix, false, func(t store.Tagged) store.Tagged { return t })
	})
}

// ListCost implements [store.TagLister].
func (s *Store) ListCost() store.ListCost { return store.ListCost{Gets: 5, Keys: pageSize} }

// list yields the keys below a prefix, page by page.
func list[T any](ctx context.Context, d *driver, prefix string, tombstones bool, show func(store.Tagged) T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		below, end := d.prefix, ""
		if prefix != "" {
			below += prefix + "/"
		}
		if end = clientv3.GetPrefixRangeEnd(below); below == "" {
			below, end = "\x00", "\x00" // all keys of etcd
		}
		var none T
		total := 0
		for start, more := below, true; more; {
			page, err := send(ctx, d, func(ctx context.Context) (*clientv3.GetResponse, error) {
				return d.client.Get(ctx, start, clientv3.WithRange(end), clientv3.WithKeysOnly(), clientv3.WithLimit(pageSize))
			})
			if err != nil {
				yield(none, err)
				return
			}
			for _, kv := range page.Kvs {
				key := string(kv.Key)
				total += len(key)
				// Without this check, a wrong server could make the listing endless.
				if key < start || total > maxListing {
					yield(none, fmt.Errorf("%w: the server returned keys out of order, or more than %d bytes of keys; list a longer prefix", store.ErrCorrupt, maxListing))
					return
				}
				start = key + "\x00"
				name, deleted := strings.CutSuffix(strings.TrimPrefix(key, d.prefix), "/")
				// Keys of other programs may be no keys of registers.
				if deleted && !tombstones || store.CheckKey(name) != nil {
					continue
				}
				if !yield(show(store.Tagged{Key: name, Tag: string(tagOf(kv.ModRevision))}), nil) {
					return
				}
			}
			more = page.More && len(page.Kvs) > 0
		}
	}
}
