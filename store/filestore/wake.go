package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/store"
)

// wakeDir has an empty file for each name under which a process expects wake-ups. To wake it, another
// process opens the file: the system reports that, and no disk is needed.
//
// A store keeps up to keptWakes files until it is closed, since making one costs more than all else.
// The files of a killed process are swept.
const wakeDir = "wake"

const keptWakes = 64

func noWake() error {
	return fmt.Errorf("this store cannot wake single waiters: %w", errors.ErrUnsupported)
}

// wakePath returns the path of a waiter's file, below the store's directory; empty if no file can
// have that name.
func wakePath(name string) string {
	const most = 64
	if name == "" || len(name) > most || name[0] == '.' {
		return ""
	}
	for _, c := range []byte(name) {
		if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') && c != '.' {
			return ""
		}
	}
	return wakeDir + "/" + name
}

// ExpectWake implements [store.Waker]. It works only where the system reports changes, see
// [Store.Watch]. Otherwise the error matches [errors.ErrUnsupported].
func (s *Store) ExpectWake(ctx context.Context, name string, wake func()) (end func(), err error) {
	path := wakePath(name)
	if path == "" || s.reading || s.watch.poll {
		return nil, noWake()
	}
	end, err = counted(ctx, s, "wake", s.begin, func() (func(), error) { return s.expectWake(ctx, path, wake) })
	if err != nil {
		return nil, fmt.Errorf("expect a wake-up: %w", explain(err))
	}
	return end, nil
}

func (s *Store) expectWake(ctx context.Context, path string, wake func()) (end func(), err error) {
	stop, err := s.watch.opened(filepath.Join(s.dir, path), wake)
	if notExist(err) {
		if err := s.counting(ctx, func() error { return s.makeWake(path) }); err != nil {
			return nil, err
		}
		stop, err = s.watch.opened(filepath.Join(s.dir, path), wake)
	}
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil { // this call was abandoned
		stop()
		return nil, store.Cause(ctx)
	}
	return stop, nil
}

func (s *Store) makeWake(path string) error {
	s.mu.Lock()
	s.wakes = append(s.wakes, path)
	old := s.wakes[:max(0, len(s.wakes)-keptWakes)]
	s.wakes = s.wakes[len(old):]
	s.mu.Unlock()
	for _, path := range old {
		_ = s.root.Remove(path) // it is swept otherwise; a waiter there wakes up
	}
	if _, err := s.mkdirTop(wakeDir); err != nil {
		return err
	}
	f, err := s.newFile(s.root, path, s.modes.lock)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		f.Close()
	}
	return err
}

// endWakes removes the files that were kept.
func (s *Store) endWakes() {
	for _, path := range s.wakes {
		_ = s.root.Remove(path)
	}
}

// Wake implements [store.Waker].
func (s *Store) Wake(ctx context.Context, name string) {
	path := wakePath(name)
	if path == "" || s.watch.poll {
		return
	}
	_, _ = counted(ctx, s, "wake", s.begin, func() (struct{}, error) {
		f, err := s.root.OpenFile(path, os.O_RDONLY|safefile.NoFollow, 0)
		if err == nil {
			f.Close()
		}
		return struct{}{}, err
	})
}

// sweepWakes removes old files of waiters. A waiter that still lives wakes up without a reason.
func (s *Store) sweepWakes() {
	s.eachStale(wakeDir, func(name string) bool { return wakePath(name) != "" }, func(path string, info os.FileInfo) {
		if info.Mode().IsRegular() && info.Size() == 0 {
			_ = s.root.Remove(path)
		}
	})
}
