package largeitem

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// fingerprint stands for a text: the first half of its SHA-256. Two texts with one mark make the
// sweep keep an object that it could have removed, and nothing worse.
type fingerprint [16]byte

func fingerprintOf(text string) fingerprint {
	sum := sha256.Sum256([]byte(text))
	return fingerprint(sum[:16])
}

func compareFingerprints(a, b fingerprint) int { return bytes.Compare(a[:], b[:]) }

const (
	fingerprintSize = len(fingerprint{})

	// maxFingerprints is how many marks a marks holds in memory: 4 MiB.
	maxFingerprints = 1 << 18

	// mergeBuffers is what the buffers of a merge hold together, in bytes.
	mergeBuffers = 4 << 20

	// leafFingerprints is how many fingerprints a look-up reads in the end: 4 KiB.
	leafFingerprints = 256

	// maxIndex is how many fingerprints of the sorted file are held in memory, so that a
	// look-up reads few: 1 MiB.
	maxIndex = 1 << 16
)

// fingerprintSet is a set of texts of any size in bounded memory. First all texts are added,
// then the set is sealed, then it answers. What does not fit into memory is in temporary
// files, as sorted runs, which seal merges into one.
type fingerprintSet struct {
	dir      string // of temporary files
	max      int    // how many are held in memory
	maxIndex int64

	held   []fingerprint
	runs   *scratch
	ends   []int64 // of the runs
	sorted *scratch
	n      int64         // in sorted
	index  []fingerprint // each stride-th of sorted
	stride int64
}

func (m *fingerprintSet) add(text string) error {
	if len(m.held) == m.max {
		if err := m.flush(); err != nil {
			return err
		}
	}
	m.held = append(m.held, fingerprintOf(text))
	return nil
}

// sort makes what is held a set.
func (m *fingerprintSet) sort() {
	slices.SortFunc(m.held, compareFingerprints)
	m.held = slices.Compact(m.held)
}

// flush writes what is held as a run.
func (m *fingerprintSet) flush() (err error) {
	m.sort()
	if m.runs == nil {
		if m.runs, err = newScratch(m.dir); err != nil {
			return err
		}
	}
	w := bufio.NewWriterSize(m.runs, 64<<10)
	for i := range m.held {
		if _, err := w.Write(m.held[i][:]); err != nil {
			return err
		}
	}
	var end int64
	if len(m.ends) > 0 {
		end = m.ends[len(m.ends)-1]
	}
	m.ends = append(m.ends, end+int64(len(m.held)*fingerprintSize))
	m.held = m.held[:0]
	return w.Flush()
}

// seal ends the adding.
func (m *fingerprintSet) seal() error {
	if len(m.ends) == 0 {
		m.sort()
		return nil
	}
	err := m.flush()
	m.held = nil
	if err == nil {
		err = m.merge()
	}
	return errors.Join(err, m.runs.Close())
}

// merge writes the runs into one sorted file.
func (m *fingerprintSet) merge() (err error) {
	if m.sorted, err = newScratch(m.dir); err != nil {
		return err
	}
	var runs []*run
	begin := int64(0)
	for _, end := range m.ends {
		r := &run{r: bufio.NewReaderSize(io.NewSectionReader(m.runs, begin, end-begin), max(mergeBuffers/len(m.ends), 4<<10)&^(fingerprintSize-1)), left: (end - begin) / int64(fingerprintSize)}
		begin = end
		more, err := r.next()
		if err != nil {
			return err
		}
		if more {
			runs = append(runs, r)
		}
	}
	slices.SortFunc(runs, compareRuns)
	m.stride = begin/int64(fingerprintSize)/m.maxIndex + 1
	w := bufio.NewWriterSize(m.sorted, 64<<10)
	var last fingerprint
	for len(runs) > 0 {
		first := runs[0]
		if compareFingerprints(first.at, last) < 0 {
			return errors.New("another program has changed the temporary file of the sweep")
		}
		if m.n == 0 || first.at != last {
			last = first.at
			if m.n%m.stride == 0 {
				m.index = append(m.index, last)
			}
			m.n++
			if _, err := w.Write(last[:]); err != nil {
				return err
			}
		}
		more, err := first.next()
		if err != nil {
			return err
		}
		rest := runs[1:]
		if !more {
			runs = rest
			continue
		}
		at, _ := slices.BinarySearchFunc(rest, first, compareRuns)
		copy(runs, rest[:at])
		runs[at] = first
	}
	return w.Flush()
}

// has reports whether a text was added. It may be called by one goroutine at a time.
func (m *fingerprintSet) has(text string) (bool, error) {
	want := fingerprintOf(text)
	if m.sorted == nil {
		_, found := slices.BinarySearchFunc(m.held, want, compareFingerprints)
		return found, nil
	}
	fence, found := slices.BinarySearchFunc(m.index, want, compareFingerprints)
	if found || fence == 0 {
		return found, nil
	}
	from := int64(fence-1) * m.stride
	to := min(from+m.stride, m.n)
	var at fingerprint
	for to-from > leafFingerprints {
		middle := (from + to) / 2
		if _, err := m.sorted.ReadAt(at[:], middle*int64(fingerprintSize)); err != nil {
			return false, err
		}
		if compareFingerprints(at, want) <= 0 {
			from = middle
		} else {
			to = middle
		}
	}
	var leaf [leafFingerprints * fingerprintSize]byte
	some := leaf[:int(to-from)*fingerprintSize]
	if _, err := m.sorted.ReadAt(some, from*int64(fingerprintSize)); err != nil {
		return false, err
	}
	for ; len(some) > 0; some = some[fingerprintSize:] {
		if fingerprint(some[:fingerprintSize]) == want {
			return true, nil
		}
	}
	return false, nil
}

// close removes the temporary files.
func (m *fingerprintSet) close() error { return errors.Join(m.runs.Close(), m.sorted.Close()) }

// run is a sorted run while it is merged.
type run struct {
	r    *bufio.Reader
	left int64
	at   fingerprint
}

// next reads the next mark. It returns false at the end of the run.
func (r *run) next() (bool, error) {
	if r.left == 0 {
		return false, nil
	}
	r.left--
	_, err := io.ReadFull(r.r, r.at[:])
	return true, err
}

func compareRuns(a, b *run) int { return compareFingerprints(a.at, b.at) }

// queue keeps orphans in the order in which they were added, in a temporary file.
type queue struct {
	file *scratch
	w    *bufio.Writer
	n    int64
}

func newQueue(dir string) (*queue, error) {
	file, err := newScratch(dir)
	if err != nil {
		return nil, err
	}
	w := bufio.NewWriterSize(file, 64<<10)
	return &queue{file: file, w: w}, nil
}

// orphanForm is the form of an orphan in the file. The verb q keeps any bytes. The package encoding/gob
// would make the start of each program slower that imports this package.
const orphanForm = "%q %q %d %s %q %q %t %q %t %q %q\n"

func (q *queue) add(o Orphan) error {
	q.n++
	w := o.Owner
	_, err := fmt.Fprintf(q.w, orphanForm, o.Object, o.Version, o.Size, o.Modified.Format(time.RFC3339Nano),
		w.Table, w.Key.Partition.Text, w.Key.Partition.Number, w.Key.Sort.Text, w.Key.Sort.Number, w.Attr, w.ID)
	return err
}

// all yields what was added, once.
func (q *queue) all(yield func(Orphan, error) bool) {
	err := q.w.Flush()
	if err == nil {
		_, err = q.file.Seek(0, io.SeekStart)
	}
	if err != nil {
		yield(Orphan{}, err)
		return
	}
	r := bufio.NewReaderSize(q.file, 64<<10)
	for range q.n {
		var o Orphan
		var modified string
		w := &o.Owner
		_, err := fmt.Fscanf(r, orphanForm, &o.Object, &o.Version, &o.Size, &modified,
			&w.Table, &w.Key.Partition.Text, &w.Key.Partition.Number, &w.Key.Sort.Text, &w.Key.Sort.Number, &w.Attr, &w.ID)
		if err == nil {
			o.Modified, err = time.Parse(time.RFC3339Nano, modified)
		}
		if err != nil {
			yield(Orphan{}, fmt.Errorf("a temporary file of the sweep: %w", err))
			return
		}
		if !yield(o, nil) {
			return
		}
	}
}

// scratch is a temporary file that only this user can read. Where the system lets it, it
// has no name, so that nothing is left of it when the process dies.
type scratch struct {
	*os.File
	removed bool
}

func newScratch(dir string) (*scratch, error) {
	f, err := os.CreateTemp(dir, "holdfast-sweep-")
	if err != nil {
		return nil, err
	}
	return &scratch{f, os.Remove(f.Name()) == nil}, nil
}

// Close closes the file and removes it. It may be called on nil, and again.
func (s *scratch) Close() error {
	if s == nil || s.File == nil {
		return nil
	}
	name := s.Name()
	err := s.File.Close()
	s.File = nil
	if !s.removed {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}
