package filestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// damagedDir is where Repair moves logs to.
const damagedDir = "damaged"

// Erase removes the log of a key, whatever its state. Nothing remains. Use it only for keys that
// were created to test a store. If a client still uses the key, the promises of the store do not
// hold for this client.
func (s *Store) Erase(ctx context.Context, key string) error {
	_, err := counted(ctx, s, key, s.beginWrite, func() (struct{}, error) {
		return struct{}{}, s.withLog(ctx, key, func(l *log) error { return explain(s.erase(ctx, l)) })
	})
	if err != nil {
		return s.opError("erase", key, err)
	}
	return nil
}

// erase moves the log away before it removes it: a process that is killed meanwhile leaves no
// half of it.
func (s *Store) erase(ctx context.Context, l *log) error {
	if _, err := s.root.Lstat(l.dir()); notExist(err) {
		return s.lost()
	}
	floor, err := s.lockFloor(ctx, false) // no sweep moves another log of this name meanwhile
	if err != nil {
		return err
	}
	defer floor.release()
	st, err := s.tmpStage()
	if err != nil {
		return err
	}
	defer st.remove()
	l.drop()
	l.known = false
	name := random()
	if err := st.s.root.Rename(l.dir(), st.name+"/"+name); err != nil && !notExist(err) {
		return err
	}
	return st.dir.RemoveAll(name)
}

// Repair moves the log of a key away if it cannot be read. Then the key is absent. It returns the
// new path, which is below "damaged" in the directory of the store. If the log can be read, the
// error matches [store.ErrInvalid]. If there is no log, the error matches [store.ErrNotFound]. If
// other processes have the log open, they lose it (on Windows, Repair fails). The versions and numbers of the key start again.
// So the caller must repair everything that depends on these versions and numbers, such as fencing
// tokens.
func (s *Store) Repair(ctx context.Context, key string) (where string, err error) {
	where, err = counted(ctx, s, key, s.beginWrite, func() (string, error) { return s.repair(ctx, key) })
	if err != nil {
		return "", s.opError("repair", key, err)
	}
	return where, nil
}

func (s *Store) repair(ctx context.Context, key string) (where string, err error) {
	err = s.withLog(ctx, key, func(l *log) error {
		// The lock keeps sweeps and other repairs from exchanging the log that is judged here.
		floor, err := s.lockFloor(ctx, true)
		if err != nil {
			return explain(err)
		}
		defer floor.release()
		switch err := s.current(ctx, l, true); {
		case err == nil && l.seg == nil:
			return store.ErrNotFound
		case err == nil:
			return fmt.Errorf("%w: the register can be read, so it needs no repair", store.ErrInvalid)
		case !errors.Is(err, store.ErrCorrupt):
			return err
		}
		if _, err := s.mkdirTop(damagedDir); err != nil {
			return explain(err)
		}
		l.drop() // Windows does not rename a directory that has open files
		l.known = false
		to := fmt.Sprintf("%s/%s.%s-%s", damagedDir, l.name, time.Now().UTC().Format("20060102T150405"), random()[:8])
		if err := s.root.Rename(l.dir(), to); err != nil {
			return explain(err)
		}
		where = s.dir + "/" + to
		return s.syncPath()
	})
	return where, err
}
