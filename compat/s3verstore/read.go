package s3verstore

import (
	"bytes"
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/store"
)

// result returns the state that an entry made; nil means that the register is absent.
func result(p *orderedEntry) ([]byte, store.Version, error) {
	if p == nil || p.deleted {
		return nil, "", store.ErrNotFound
	}
	return bytes.Clone(p.value), p.made(), nil
}

// Get implements [store.Store]. It returns immediately in two cases: the state is confirmed, or the
// Store first saw the state at least [Options].SettleDelay ago. Otherwise Get waits until then, and
// lists again. If the context ends first, Get returns an error.
func (s *Store) Get(ctx context.Context, key string) ([]byte, store.Version, error) {
	r, err := s.begin(ctx, key)
	if err != nil {
		return nil, "", s.opError("get", key, err)
	}
	p, err := s.settled(ctx, r)
	if err != nil {
		return nil, "", s.opError("get", key, err)
	}
	value, v, err := result(p)
	return value, v, s.opError("get", key, err)
}

// settled returns the last accepted entry that is final; nil if there is none. If the
// state is not final yet, settled waits and lists again.
func (s *Store) settled(ctx context.Context, r *register) (*orderedEntry, error) {
	v, err := s.readVersions(ctx, r, forRead)
	if err != nil {
		return nil, err
	}
	if tip := v.tip(); tip != v.certain() {
		// After the wait, the entries up to the position of this tip are final.
		if backoff.Sleep(ctx, time.Until(tip.first.Add(s.o.SettleDelay))) != nil {
			return nil, store.Cause(ctx)
		}
		if v, err = s.readVersions(ctx, r, forRead); err != nil {
			return nil, err
		}
	}
	return v.certain(), nil
}

// GetUncommitted implements [store.UncommittedReader]: it never waits for the settle delay. A caller can use the result
// to watch a key, or as the base of a write. The result may be the value of a write that later
// loses against another write.
func (s *Store) GetUncommitted(ctx context.Context, key string) ([]byte, store.Version, error) {
	r, err := s.begin(ctx, key)
	if err != nil {
		return nil, "", s.opError("get-uncommitted", key, err)
	}
	v, err := s.readVersions(ctx, r, forUncommitted)
	if err != nil {
		return nil, "", s.opError("get-uncommitted", key, err)
	}
	value, version, err := result(v.tip())
	return value, version, s.opError("get-uncommitted", key, err)
}

// HighestToken implements [store.UncommittedReader]. If this Store listed or wrote the key less
// than [Options].SettleDelay ago, HighestToken sends no request.
func (s *Store) HighestToken(ctx context.Context, key string) (uint64, error) {
	r, err := s.begin(ctx, key)
	if err != nil {
		return 0, s.opError(store.OpHighestToken, key, err)
	}
	if b := r.getBase(); !b.at.IsZero() && time.Since(b.at) < s.o.SettleDelay {
		return b.highest, nil
	}
	v, err := s.readVersions(ctx, r, forUncommitted)
	if err != nil {
		return 0, s.opError(store.OpHighestToken, key, err)
	}
	return v.highestToken(), nil
}
