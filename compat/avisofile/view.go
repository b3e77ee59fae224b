package avisofile

import (
	"errors"
	"path/filepath"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/safefile"
)

// view is the content of the files at one instant: a state and its fences.
type view struct {
	stateSnapshot, fenceSnapshot *snapshot

	state  state
	fences fences

	// durable says that both files are known to survive a power cut. That is not known of
	// files that another program wrote: it may have been stopped before its last sync.
	durable atomic.Bool
}

// load reads the files of p. It reuses those of old that are still current.
//
// A Reset writes its epoch before its state. So load checks the fences again after it has
// read the state, and starts again if they have changed. If a Reset was stopped between
// its two writes, its pending mark shows that fences and state do not belong together.
func load(p filePath, old *view) (*view, error) {
	for {
		v := &view{}
		err := v.read(p, old)
		if err == nil && v.fenceSnapshot.current(p.file()+fenceSuffix) {
			return v, nil
		}
		v.closeUnless(old)
		if err != nil {
			return nil, err
		}
	}
}

func (v *view) read(p filePath, old *view) error {
	path := p.file() + fenceSuffix
	if old != nil && old.fenceSnapshot.current(path) {
		v.fenceSnapshot, v.fences = old.fenceSnapshot, old.fences
	} else {
		m, content, err := readSnapshot(path, maxFenceFile)
		if err != nil {
			return err
		}
		v.fenceSnapshot = m
		if m.info != nil {
			if v.fences, err = decodeFences(path, content); err != nil {
				return err
			}
			m.pending = v.fences.pending()
		}
	}
	if old != nil && old.stateSnapshot.current(p.file()) {
		v.stateSnapshot, v.state = old.stateSnapshot, old.state
		return nil
	}
	var err error
	v.stateSnapshot, v.state, err = readState(p)
	return err
}

// readState reads the state file of p. A missing one is an empty state.
func readState(p filePath) (*snapshot, state, error) {
	m, content, err := readSnapshot(p.file(), maxStateFile)
	if err != nil || m.info == nil {
		return m, nil, err
	}
	s, err := decode(content)
	if err != nil {
		var wrong *LoadError
		if errors.As(err, &wrong) {
			wrong.Path = p.file()
			wrong.Backup = readBackup(p)
		}
	}
	return m, s, err
}

// readBackup describes the last good copy. It is zero if there is none that is good.
func readBackup(p filePath) BackupCopy {
	path := p.file() + goodSuffix
	m, content, err := readSnapshot(path, maxStateFile)
	if err != nil || m.info == nil {
		return BackupCopy{}
	}
	defer m.close()
	s, err := decode(content)
	if err != nil {
		return BackupCopy{}
	}
	return BackupCopy{Path: path, Written: m.info.ModTime(), Keys: len(s)}
}

// current reports whether the view still shows the current files. The answer is right
// only while the images are open.
func (v *view) current(p filePath) bool {
	fence := p.file() + fenceSuffix
	return v.fenceSnapshot.current(fence) && v.stateSnapshot.current(p.file()) && v.fenceSnapshot.current(fence)
}

// closeUnless closes the files that are not also those of other. Both may be nil.
func (v *view) closeUnless(other *view) {
	if v == nil {
		return
	}
	if v.stateSnapshot != nil && (other == nil || other.stateSnapshot != v.stateSnapshot) {
		v.stateSnapshot.close()
	}
	if v.fenceSnapshot != nil && (other == nil || other.fenceSnapshot != v.fenceSnapshot) {
		v.fenceSnapshot.close()
	}
}

// sync makes the files of the view durable, whichever program wrote them.
func (v *view) sync(p filePath) error {
	if v.durable.Load() {
		return nil
	}
	if err := errors.Join(v.fenceSnapshot.sync(), v.stateSnapshot.sync()); err != nil {
		return err
	}
	if err := safefile.SyncDir(filepath.Dir(p.file())); err != nil {
		return err
	}
	v.durable.Store(true)
	return nil
}

// show returns the checkpoint that an entry and its guard make.
func show(key digest, e entry, exists bool, g guard) checkpoint.Checkpoint {
	c := checkpoint.Checkpoint{Key: key.String(), Exists: exists, Epoch: g.epoch, Token: g.token}
	if exists {
		c.Position = checkpoint.Position{Sequence: e.sequence, EventID: e.event}
	}
	return c
}

// memory returns the last view of the store, or nil.
func (s *Store) memory() *view {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastView
}

// fresh returns a view of the current files, and where they are. done ends the wait for
// another call that reads them.
func (s *Store) fresh(done <-chan struct{}) (*view, filePath, error) {
	for {
		p, err := resolve(s.lock.path)
		if err != nil {
			return nil, p, err
		}
		// If the view is still the store's, its files were open during the check.
		v := s.memory()
		if v != nil && v.current(p) && s.memory() == v {
			return v, p, nil
		}
		select {
		case s.loading <- struct{}{}:
		case <-done:
			return nil, p, errGivenUp
		}
		v, err = s.reload(p)
		<-s.loading
		if v != nil || err != nil {
			return v, p, err
		}
	}
}

// errGivenUp says that the caller's context ended while it waited.
var errGivenUp = errors.New("the context of the call has ended")

// reload reads the files unless another call has read them by now. The view may be nil if
// another call replaced it meanwhile.
func (s *Store) reload(p filePath) (*view, error) {
	v := s.memory()
	if v != nil && v.current(p) && s.memory() == v {
		return v, nil
	}
	next, err := load(p, v)
	if err != nil {
		return nil, err
	}
	if v != nil {
		s.fences = v.fences
	}
	if lost := next.fences.below(s.fences); lost > 0 {
		s.lock.warn.fencesWentBack(p.file(), lost)
	}
	s.fences = next.fences
	return s.install(v, next)
}

// install replaces the store's view old by next. If another call has already replaced
// old, install keeps the newer view. It returns the store's view.
func (s *Store) install(old, next *view) (*view, error) {
	s.mu.Lock()
	known, disposed := s.lastView, s.disposed
	ours := known == old && !disposed
	if ours {
		s.setLastView(next)
	}
	s.mu.Unlock()
	if ours {
		old.closeUnless(next)
		return next, nil
	}
	next.closeUnless(old)
	if disposed {
		return nil, checkpoint.ErrClosed
	}
	return known, nil
}

// setLastView sets the store's view, nil for none, and returns the one before. The caller
// holds the mutex; after it has released it, it closes the returned view.
func (s *Store) setLastView(next *view) (old *view) {
	old, s.lastView = s.lastView, next
	close(s.changed)
	s.changed = make(chan struct{})
	return old
}
