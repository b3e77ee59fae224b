package s3verstore

import (
	"bytes"
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/store"
)

// result returns the state that an entry made; nil stands for none.
func result(p *orderedEntry) ([]byte, store.Version, error) {
	if p == nil || p.deleted {
		return nil, "", store.ErrNotFound
	}
	return bytes.Clone(p.value), p.made(), nil
}

// Get implements [store.Store]. It returns immediately in two cases: the state is confirmed, or the
// Store first saw the state at least one pause ago. Otherwise Get pauses and lists again. The
// context also bounds the pause.
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

// settled returns the newest entry that is certain, after a pause if it has to; nil
// if there is none.
func (s *Store) settled(ctx context.Context, r *register) (*orderedEntry, error) {
	v, err := s.readVersions(ctx, r, forRead)
	if err != nil {
		return nil, err
	}
	if tip := v.tip(); tip != v.certain() {
		// After it, the chain up to the place of this tip is final, whatever it is then.
		if err := backoff.Sleep(ctx, time.Until(tip.first.Add(s.o.SettleDelay))); err != nil {
			return nil, err
		}
		if v, err = s.readVersions(ctx, r, forRead); err != nil {
			return nil, err
		}
	}
	return v.certain(), nil
}

// GetUncommitted implements [store.UncommittedGetter]: it never pauses. A caller can use the result
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

// HighestToken implements [store.TokenReader]. If this Store has listed or written the key within
// the last pause, HighestToken sends no request.
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
