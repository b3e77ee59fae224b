//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package avisofile_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"syscall"
)

// resumeKey is the resume key of an event type of https://a/ without a filter.
func resumeKey(event string) string {
	field := func(b []byte, s string) []byte {
		return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
	}
	b := binary.LittleEndian.AppendUint32(nil, 1)
	sum := sha256.Sum256(append(field(field(field(b, "https://a/"), event), "{}"), 0))
	return hex.EncodeToString(sum[:])
}

// mark is a checkpoint as the format has it.
type mark struct {
	Sequence uint64  `json:"last_committed_sequence"`
	Event    *string `json:"last_event_id"`
}

func (m mark) equal(o mark) bool {
	return m.Sequence == o.Sequence && (m.Event == nil) == (o.Event == nil) && (m.Event == nil || *m.Event == *o.Event)
}

// peer is a program of the other kind in small: it follows the format's lock and
// merge, and keeps the order of steps that goes with them. It stands for the real
// one in the tests, and is the control in those that show what its order does.
type peer struct {
	path   string
	memory map[string]mark

	// drop stops a write after the file was replaced and before the memory follows,
	// as giving up the call does there.
	drop bool

	rewrites int
}

func openPeer(path string) (*peer, error) {
	m, err := loadPeer(path)
	return &peer{path: path, memory: m}, err
}

func loadPeer(path string) (map[string]mark, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]mark{}, nil
	}
	if err != nil {
		return nil, err
	}
	var doc struct {
		Version     uint32          `json:"version"`
		KeyVersion  uint32          `json:"key_format_version"`
		Checkpoints map[string]mark `json:"checkpoints"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		return nil, err
	}
	if doc.Version != 1 || doc.KeyVersion != 1 || doc.Checkpoints == nil {
		return nil, fmt.Errorf("cannot read %q", b)
	}
	return doc.Checkpoints, nil
}

func (p *peer) put(key string, m mark) error {
	return p.write(func(all map[string]mark) { all[key] = m })
}

func (p *peer) delete(key string) error {
	return p.write(func(all map[string]mark) { delete(all, key) })
}

func (p *peer) write(change func(map[string]mark)) error {
	candidate := maps.Clone(p.memory)
	change(candidate)
	deleted := map[string]uint64{}
	for key, before := range p.memory {
		after, there := candidate[key]
		if !there {
			deleted[key] = before.Sequence
		} else if after.Sequence <= before.Sequence {
			candidate[key] = before
		}
	}
	lock, err := os.OpenFile(p.path+".lock", os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	defer lock.Close()
	for err = syscall.EINTR; err == syscall.EINTR; {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		return err
	}
	disk, err := loadPeer(p.path)
	if err != nil {
		return err
	}
	for key, there := range disk {
		seen, isDeleted := deleted[key]
		mine, known := candidate[key]
		switch {
		case isDeleted && there.Sequence > seen, !isDeleted && !known, known && there.Sequence >= mine.Sequence:
			candidate[key] = there
		}
	}
	if !maps.EqualFunc(candidate, disk, mark.equal) {
		if err := replacePeer(p.path, candidate); err != nil {
			return err
		}
		p.rewrites++
	}
	if !p.drop {
		p.memory = candidate
	}
	return nil
}

// encodePeer writes the format with the means of encoding/json.
func encodePeer(all map[string]mark) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(struct {
		Version     int             `json:"version"`
		KeyVersion  int             `json:"key_format_version"`
		Checkpoints map[string]mark `json:"checkpoints"`
	}{1, 1, all})
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

func replacePeer(path string, all map[string]mark) error {
	b, err := encodePeer(all)
	if err != nil {
		return err
	}
	return replaceBytes(path, b)
}

func replaceBytes(path string, b []byte) error {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".peer")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	f, err := os.OpenFile(dir+"/new", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(b); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(dir+"/new", path); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
