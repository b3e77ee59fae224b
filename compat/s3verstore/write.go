package s3verstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/internal/aws/awscall"
	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/sysclock"
	"github.com/holdfast-go/holdfast/internal/workerpool"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// cleanAt is how many versions have to be superseded before they are removed.
	cleanAt = 8

	// cleanTime is how long that may take.
	cleanTime = 5 * time.Second
)

// Put implements [store.Store]. It takes at least [Options].SettleDelay. If the deadline of the
// context is earlier, Put returns an error and sends no request.
func (s *Store) Put(ctx context.Context, key string, prev store.Version, value []byte) (store.Version, error) {
	v, err := s.write(ctx, key, prev, &entry{value: bytes.Clone(value)}, true)
	return v, s.opError("put", key, err)
}

// PutUnsynced implements [store.UnsyncedPutter]. Unlike Put, it does not send the request that
// confirms the write. Under the conditions in the package comment, PutUnsynced is as safe as Put.
// If the PUT of another client takes effect later than L, a write of PutUnsynced can be lost. If a
// client reads the write and then calls Put, that Put also confirms the write.
func (s *Store) PutUnsynced(ctx context.Context, key string, prev store.Version, value []byte) (store.Version, error) {
	v, err := s.write(ctx, key, prev, &entry{value: bytes.Clone(value)}, false)
	return v, s.opError("put", key, err)
}

// Delete implements [store.Store]. It writes a tombstone. It has the same outcomes and the same
// pause as Put.
func (s *Store) Delete(ctx context.Context, key string, prev store.Version) error {
	if err := store.CheckDelete(key, prev); err != nil {
		return s.opError("delete", key, err)
	}
	_, err := s.write(ctx, key, prev, &entry{deleted: true}, true)
	return s.opError("delete", key, err)
}

// write appends e, which has a value or none, to the chain after prev.
func (s *Store) write(ctx context.Context, key string, prev store.Version, e *entry, confirm bool) (v store.Version, err error) {
	defer func() {
		if e.nonce != "" && store.OutcomeOf(err) == store.Unknown {
			err = &store.InDoubtError{Version: e.made(), Err: err}
		}
	}()
	if err := store.CheckPut(key, e.value); err != nil {
		return "", err
	}
	before, err := parseVersion(prev)
	if err != nil {
		return "", err
	}
	r, err := s.begin(ctx, key)
	if err != nil {
		return "", store.MarkNotApplied(err)
	}
	if err := s.timeEnough(ctx); err != nil {
		return "", err
	}
	b, err := s.baseFor(ctx, r, before)
	if err != nil {
		return "", err
	}
	e.write, e.key, e.life = true, s.prefix+key, s.o.PutLifetime
	e.nonce, e.number, e.prev = rand.Text(), b.tip.number+1, b.tip.nonce
	e.start = b.start
	e.highest = max(b.highest, store.TokenOf(ctx))
	if err := s.send(ctx, r, e); err != nil {
		return "", err
	}
	if err := backoff.Sleep(ctx, s.o.SettleDelay); err != nil {
		return "", store.MarkUnknown(fmt.Errorf("the context ended during the pause after the PUT, before the store knew whether the write won: %w", err))
	}
	if err := s.resolveWrite(ctx, r, e, prev, confirm); err != nil {
		return "", err
	}
	return e.made(), nil
}

// timeEnough refuses a write whose context would end in its pause.
func (s *Store) timeEnough(ctx context.Context) error {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < s.o.SettleDelay {
		return store.MarkNotApplied(fmt.Errorf("%w: a write on this store takes %v, but the context ends in %v", context.DeadlineExceeded, s.o.SettleDelay, time.Until(end).Round(time.Millisecond)))
	}
	return nil
}

// baseFor returns what is known of the state before, or a conflict if the register is
// in another. It looks only if the last look, or write, ended in another state.
func (s *Store) baseFor(ctx context.Context, r *register, before entryID) (base, error) {
	b := r.getBase()
	if !b.at.IsZero() && before.nonce != "" && b.tip == before {
		return b, nil
	}
	why := forUncommitted
	if before.nonce != "" {
		why = forRead // a listing that shows nothing must not refuse it
	}
	v, err := s.readVersions(ctx, r, why)
	if err != nil {
		return base{}, store.MarkNotApplied(err)
	}
	tip := v.tip()
	absent := tip == nil || tip.deleted
	switch {
	case before.nonce == "" && absent, before.nonce != "" && !absent && tip.entryID() == before:
	case tip == v.certain():
		return base{}, conflict(r.key, tip)
	default:
		return base{}, &store.ConflictError{Key: r.key}
	}
	if len(v.entries) == 0 {
		if err := s.alone(ctx, r.key); err != nil {
			return base{}, store.MarkNotApplied(err)
		}
	}
	return newBase(v, time.Now()), nil
}

// conflict is a conflict with a state that is certain; nil stands for none.
func conflict(key string, p *orderedEntry) error {
	value, v, err := result(p)
	if err != nil {
		value = nil
	}
	return &store.ConflictError{Key: key, HasCurrent: true, Value: value, Version: v}
}

// send puts an entry. nil means that it was answered within Life, by all clocks; any
// other outcome than a refusal is unknown, and the entry is left alone: others may
// have built on it.
func (s *Store) send(ctx context.Context, r *register, e *entry) error {
	body, err := e.encode()
	if err != nil {
		return store.MarkNotApplied(err)
	}
	watch := sysclock.Read()
	id, err := s.put(ctx, r.object, body)
	if err != nil {
		return err
	}
	if id == "" || id == s3bucket.NullVersion {
		s.bucketState.good.Store(false)
		err := s.ready(ctx)
		if err == nil {
			err = fmt.Errorf("%w: the server wrote a version, but returned no version id although versioning is enabled", store.ErrUnsafe)
		}
		return store.MarkUnknown(err)
	}
	if took := watch.Elapsed(); took > s.o.PutLifetime {
		return store.MarkUnknown(fmt.Errorf("%w: the PUT took %v, but at most %v is allowed (put_lifetime)", store.ErrUnavailable, took.Round(time.Millisecond), s.o.PutLifetime))
	}
	r.noteEntry(id, e, time.Now())
	return nil
}

// resolveWrite reports the outcome of an entry whose pause is over, and confirms it.
func (s *Store) resolveWrite(ctx context.Context, r *register, e *entry, prev store.Version, confirm bool) error {
	watch := sysclock.Read()
	v, err := s.readVersions(ctx, r, forResolve)
	if err != nil {
		return store.MarkUnknown(err)
	}
	defer s.clean(ctx, r, v)
	if err := s.verdict(r, v, e, prev); err != nil {
		return err
	}
	made := v.in(v.chain, e.nonce).asStart()
	if confirm {
		if err := s.confirm(ctx, r, e, made, watch); err != nil {
			return store.MarkUnknown(fmt.Errorf("the write was applied, but this client could not confirm it in time: %w", err))
		}
	}
	r.setBase(base{tip: e.entryID(), start: made, highest: max(v.highestToken(), e.highest), at: time.Now()})
	return nil
}

// verdict returns nil if an entry counts, a conflict if it never will, and an unknown
// outcome if that can't be known. prev is the state that the caller asked for.
func (s *Store) verdict(r *register, v *view, e *entry, prev store.Version) error {
	at := v.find(e.nonce)
	now, old := v.in(v.chain, e.nonce) != nil, v.in(v.oldChain, e.nonce) != nil
	switch {
	case now && old && v.stands(e.nonce):
		return nil
	case now && old:
		return store.MarkUnknown(errors.New("the server applied the PUT twice, and the copy that counts became visible only after the pause (settle_delay)"))
	case at < 0 || at < v.start || v.start >= 0 && e.number < v.entries[v.start].number:
		// Older entries are not read, since no fold needs them. What is there of an entry
		// with a lower number than the start may be a second copy, made when its PUT
		// was applied again, and void; the first one may have counted before the start.
		return store.MarkUnknown(errors.New("other clients wrote too often after the PUT, so this client cannot know whether the write was applied"))
	case now || old:
		s.o.Logger.Warn("other clients wrote before the state was final; a PUT may have taken effect later than put_lifetime", "object", r.object, "life", s.o.PutLifetime)
		return store.MarkUnknown(errors.New("during this write, other clients wrote before the state was final"))
	}
	// The state before it is as final as it is itself.
	p := v.certain()
	if prev == "" && (p == nil || p.deleted) {
		// What it found was written and deleted since: nothing prevents it now.
		return &store.ConflictError{Key: r.key}
	}
	return conflict(r.key, p)
}

// confirm names an entry, by the version that made it count, as a start, so that it
// counts whatever becomes visible before it. A confirmation must be answered within Life
// of the beginning of the look that showed that the entry counts; one that fails is sent
// again until then, and no longer: by then another may have confirmed something else.
func (s *Store) confirm(ctx context.Context, r *register, e *entry, made start, watch sysclock.Reading) error {
	for try := 1; ; try++ {
		err := s.send(ctx, r, &entry{
			nonce: rand.Text(), number: e.number, key: e.key, start: made, highest: e.highest, life: s.o.PutLifetime,
		})
		took := watch.Elapsed()
		switch {
		case err == nil && took > s.o.PutLifetime:
			return fmt.Errorf("%w: the PUT took %v, but at most %v is allowed (put_lifetime)", store.ErrUnavailable, took.Round(time.Millisecond), s.o.PutLifetime)
		case err == nil:
			return nil
		case took > s.o.PutLifetime, !errors.Is(err, store.ErrUnavailable), !awscall.Pause(ctx, firstPause, try):
			return err
		}
	}
}

// clean removes what a judgement showed to be superseded, when there is enough of it.
// It never makes a call fail.
func (s *Store) clean(ctx context.Context, r *register, v *view) {
	if s.o.KeepAllVersions || v.sure < 0 || ctx.Err() != nil {
		return
	}
	ids := v.garbage()
	older := r.candidates(v.older, v.removable)
	if len(ids)+len(older) < cleanAt {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, cleanTime)
	defer cancel()
	// Half of the time to read, so that what was read is removed: a store that is new
	// for each call would otherwise never get on with many of them.
	reading, stop := context.WithTimeout(ctx, cleanTime/2)
	ids = append(ids, s.removableIDs(reading, r, older, v.removable)...)
	stop()
	if failed, err := s.versions.Remove(ctx, r.object, ids); err != nil {
		s.o.Logger.Warn("superseded versions could not be removed", "object", r.object, "versions", failed, "error", err)
	}
}

// removableIDs returns the ids of those versions that are entries which may be removed. It
// reads what is not known, as far as it comes.
func (s *Store) removableIDs(ctx context.Context, r *register, versions []version, removable func(number uint64) bool) (ids []string) {
	var mu sync.Mutex
	workerpool.Each(len(versions), parallel, func(i int) {
		if number, ok := s.numberOf(ctx, r, versions[i]); ok && removable(number) {
			mu.Lock()
			ids = append(ids, versions[i].id)
			mu.Unlock()
		}
	})
	return ids
}

// numberOf returns the number of the entry that a version is; the highest there is if it
// is none of ours, so that it stays.
func (s *Store) numberOf(ctx context.Context, r *register, w version) (number uint64, ok bool) {
	if number, ok := r.number(w.id); ok || ctx.Err() != nil {
		return number, ok
	}
	e, err := s.entry(ctx, r.object, w)
	switch {
	case errors.Is(err, store.ErrCorrupt), err == nil && e.key != s.prefix+r.key:
		number = math.MaxUint64
	case err != nil:
		return 0, false
	default:
		number = e.number
	}
	r.noteSuperseded(w.id, number)
	return number, true
}
