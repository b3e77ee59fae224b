package s3verstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/store"
)

// Repair removes all versions of a key that cannot be read. Then the key is absent. Before it
// removes anything, Repair passes each version to the function keep, which makes a copy. Then
// Repair calls the function with an empty version. When that call returns, the copies must be
// durable. If the function returns an error, Repair removes nothing. If the key can be read, or a
// newer program has written one of its versions, Repair removes nothing and the error matches
// [store.ErrInvalid]. If a version is larger than any entry, Repair cannot copy it: it removes
// nothing, and the error matches [errors.ErrUnsupported]. Repair does not remove a version that
// another client writes during the call. The version numbers of the key begin again at the start, so
// the caller must repair all data that depends on them.
func (s *Store) Repair(ctx context.Context, key string, keep func(version string, body []byte) error) error {
	return s.opError("repair", key, s.repair(ctx, key, keep))
}

func (s *Store) repair(ctx context.Context, key string, keep func(version string, body []byte) error) error {
	r, err := s.begin(ctx, key)
	if err != nil {
		return err
	}
	switch _, err := s.settled(ctx, r); {
	case err == nil:
		return fmt.Errorf("%w: the register can be read, so it needs no repair", store.ErrInvalid)
	case !errors.Is(err, store.ErrCorrupt):
		return err
	}
	l, err := s.list(ctx, r.object)
	if err != nil {
		return err
	}
	if l.null != nil {
		l.versions = append(l.versions, *l.null)
	}
	var kept []string
	for _, v := range l.versions {
		body, err := s.fetch(ctx, r.object, v)
		_, damage := decode(body)
		switch {
		case errors.Is(err, errVersionMissing):
			continue
		case err != nil:
		case errors.Is(damage, errNewer):
			err = store.MarkNotApplied(fmt.Errorf("%w: version %s of %s: %w", store.ErrInvalid, v.id, r.object, damage))
		case len(body) > maxBody:
			err = store.MarkNotApplied(fmt.Errorf("%w: version %s of %s has more than %d bytes; copy this version, and remove it with the tools of the storage system", errors.ErrUnsupported, v.id, r.object, maxBody))
		default:
			err = keep(v.id, body)
		}
		if err != nil {
			return err
		}
		kept = append(kept, v.id)
	}
	if err := keep("", nil); err != nil {
		return err
	}
	_, err = s.versions.Remove(ctx, r.object, kept)
	s.forget(key)
	return err
}

// forget forgets what is known of a key.
func (s *Store) forget(key string) {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	delete(s.cache.registers, key)
}
