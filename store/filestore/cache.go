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
	lru  list.List // of *log; those that nobody uses, the longest unused first
}

// pin returns the log of a key. It is not put aside before the matching unpin.
func (c *cache) pin(key string) *log {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.logs[key]
	if l == nil {
		if c.logs == nil {
			c.logs = make(map[string]*log)
		}
		l = newLog(key)
		c.logs[key] = l
	}
	if l.place != nil {
		c.lru.Remove(l.place)
		l.place = nil
	}
	l.pins++
	return l
}

// unpin ends the use of a log. Logs beyond the bound, and those that turned out to
// have no file, are put aside.
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
		return nil // and so remembered
	}
	l.place = c.lru.PushBack(l)
	for len(c.logs) > c.max && c.lru.Len() > 0 {
		old = append(old, c.remove(c.lru.Front()))
	}
	return old
}

func (c *cache) remove(place *list.Element) *log {
	l := c.lru.Remove(place).(*log)
	delete(c.logs, l.key)
	return l
}

// close puts all logs aside. None is in use.
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

// lock waits until nobody else in this process reads or extends the log. It is a
// slot and not a mutex, since files are read and written while it is held.
func (l *log) lock(ctx context.Context) error {
	select {
	case l.slot <- struct{}{}:
		return nil
	default:
	}
	select {
	case l.slot <- struct{}{}:
		return nil
	case <-ctx.Done():
		return store.MarkNotApplied(context.Cause(ctx))
	}
}

func (l *log) unlock() { <-l.slot }
