package filestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/store"
)

// deadAge is how long the file of a dead process is kept after a sweep found it dead. A
// waiter that finds no file cannot tell that the process is dead, and has to wait for the
// TTL.
const deadAge = 24 * time.Hour

// presence is the announcement of this process: a file that it keeps locked.
type presence struct {
	slot         // of the goroutine that makes or ends the announcement
	fd   uintptr // has the lock; not an os.File, which the collector would close
	name string
	text string // empty: not announced
}

// Announce implements [store.Presence]: it creates a file that this process keeps locked until it
// ends. [Store.Close] also ends the announcement. After Close, other processes do not know whether
// this process lives, and do not treat it as dead. Announce works only on a local file system of
// Linux, macOS or Windows. In all other cases the error matches [errors.ErrUnsupported].
func (s *Store) Announce(ctx context.Context) (string, error) {
	select {
	case s.own.slot <- struct{}{}:
		text := s.own.text
		s.own.unlock()
		if text != "" {
			return text, nil // no file is needed, so that no call can hang
		}
	default:
	}
	text, err := counted(ctx, s, "presence", s.beginWrite, func() (string, error) { return s.announce(ctx) })
	if err != nil {
		return "", fmt.Errorf("announce this process: %w", explain(err))
	}
	return text, nil
}

func (s *Store) announce(ctx context.Context) (string, error) {
	if err := s.own.lock(ctx); err != nil {
		return "", err
	}
	defer s.own.unlock()
	if s.own.text != "" {
		return s.own.text, nil
	}
	boot, err := bootID()
	if err != nil || boot == "" || s.network {
		return "", fmt.Errorf("this store does not know whether a process is alive: %w", errors.ErrUnsupported)
	}
	s.sweepAlive()
	for range 10 {
		// Two processes that make the directories of the store at the same time can each
		// replace the other's directory, as long as that is empty.
		if _, err = s.mkdirTop(aliveDir); err == nil {
			err = s.makePresence(boot)
		}
		if !notExist(err) || s.lost() != nil {
			break
		}
	}
	return s.own.text, err
}

// makePresence makes the file of this process: under a temporary name first, so that no
// other process sees it before it is locked. It needs a stage only if other users can change
// the directory of temporaries.
func (s *Store) makePresence(boot string) error {
	name := random()
	dir, tmp, path := s.root, tmpDir+"/"+name, tmpDir+"/"+name
	if s.modes.own() {
		if err := s.makeTmp(); err != nil {
			return err
		}
	} else {
		st, err := s.tmpStage()
		if err != nil {
			return err
		}
		defer st.remove()
		dir, tmp, path = st.dir, name, st.name+"/"+name
	}
	f, err := s.newFile(dir, tmp, s.modes.lock)
	if err != nil {
		return err
	}
	defer f.Close()
	id := identity(f)
	var fd uintptr
	if _, err = f.Write(presenceText(boot)); err == nil {
		fd, err = lockPresence(f)
	}
	if err == nil {
		if err = s.root.Rename(path, aliveDir+"/"+name); err != nil {
			closeFD(fd)
		}
	}
	if err != nil {
		_ = dir.Remove(tmp) // or a later sweep does
		return err
	}
	s.own.fd, s.own.name = fd, name
	s.own.text = boot + "/" + name + "/" + id
	return nil
}

// presenceRecord is the content of a presence file, for people only.
type presenceRecord struct {
	PID   int       `json:"pid"`
	Start time.Time `json:"start"`
	Boot  string    `json:"boot"`
	Host  string    `json:"host"`
}

// presenceStart is how the text of a presence file starts.
const presenceStart = `{"pid":`

func presenceText(boot string) []byte {
	host, _ := os.Hostname()                                                        // for people only
	b, _ := json.Marshal(presenceRecord{os.Getpid(), time.Now().UTC(), boot, host}) // cannot fail
	return append(b, '\n')
}

// end withdraws the announcement. It removes the name before it frees the lock: a missing
// file says nothing, but a file whose lock is free says that this process is dead.
func (p *presence) end(s *Store) error {
	p.slot <- struct{}{}
	defer p.unlock()
	if p.text == "" {
		return nil
	}
	p.text = ""
	if err := s.root.Remove(aliveDir + "/" + p.name); err != nil && !notExist(err) {
		return nil // the announcement stays until the process ends
	}
	closeFD(p.fd)
	return nil
}

// PresenceFile announces this process, if necessary, and returns a descriptor that also keeps the
// announcement alive. A child that inherits the descriptor (ExtraFiles of [os/exec]; on Windows an
// inheritable duplicate in AdditionalInheritedHandles of [syscall.SysProcAttr]) keeps the
// announcement alive after the end of this process, until the child ends or closes the
// descriptor. So a lock whose record has this announcement lasts until the child has ended its
// work. The caller must close the file; until then the announcement does not end.
//
// On Linux the descriptor is read-only and has a separate lock. So an untrusted child can release
// its own lock, but not the lock of this process, and cannot write to the file. On other systems
// the descriptor is a duplicate of this process's descriptor. On Windows it is read-only.
func (s *Store) PresenceFile(ctx context.Context) (*os.File, error) {
	if _, err := s.Announce(ctx); err != nil {
		return nil, err
	}
	if err := s.own.lock(ctx); err != nil {
		return nil, err
	}
	defer s.own.unlock()
	if s.own.text == "" {
		return nil, store.ErrClosed
	}
	path := aliveDir + "/" + s.own.name
	f, err := s.root.OpenFile(path, os.O_RDONLY|safefile.NoFollow, 0)
	if err == nil {
		if !strings.HasSuffix(s.own.text, "/"+identity(f)) {
			err = errors.New("another file has replaced the presence file of this process")
		} else {
			err = lockInheritable(f)
		}
		if err == nil {
			return f, nil
		}
		f.Close()
	}
	if errors.Is(err, errors.ErrUnsupported) {
		return dupFile(s.own.fd, filepath.Join(s.dir, path))
	}
	return nil, fmt.Errorf("announce a child of this process: %w", explain(err))
}

// Liveness implements [store.Presence]. It returns Dead only if the file of the process exists, is
// exactly the announced file, and its lock is free. A free lock shows that the process has ended,
// and so have all its children that inherited a [Store.PresenceFile].
func (s *Store) Liveness(ctx context.Context, announcement string) store.Liveness {
	name, id, ok := s.parse(announcement)
	if !ok || ctx.Err() != nil {
		return store.LivenessUnknown
	}
	verdict, _ := counted(ctx, s, "presence", s.begin, func() (store.Liveness, error) { // unknown after an error
		verdict, _ := s.liveness(name, id)
		return verdict, nil
	})
	return verdict
}

// parse reads an announcement. It reports false if nothing can be known of it here.
func (s *Store) parse(announcement string) (name, id string, ok bool) {
	boot, rest, _ := strings.Cut(announcement, "/")
	name, id, ok = strings.Cut(rest, "/")
	if !ok || s.network || !safefile.IsRandom(name) {
		return "", "", false
	}
	own, err := bootID()
	return name, id, err == nil && own != "" && own == boot
}

// liveness also reports heirs: the process has ended, but a child that inherited a
// [Store.PresenceFile] runs. The system does not report the end of such a child.
func (s *Store) liveness(name, id string) (_ store.Liveness, heirs bool) {
	path := aliveDir + "/" + name
	f, err := s.root.OpenFile(path, os.O_RDONLY|safefile.NoFollow, 0)
	if err != nil {
		return store.LivenessUnknown, false
	}
	defer f.Close()
	info, err := f.Stat()
	// Through another mount (a layer of an overlay, say) the same file may have a
	// different lock.
	if err != nil || !info.Mode().IsRegular() || (id != "" && identity(f) != id) {
		return store.LivenessUnknown, false
	}
	free, err := lockFile(f, false)
	switch {
	case err != nil:
		return store.LivenessUnknown, false
	case !free:
		return store.Alive, false
	}
	// The order matters: now the process, which could have passed the file to another
	// child, has ended.
	switch heirs, err := isInherited(f); {
	case err != nil:
		return store.LivenessUnknown, false
	case heirs:
		return store.Alive, true
	}
	// A process that withdraws its announcement removes the name before it frees the
	// lock.
	if now, err := s.root.Lstat(path); err != nil || !os.SameFile(now, info) {
		return store.LivenessUnknown, false
	}
	return store.Dead, false
}

// WaitLiveness implements [store.Presence]. It returns when the result of [Store.Liveness]
// changes, or at once if the process is dead. On Linux it notices the end of a process within
// about a millisecond. On Windows, too, the system reports this end, for at most 64 waiters of a
// process, and not of processes of other users or in other containers. In all other cases, and
// at the end of a child that inherited a [Store.PresenceFile], it notices the end within 250 ms
// (one second in other containers of Windows).
func (s *Store) WaitLiveness(ctx context.Context, announcement string) error {
	name, id, known := s.parse(announcement)
	heirs := false
	watch := func() (w waiter, notified bool) {
		if !known {
			return w, true
		}
		w, notified = s.watch.alive(filepath.Join(s.dir, aliveDir, name))
		w.mayMiss = func() bool { return heirs }
		return w, notified
	}
	first, judged := store.LivenessUnknown, false
	if known && s.busy.has("") {
		// A waiter for a busy lock calls WaitLiveness at each grant, and mostly has its answer
		// before a dead holder could matter.
		if err := pause(ctx, busyTime); err != nil {
			return err
		}
	}
	err := s.wait(ctx, "wait presence", false, watch, func(woken bool) (bool, error) {
		if !known {
			return false, nil
		}
		type answer struct {
			verdict store.Liveness
			heirs   bool
		}
		look := func() (answer, error) {
			return bound(ctx, s, "wait presence", func() (a answer, _ error) {
				a.verdict, a.heirs = s.liveness(name, id)
				return a, nil
			})
		}
		now, err := look()
		if !judged {
			first, judged, heirs = now.verdict, true, now.heirs
			return now.verdict == store.Dead, err
		}
		// The system reports that a file was closed just before it frees the lock.
		for pause := time.Millisecond; err == nil && woken && now.verdict == store.Alive && pause < 30*time.Millisecond; pause *= 2 {
			time.Sleep(pause)
			now, err = look()
		}
		heirs = now.heirs
		return now.verdict != first, err
	})
	if err != nil {
		return fmt.Errorf("wait for the end of a process: %w", err)
	}
	return nil
}

// sweepAlive removes the files of processes that have been dead for deadAge. Only a free
// lock proves that a process is dead. The file does not tell since when, so the first
// sweep that finds the process dead marks the file.
func (s *Store) sweepAlive() {
	s.eachStale(aliveDir, safefile.IsRandom, func(path string, info os.FileInfo) {
		if !info.Mode().IsRegular() {
			return
		}
		if verdict, _ := s.liveness(info.Name(), ""); verdict == store.Dead {
			s.sweepPresence(path)
		}
	})
}

// sweepPresence marks or removes the file of a dead process. It judges the open file:
// another user may have put another file of this user's in its place.
func (s *Store) sweepPresence(path string) {
	f, err := s.root.OpenFile(path, os.O_RDWR|os.O_APPEND|safefile.NoFollow, 0)
	if err != nil {
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return
	}
	text, err := readBounded(f, maxPresence)
	if err != nil {
		return
	}
	first, marks, ok := strings.Cut(string(text), "\n")
	var p presenceRecord
	switch {
	case !ok || json.Unmarshal([]byte(first), &p) != nil || p.PID == 0 || p.Boot == "":
	case strings.ReplaceAll(marks, deadSuffix, "") != "":
	case marks == "":
		_, _ = f.WriteString(deadSuffix) // without it the file stays
	case time.Since(info.ModTime()) > deadAge:
		_ = s.root.Remove(path) // or the next sweep does
	}
}

const deadSuffix = "dead\n"

// maxPresence is the largest presence file that is read, in bytes.
const maxPresence = 4 << 10

// identity identifies an open file, until the machine restarts.
func identity(f *os.File) string {
	dev, ino := fileID(f)
	return strconv.FormatUint(dev, 16) + "." + strconv.FormatUint(ino, 16)
}
