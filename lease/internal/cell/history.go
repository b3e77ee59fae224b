package cell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/store"
)

// HistoryDir is where the older parts of histories lie, with the keys of their locks. Commands of earlier versions
// ignore the keys below .holdfast.
const HistoryDir = ".holdfast/history/"

// maxMoves bounds the moves of entries of one client at the same time. There is one move for a lock: a later
// one must not be faster. A client that is busy makes none: the entries stay in the record, and the next move
// takes them.
const maxMoves = 16

// moves are the moves of entries from records to their registers. A move is in a goroutine of its own: no
// lease waits for it, and its failure changes nothing else.
type moves struct {
	mu     sync.Mutex
	closed bool
	now    map[string]bool              // keys of locks with a move in flight
	done   Recents[lockrec.HistoryMark] // by the keys of locks
	all    sync.WaitGroup
	life   context.Context // of the requests; nil if the client keeps no history
	end    context.CancelFunc
}

// Chronicle adds to rec, which will be written over the record base, the history of this change. It reports
// whether to call [Cell.MoveHistory] when the write is applied.
func (c *Cell) Chronicle(rec, base *lockrec.Record, cause *lockrec.Cause) bool {
	s := c.Space
	n := lockrec.HistoryNote{Time: s.Clock.Wall(), By: s.Set.Holder, Keep: s.Set.History, Cause: *cmp.Or(cause, &lockrec.Cause{})}
	if n.Keep {
		s.moves.mu.Lock()
		n.Moved, _ = s.moves.done.Get(c.Key)
		s.moves.mu.Unlock()
	}
	return lockrec.Chronicle(rec, base, n)
}

// historyKey returns the key of the older part of the history of a lock with this key; empty if it would be
// too long.
func historyKey(lock string) string {
	if key := HistoryDir + lock; len(key) <= store.MaxKey {
		return key
	}
	return ""
}

// History reads the history of the lock.
func (c *Cell) History(ctx context.Context) ([]lockrec.HistoryEntry, error) {
	s, err := c.Fetch(ctx)
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return nil, err
	}
	var rec *lockrec.Record
	if err == nil {
		rec = s.Rec
	}
	var older []byte
	if key := historyKey(c.Key); key != "" {
		var unread error
		if older, _, unread = c.Space.Store.Get(ctx, key); unread != nil && !errors.Is(unread, store.ErrNotFound) {
			err = errors.Join(err, fmt.Errorf("history of %s: %w", c, unread))
		}
	}
	entries, damaged := lockrec.HistoryOf(c.Name(), rec, older)
	if err = errors.Join(err, damaged); err == nil && rec == nil && older == nil {
		err = c.Absent()
	}
	return entries, err
}

// RemoveHistory removes the older part of the history of a lock that has no record. It reads the history before
// the record: if a client takes the lock in between, its moves of entries change the history, and the delete
// conflicts.
func (c *Cell) RemoveHistory(ctx context.Context) error {
	key := historyKey(c.Key)
	_, v, err := c.Space.Store.Get(ctx, key)
	var s *Seen
	if err == nil {
		s, err = c.Fetch(ctx)
	}
	if err == nil && s.Rec == nil {
		err = c.Space.Store.Delete(ctx, key, v)
	}
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict) {
		return nil
	}
	return err
}

// MoveHistory begins to move the entries in rec, which is in the store, to the register of the history.
// That takes two requests at most, and is not tried again: the next move takes the same entries.
func (c *Cell) MoveHistory(rec *lockrec.Record) {
	s, m, key, lock := c.Space, &c.Space.moves, historyKey(c.Key), c.Key
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.life == nil || len(m.now) >= maxMoves || m.now[lock] || key == "" {
		return
	}
	m.now[lock] = true
	m.all.Go(func() {
		mark, err := s.moveHistory(m.life, key, rec)
		m.mu.Lock()
		defer m.mu.Unlock()
		if delete(m.now, lock); err == nil {
			m.done.Put(lock, mark)
		}
	})
}

func (c *Space) moveHistory(ctx context.Context, key string, rec *lockrec.Record) (mark lockrec.HistoryMark, _ error) {
	old, version, err := c.Store.Get(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return mark, err
	}
	value, mark, err := lockrec.MoveHistory(rec, old)
	if err == nil && value != nil {
		_, err = c.Store.Put(ctx, key, version, value)
	}
	return mark, err
}

// FinishMoves waits for the moves in flight until ctx ends, and then ends them.
func (c *Space) FinishMoves(ctx context.Context) {
	m := &c.moves
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	if m.life == nil {
		return
	}
	done := make(chan struct{})
	go func() {
		m.all.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	m.end()
}

// isHistory reports whether a request is for the register of a history.
func isHistory(op *store.Op) bool { return strings.HasPrefix(op.Key, HistoryDir) }
