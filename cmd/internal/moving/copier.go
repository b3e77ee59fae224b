package moving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/internal/workerpool"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// copier copies one store to another in three rounds. The first round reads everything, and refuses
// stores in which a lock is held or a record cannot be read. The second round writes. The third round
// reads the old store again: a client may have used it since the first round. Every write is conditional,
// and is the same in a second run. So the program can be killed at any time, and several copies can run at
// the same time.
type copier struct {
	from, to *side
	progress func(string)

	mu          sync.Mutex
	locks       []lockView
	checkpoints []checkpointView
	others      int
	read        map[string]string // what was read of the old store, by key
	held        []string
	bad         []error
	writes      bool // the second round has begun
}

// The prefixes of the keys, as the defaults of packages lease and checkpoint have them.
const (
	lockDir       = "lock/"
	sessionDir    = "lock.session/"
	checkpointDir = "checkpoint/"
	ownDir        = ".holdfast/"
)

func (c *copier) run(ctx context.Context, dryRun bool) error {
	keys, err := c.keys(ctx, c.from)
	if err != nil {
		return err
	}
	there, err := c.keys(ctx, c.to)
	if err != nil {
		return err
	}
	if err := c.round(ctx, "checked", keys, true); err != nil {
		return err
	}
	only := slices.DeleteFunc(there, func(key string) bool { return !strings.HasPrefix(key, lockDir) || found(keys, key) })
	err = c.each(ctx, "checked", only, c.checkFree)
	if err = cmp.Or(err, c.unreadable(), c.refuse("nothing was copied, because locks are in use")); err != nil || dryRun {
		return err
	}
	c.writes = true
	if err := c.to.CopyFloor(ctx, c.from.Client.Client); err != nil {
		return err
	}
	before := c.read
	err = c.round(ctx, "copied", keys, false)
	if err = cmp.Or(err, c.unreadable()); err != nil {
		return err
	}
	return c.unused(ctx, before)
}

// keys lists a store. It sorts, so that two runs read in the same order.
func (c *copier) keys(ctx context.Context, s *side) (keys []string, err error) {
	for key, err := range store.List(ctx, s.Store.Store, "") {
		switch {
		case errors.Is(err, store.ErrCorrupt):
			c.bad = append(c.bad, err)
		case err != nil:
			return nil, err
		default:
			keys = append(keys, key)
			c.progress(fmt.Sprintf("%d records listed on %s", len(keys), s.Store.URL))
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// round checks or copies everything.
func (c *copier) round(ctx context.Context, verb string, keys []string, dryRun bool) error {
	c.locks, c.checkpoints, c.others, c.read = []lockView{}, []checkpointView{}, 0, map[string]string{}
	err := c.each(ctx, verb, keys, func(ctx context.Context, key string) error {
		switch {
		case strings.HasPrefix(key, lockDir):
			return c.lock(ctx, strings.TrimPrefix(key, lockDir), dryRun)
		case strings.HasPrefix(key, checkpointDir):
			return c.checkpoint(ctx, strings.TrimPrefix(key, checkpointDir), dryRun)
		case !strings.HasPrefix(key, sessionDir) && !strings.HasPrefix(key, ownDir):
			c.note(func() { c.others++ })
		}
		return nil
	})
	slices.SortFunc(c.locks, func(a, b lockView) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(c.checkpoints, func(a, b checkpointView) int { return cmp.Compare(a.Key, b.Key) })
	return err
}

// each calls f for each key, a few at the same time.
func (c *copier) each(ctx context.Context, verb string, keys []string, f func(ctx context.Context, key string) error) error {
	pool := workerpool.New(ctx, leases.InParallel, 0)
	for i, key := range keys {
		if !pool.WaitRoom(0) {
			break
		}
		c.progress(fmt.Sprintf("%d of %d records %s", i, len(keys), verb))
		pool.Go(0, func(ctx context.Context) error { return f(ctx, key) })
	}
	return pool.Wait()
}

func (c *copier) note(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *copier) lock(ctx context.Context, name string, dryRun bool) error {
	r, err := c.to.CopyLock(ctx, c.from.Client.Client, name, &lease.CopyOptions{DryRun: dryRun})
	switch {
	case errors.Is(err, store.ErrNotFound): // deleted after it was listed
		return nil
	case errors.Is(err, lease.ErrHeld) && !store.InDoubt(err):
		c.note(func() { c.held = append(c.held, output.OneLine(err)) })
		return nil
	case err != nil:
		return c.skipUnreadable(err)
	}
	c.note(func() {
		c.read[lockDir+name] = string(r.From)
		c.locks = append(c.locks, lockView{Name: name, Token: r.Record.Token, Changed: r.Changed})
	})
	return nil
}

func (c *copier) checkpoint(ctx context.Context, key string, dryRun bool) error {
	from, err := state(c.from.keeper.Get(ctx, key, nil))
	var r checkpoint.Result
	if err == nil && dryRun {
		if r.Current, err = state(c.to.keeper.Get(ctx, key, nil)); err == nil {
			decision := (&checkpoint.Change{Verb: checkpoint.VerbCopy, Source: &from}).Decide(r.Current)
			r.Status = decision.Status
		}
	} else if err == nil {
		r, err = c.to.keeper.Copy(ctx, from)
	}
	if err != nil {
		return c.skipUnreadable(err)
	}
	c.note(func() {
		c.read[checkpointDir+key] = fmt.Sprint(from)
		c.checkpoints = append(c.checkpoints, checkpointView{Key: key, Status: r.Status.String(), Sequence: from.Sequence, Present: r.Current.Sequence})
	})
	return nil
}

// state makes a state of what Get returns: a checkpoint without a position still has an epoch and a token.
func state(c checkpoint.Checkpoint, err error) (checkpoint.Checkpoint, error) {
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return c, err
}

// checkFree notes a lock of the new store that is held.
func (c *copier) checkFree(ctx context.Context, key string) error {
	info, err := c.to.Inspect(ctx, strings.TrimPrefix(key, lockDir))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err == nil && info.Record.State != lease.Free:
		held := &lease.HeldError{Name: info.Record.Name, Store: c.to.Store.URL, Record: info.Record}
		c.note(func() { c.held = append(c.held, held.Error()) })
	}
	return c.skipUnreadable(err)
}

// skipUnreadable notes the error of something that cannot be read, and returns every other error.
func (c *copier) skipUnreadable(err error) error {
	if errors.Is(err, store.ErrCorrupt) {
		c.note(func() { c.bad = append(c.bad, err) })
		return nil
	}
	return err
}

// refuse returns an error if a lock is held.
func (c *copier) refuse(what string) error {
	if len(c.held) == 0 {
		return nil
	}
	return c.busy(what, c.held,
		"stop the holders, then repeat the command",
		"if the holder of a lock is dead, take and release the lock: holdfast --store URL run NAME -- true")
}

// unused checks that no client has used the old store since it was read first. Locks that became held
// during the copy are such a use.
func (c *copier) unused(ctx context.Context, before map[string]string) error {
	const what = "a client has used a store during the copy, so the copy may be incomplete"
	if err := c.refuse(what); err != nil {
		return err
	}
	keys, err := c.keys(ctx, c.from)
	if err != nil {
		return err
	}
	var used []string
	for key := range before {
		if !found(keys, key) { // removed: a sweep may have raised the floor of tokens after it was copied
			used = append(used, key)
		}
	}
	err = c.each(ctx, "read again", keys, func(ctx context.Context, key string) error {
		now := ""
		switch name, isLock := strings.CutPrefix(key, lockDir); {
		case isLock:
			info, err := c.from.Inspect(ctx, name)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return c.skipUnreadable(err)
			}
			now = string(info.Version)
		case strings.HasPrefix(key, checkpointDir):
			at, err := state(c.from.keeper.Get(ctx, strings.TrimPrefix(key, checkpointDir), nil))
			if err != nil {
				return c.skipUnreadable(err)
			}
			now = fmt.Sprint(at)
		}
		if now != before[key] {
			c.note(func() { used = append(used, key) })
		}
		return nil
	})
	if err = cmp.Or(err, c.unreadable()); err != nil || len(used) == 0 {
		return err
	}
	return c.busy(what, used, "stop the programs that use "+c.from.Store.URL+", then repeat the command")
}

// found reports whether a key is in a sorted list.
func found(keys []string, key string) bool {
	_, there := slices.BinarySearch(keys, key)
	return there
}
