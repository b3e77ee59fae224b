package filestore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// linger is how long the inotify instance outlives the last waiter: to close one can take
// milliseconds, and the next wait often follows soon.
const linger = time.Second

const (
	selfEvents = syscall.IN_DELETE_SELF | syscall.IN_MOVE_SELF | syscall.IN_DONT_FOLLOW

	// A log changes when one of its files changes, or when a file gets a name in its
	// directory.
	logEvents = syscall.IN_MODIFY | syscall.IN_CREATE | syscall.IN_MOVED_TO | selfEvents

	// A register appears when its directory appears.
	nameEvents = syscall.IN_CREATE | syscall.IN_MOVED_TO | selfEvents

	// The file of an announced process is closed when the process ends. Processes that
	// judge it open the file for reading only.
	aliveEvents = syscall.IN_CLOSE_WRITE | syscall.IN_ATTRIB | selfEvents
)

// process is the state that all stores of this process share. The system allows a
// user few inotify instances (128 by default) for all processes together, so a
// process must not have more than one.
var process = shared{slot: make(slot, 1)}

type shared struct {
	slot           // of the goroutine that uses the other fields
	in   *instance // nil: none
}

// instance is one inotify instance, with a goroutine that reads it.
type instance struct {
	file    *os.File
	fd      int
	watches map[int32]map[*target]struct{} // by watch descriptor
	unused  map[int32]bool                 // watch descriptors that may have no targets any more
	adding  int                            // calls of the system that add a watch
	waiters int
	ended   chan struct{} // closed when the goroutine has ended
}

// target is what one waiter waits for.
type target struct {
	name   string // in the directory; empty: all of it
	signal func() // waits for nothing
}

// log waits for changes of a log, or of the directory where it would appear.
func (n *notify) log(dir, name string) (waiter, bool) {
	if n.poll {
		return waiter{}, false
	}
	keys := filepath.Join(dir, keysDir)
	w, err := process.add(filepath.Join(keys, name), logEvents, "")
	if notExist(err) {
		w, err = process.add(keys, nameEvents, name)
	}
	if notExist(err) {
		w, err = process.add(dir, nameEvents, keysDir)
	}
	return w, err == nil
}

// alive waits for the end of a process that announced itself.
func (n *notify) alive(path string) (waiter, bool) {
	if n.poll {
		return waiter{}, false
	}
	w, err := process.add(path, aliveEvents, "")
	return w, err == nil
}

// opened calls signal when a file is opened or removed, until stop.
func (n *notify) opened(path string, signal func()) (stop func(), err error) {
	return process.addTarget(path, selfEvents|syscall.IN_OPEN, &target{signal: signal})
}

// close ends the goroutine if no call of this process waits any more.
func (n *notify) close() {
	process.lock()
	in := process.in
	if in == nil || in.waiters > 0 {
		process.unlock()
		return
	}
	process.in = nil
	process.unlock()
	in.file.Close()
	<-in.ended
}

func (p *shared) lock() { p.slot <- struct{}{} }

// add registers a waiter for events of a file or directory.
func (p *shared) add(path string, events uint32, name string) (waiter, error) {
	wake := make(chan struct{}, 1)
	stop, err := p.addTarget(path, events, &target{name, func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}})
	return waiter{wake: wake, stop: stop}, err
}

// addTarget adds a watch without the lock, since the system can look a path up for ever on a disk that hangs. The waiter
// sees changes before the end of this call itself: it reads after it.
func (p *shared) addTarget(path string, events uint32, t *target) (stop func(), _ error) {
	p.lock()
	if p.in == nil {
		in, err := newInstance()
		if err != nil {
			p.unlock()
			return nil, err
		}
		p.in = in
		go p.read(in)
	}
	in := p.in
	in.adding++
	if in.waiters++; in.waiters == 1 {
		_ = in.file.SetReadDeadline(time.Time{}) // fails only when it is closed
	}
	p.unlock()
	n, err := syscall.InotifyAddWatch(in.fd, path, events)
	wd := int32(n)
	p.lock()
	defer p.unlock()
	in.adding--
	if err != nil {
		p.removed(in)
		return nil, err
	}
	if in.watches[wd] == nil {
		in.watches[wd] = make(map[*target]struct{})
	}
	in.watches[wd][t] = struct{}{}
	return func() {
		p.lock()
		defer p.unlock()
		delete(in.watches[wd], t)
		in.unused[wd] = true
		p.removed(in)
	}, nil
}

func newInstance() (*instance, error) {
	fd, err := syscall.InotifyInit1(syscall.IN_NONBLOCK | syscall.IN_CLOEXEC)
	if err != nil {
		return nil, err
	}
	// A file that does not block is read through the runtime's poller.
	return &instance{
		file:    os.NewFile(uintptr(fd), "inotify"),
		fd:      fd,
		watches: make(map[int32]map[*target]struct{}),
		unused:  make(map[int32]bool),
		ended:   make(chan struct{}),
	}, nil
}

// removed ends what a waiter leaves. A call that adds a watch can get a descriptor that has no targets. So while there is
// such a call, no descriptor is removed.
func (p *shared) removed(in *instance) {
	in.waiters--
	if p.in != in {
		return // it has ended, and its watches with it
	}
	if in.adding == 0 {
		for wd := range in.unused {
			if set, ok := in.watches[wd]; ok && len(set) == 0 {
				delete(in.watches, wd)
				_, _ = syscall.InotifyRmWatch(in.fd, uint32(wd)) // fails if the file was removed
			}
		}
		clear(in.unused)
	}
	if in.waiters == 0 { // the goroutine ends after linger
		_ = in.file.SetReadDeadline(time.Now().Add(linger)) // fails only when it is closed
	}
}

// read passes events to the waiters. It ends when there has been no waiter for linger.
func (p *shared) read(in *instance) {
	defer close(in.ended)
	buf := make([]byte, 64<<10)
	for {
		n, err := in.file.Read(buf)
		p.lock()
		in.dispatch(buf[:max(n, 0)])
		if err != nil && !(errors.Is(err, os.ErrDeadlineExceeded) && in.waiters > 0) {
			if p.in == in {
				p.in = nil
			}
			in.wakeAll()
			p.unlock()
			in.file.Close()
			return
		}
		p.unlock()
	}
}

// dispatch wakes the waiters that the events concern. An event is a watch descriptor, a
// mask, a cookie, the length of the name, and the name, filled up with zeros.
func (in *instance) dispatch(b []byte) {
	for len(b) >= syscall.SizeofInotifyEvent {
		wd := int32(binary.NativeEndian.Uint32(b))
		mask := binary.NativeEndian.Uint32(b[4:])
		end := syscall.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
		name := string(bytes.TrimRight(b[syscall.SizeofInotifyEvent:end], "\x00"))
		b = b[end:]
		if mask&syscall.IN_Q_OVERFLOW != 0 {
			in.wakeAll()
			continue
		}
		for t := range in.watches[wd] {
			if t.name == "" || name == "" || t.name == name {
				t.signal()
			}
		}
		if mask&syscall.IN_IGNORED != 0 {
			delete(in.watches, wd)
		}
	}
}

func (in *instance) wakeAll() {
	for _, set := range in.watches {
		for t := range set {
			t.signal()
		}
	}
}
