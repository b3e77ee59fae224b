package filestore

import (
	"container/list"
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/store"
)

// cache keeps the logs that were used last, with one open file each.
type cache struct {
	max int

	mu   sync.Mutex
	logs map[string]*log
	lru  list.List // of *log; the unused ones, the longest unused first
}

// pin returns the log of a key. The cache does not close it before the matching unpin.
func (c *cache) pin(key string) *log {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.logs[key]
	if l == nil {
		if c.logs == nil {
			c.logs = make(map[string]*log)
		}
		l = &log{key: key, name: encodeKey(key), slot: make(slot, 1)}
		c.logs[key] = l
	}
	if l.place != nil {
		c.lru.Remove(l.place)
		l.place = nil
	}
	l.pins++
	return l
}

// unpin ends the use of a log. It closes logs beyond the bound, and drops those that
// turned out to have no file.
func (c *cache) unpin(l *log) {
	for _, old := range c.retire(l) {
		old.drop()
	}
}

func (c *cache) retire(l *log) (old []*log) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.pins--
	if l.pins > 0 {
		return nil
	}
	if l.seg == nil {
		delete(c.logs, l.key)
		return nil
	}
	if l.seg.broken() != nil {
		return nil // kept in the cache, so that the failed sync stays known
	}
	l.place = c.lru.PushBack(l)
	for len(c.logs) > c.max && c.lru.Len() > 0 {
		unused := c.lru.Remove(c.lru.Front()).(*log)
		delete(c.logs, unused.key)
		old = append(old, unused)
	}
	return old
}

// close closes all logs. None is in use.
func (c *cache) close() {
	c.mu.Lock()
	logs := c.logs
	c.logs = nil
	c.lru.Init()
	c.mu.Unlock()
	for _, l := range logs {
		l.drop()
	}
}

// slot has an element for each goroutine that uses what it guards, and room for as many as may do that at the
// same time. It is not a mutex, since they read and write files.
type slot chan struct{}

func (s slot) lock(ctx context.Context) error {
	select {
	case s <- struct{}{}:
		return nil
	default:
	}
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return store.MarkNotApplied(store.Cause(ctx))
	}
}

func (s slot) unlock() { <-s }
