package kubestore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

// get reads the object of a register.
func (d *driver) get(ctx context.Context, key string) (*metadata, error) {
	var found lease
	if err := d.send(ctx, http.MethodGet, d.path(key), nil, nil, &found, maxAnswer); err != nil {
		return nil, err
	}
	if got := d.key(&found.Metadata); got != key {
		return nil, fmt.Errorf("%w: the object %s belongs to the key %.100q", store.ErrCorrupt, d.name(key), got)
	}
	return &found.Metadata, nil
}

// decode returns the state in an object.
func decode(m *metadata) (engine.Stored, error) {
	e, err := engine.Decode([]byte(m.Annotations[recordAnnotation]))
	return engine.Stored{Envelope: e, Tag: m.tag()}, err
}

// Read implements [engine.Driver].
func (d *driver) Read(ctx context.Context, key string, _ engine.Tag) (engine.Stored, error) {
	m, err := d.get(ctx, key)
	if err != nil {
		return engine.Stored{}, err
	}
	return decode(m)
}

// ReadRaw implements [engine.RawReader].
func (d *driver) ReadRaw(ctx context.Context, key string) (body []byte, on engine.Stored, err error) {
	m, err := d.get(ctx, key)
	if err != nil {
		return nil, on, err
	}
	on.Nonce, on.Tag = "tag", m.tag() // the condition is the tag alone
	return []byte(m.Annotations[recordAnnotation]), on, nil
}

// Write implements [engine.Driver] by one POST or PUT.
func (d *driver) Write(ctx context.Context, key string, on engine.Stored, e engine.Envelope) (engine.Tag, error) {
	object := lease{"coordination.k8s.io/v1", "Lease", metadata{
		Name:        d.name(key),
		Labels:      map[string]string{prefixLabel: hash(d.o.Prefix)[:40]},
		Annotations: map[string]string{keyAnnotation: d.o.Prefix + "/" + key, recordAnnotation: string(e.Encode())},
	}}
	if e.Deleted {
		object.Metadata.Labels[deletedLabel] = "true"
	}
	method, path := http.MethodPost, d.leases
	if !on.Absent() {
		method, path = http.MethodPut, d.path(key)
		var ok bool
		m := &object.Metadata
		if m.ResourceVersion, m.UID, ok = strings.Cut(string(on.Tag), "."); !ok || m.ResourceVersion == "" || m.UID == "" {
			return "", fmt.Errorf("%w: the version has the tag %.80q", store.ErrVersion, on.Tag)
		}
	}
	var written lease
	if err := d.send(ctx, method, path, nil, object, &written, maxAnswer); err != nil {
		return "", err
	}
	if written.Metadata.UID == "" || written.Metadata.ResourceVersion == "" {
		return "", fmt.Errorf("%w: the answer of the server names no state", store.ErrUnavailable)
	}
	return written.Metadata.tag(), nil
}

// Remove implements [engine.Remover].
func (d *driver) Remove(ctx context.Context, key string) error {
	err := d.send(ctx, http.MethodDelete, d.path(key), nil, nil, nil, maxAnswer)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
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

// ListTags implements [store.TagLister]. The tag is the resourceVersion and the uid of the object.
func (s *Store) ListTags(ctx context.Context, prefix string) iter.Seq2[store.Tagged, error] {
	return engine.Listing(ctx, s.Store, store.OpListTags, prefix, func(ctx context.Context, prefix string) iter.Seq2[store.Tagged, error] {
		return list(ctx, s.d, prefix, false, func(t store.Tagged) store.Tagged { return t })
	})
}

// ListCost implements [store.TagLister].
func (s *Store) ListCost() store.ListCost { return store.ListCost{Gets: 5, Keys: pageSize} }

// list yields the keys below a prefix, page by page. The API server selects by the prefix of the store alone.
func list[T any](ctx context.Context, d *driver, prefix string, tombstones bool, show func(store.Tagged) T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		query := url.Values{"labelSelector": {d.selector(tombstones)}, "limit": {strconv.Itoa(pageSize)}}
		for range maxPages {
			var page struct {
				Metadata metadata `json:"metadata"`
				Items    []lease  `json:"items"`
			}
			err := d.send(ctx, http.MethodGet, d.leases, query, nil, &page, maxPage)
			if expired := (*expiredError)(nil); errors.As(err, &expired) && expired.next != "" {
				query.Set("continue", expired.next) // the caller took some minutes for the page before
				continue
			}
			if err != nil {
				yield(none, err)
				return
			}
			for _, object := range page.Items {
				key := d.key(&object.Metadata)
				if key == "" || prefix != "" && !strings.HasPrefix(key, prefix+"/") {
					continue
				}
				if !yield(show(store.Tagged{Key: key, Tag: string(object.Metadata.tag())}), nil) {
					return
				}
			}
			if page.Metadata.Continue == "" {
				return
			}
			query.Set("continue", page.Metadata.Continue)
		}
		yield(none, fmt.Errorf("%w: the listing has more than %d pages", store.ErrCorrupt, maxPages))
	}
}
