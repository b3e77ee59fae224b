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
	"github.com/holdfast-go/holdfast/internal/drivers/versionlog"
	"github.com/holdfast-go/holdfast/internal/sysclock"
	"github.com/holdfast-go/holdfast/internal/workerpool"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// cleanAt is the number of superseded versions from which a write removes them.
	cleanAt = 8

	// cleanTime is the time limit of a removal. If D is shorter, D is the limit: a lease is renewed by a
	// write, and its shortest TTL depends on D.
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

// Delete implements [store.Store]. It writes a tombstone. It has the same outcomes as Put and
// takes the same time.
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
	e.snapshot = b.snapshot
	e.highest = max(b.highest, store.TokenOf(ctx))
	if err := s.send(ctx, r, e); err != nil {
		return "", err
	}
	if backoff.Sleep(ctx, s.o.SettleDelay) != nil {
		return "", store.MarkUnknown(fmt.Errorf("the context ended during the wait after the PUT (settle_delay), before this client knew whether the write was applied: %w", store.Cause(ctx)))
	}
	if err := s.resolveWrite(ctx, r, e, prev, confirm); err != nil {
		return "", err
	}
	return e.made(), nil
}

// timeEnough refuses a write if its context would end during the settle delay.
func (s *Store) timeEnough(ctx context.Context) error {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < s.o.SettleDelay {
		return store.MarkNotApplied(fmt.Errorf("%w: a write on this store takes %v, but the context ends in %v", context.DeadlineExceeded, s.o.SettleDelay, time.Until(end).Round(time.Millisecond)))
	}
	return nil
}

// baseFor returns the state that a write replaces. If the register has another state,
// baseFor returns a conflict. It lists the versions only if the last listing or write of
// this store ended in another state.
func (s *Store) baseFor(ctx context.Context, r *register, before entryID) (base, error) {
	b := r.getBase()
	if !b.at.IsZero() && before.nonce != "" && b.tip == before {
		return b, nil
	}
	why := forUncommitted
	if before.nonce != "" {
		why = forRead // an empty listing may be wrong, so it must not cause a conflict
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

// conflict returns a conflict with a state that is final; nil means that the register is
// absent.
func conflict(key string, p *orderedEntry) error {
	value, v, _ := result(p)
	return &store.ConflictError{Key: key, HasCurrent: true, Value: value, Version: v}
}

// send puts an entry. nil means that the server answered within L, by all clocks of this
// machine. If the server refused the PUT, the error says so. After any other error, the
// outcome is unknown, and send does not remove the entry: the prev of other entries may
// name it.
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

// resolveWrite determines the outcome of an entry after the settle delay, and confirms it.
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
	made := v.at(v.Accepted(e.nonce)).asSnapshot()
	if confirm {
		if err := s.confirm(ctx, r, e, made, watch); err != nil {
			return store.MarkUnknown(fmt.Errorf("the write was applied, but this client could not confirm it in time: %w", err))
		}
	}
	r.setBase(base{tip: e.entryID(), snapshot: made, highest: max(v.highestToken(), e.highest), at: time.Now()})
	return nil
}

// verdict returns nil if the write of an entry was applied, a conflict if the entry can
// never be accepted, and otherwise an unknown outcome. PROOF.md lists the cases. prev is
// the state that the caller asked for.
func (s *Store) verdict(r *register, v *view, e *entry, prev store.Version) error {
	switch v.Outcome(e.nonce) {
	case versionlog.Applied:
		return nil
	case versionlog.Duplicated:
		return store.MarkUnknown(errors.New("the server applied a PUT twice, and one of the two versions became visible less than settle_delay ago; so this client cannot know whether the write was applied"))
	case versionlog.NotListed, versionlog.BeforeSnapshot, versionlog.BelowSnapshot:
		return store.MarkUnknown(errors.New("other clients wrote too often after the PUT, or the clock of the server went back, so this client cannot know whether the write was applied"))
	case versionlog.Disputed:
		s.o.Logger.Warn("other clients wrote before the state was final; a PUT may have taken effect later than put_lifetime", "object", r.object, "life", s.o.PutLifetime)
		return store.MarkUnknown(errors.New("during this write, other clients wrote before the state was final"))
	}
	// This entry is not recent. So the state that rejected it is final too.
	p := v.certain()
	if prev == "" && (p == nil || p.deleted) {
		// Another client wrote a value and deleted it: the caller can try again now.
		return &store.ConflictError{Key: r.key}
	}
	return conflict(r.key, p)
}

// confirm puts a confirmation that names the accepted version of an entry as a snapshot.
// Then the entry stays accepted, even if entries earlier in the log become visible. The
// server must answer within L after the beginning of the listing in which the entry was
// accepted. If a confirmation fails, confirm sends it again until this time. After this
// time, another client may have confirmed another entry.
func (s *Store) confirm(ctx context.Context, r *register, e *entry, made versionlog.Snapshot, watch sysclock.Reading) error {
	for try := 1; ; try++ {
		err := s.send(ctx, r, &entry{
			nonce: rand.Text(), number: e.number, key: e.key, snapshot: made, highest: e.highest, life: s.o.PutLifetime,
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

// clean removes the superseded versions of an evaluation, if there are at least cleanAt of
// them. If the removal fails, the write does not fail.
func (s *Store) clean(ctx context.Context, r *register, v *view) {
	if s.o.KeepAllVersions || v.Sure < 0 || ctx.Err() != nil {
		return
	}
	ids := v.Garbage()
	older := r.candidates(v.older, v.Removable)
	if len(ids)+len(older) < cleanAt {
		return
	}
	limit := min(cleanTime, s.o.SettleDelay)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	// Reading gets half of the time, so that time remains to remove the versions. Otherwise a
	// program that makes a new Store for each call might never remove a version.
	reading, stop := context.WithTimeout(ctx, limit/2)
	ids = append(ids, s.removableIDs(reading, r, older, v.Removable)...)
	stop()
	if failed, err := s.versions.Remove(ctx, r.object, ids); err != nil {
		s.o.Logger.Warn("superseded versions could not be removed", "object", r.object, "versions", failed, "error", err)
	}
}

// removableIDs returns the ids of those versions whose entries may be removed. It reads
// unknown entries until the context ends.
func (s *Store) removableIDs(ctx context.Context, r *register, versions []version, removable func(number uint64) bool) (ids []string) {
	var mu sync.Mutex
	workerpool.Each(len(versions), parallel, func(i int) error {
		if number, ok := s.numberOf(ctx, r, versions[i]); ok && removable(number) {
			mu.Lock()
			ids = append(ids, versions[i].id)
			mu.Unlock()
		}
		return nil
	})
	return ids
}

// numberOf returns the number of the entry in a version. If the version is not an entry of
// this register, numberOf returns the highest number, so that the version stays.
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
