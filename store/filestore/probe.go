package filestore

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast/internal/fold"
	"github.com/holdfast-go/holdfast/store"
)

const (
	probeFile = "append-probe"
	probeWon  = "won-"
)

// AppendProbe is one of several processes that find out together whether a file
// system appends atomically: it writes n entries to a log in dir, against the state
// that it reads there, and notes how many of them counted. All the processes do so
// at the same time, and then [CheckAppendProbe] compares. dir is an empty directory
// on that file system, and of no other use.
func AppendProbe(dir string, n int) error {
	if err := appendProbe(dir, n); err != nil {
		return fmt.Errorf("probe %s: %w", dir, explain(err))
	}
	return nil
}

func appendProbe(dir string, n int) error {
	log := filepath.Join(dir, probeFile)
	own := random()
	tmp := filepath.Join(dir, tmpPrefix+own)
	base := fold.AppendLine(nil, fold.Entry{Kind: fold.Base, Nonce: "probe", Value: []byte("{}")})
	if err := os.WriteFile(tmp, base, 0o600); err != nil {
		return err
	}
	if err := os.Link(tmp, log); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := os.Remove(tmp); err != nil {
		return err
	}
	f, err := os.OpenFile(log, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	var g probeLog
	won := 0
	if err := g.read(f, ""); err != nil {
		return err
	}
	for range n {
		e := g.state.Next(random(), []byte(`"`+own+`"`), false)
		text := fold.AppendLine(nil, e)
		if n, err := writeOnce(f, text); err != nil || n < len(text) {
			return cmp.Or[error](err, io.ErrShortWrite)
		}
		if err := g.read(f, e.Nonce); err != nil {
			return err
		}
		if g.counts {
			won++
		}
	}
	return os.WriteFile(filepath.Join(dir, probeWon+own), fmt.Append(nil, won), 0o600)
}

// probeLog is the log of a probe, as far as it was read.
type probeLog struct {
	state   fold.State
	off     int64
	entries int
	counts  bool // the entry that was looked for
}

// read reads on to the end. An entry of that nonce, if it is not empty, must be
// there.
func (g *probeLog) read(f *os.File, nonce string) error {
	data, err := io.ReadAll(io.NewSectionReader(f, g.off, 1<<40))
	if err != nil {
		return err
	}
	found := nonce == ""
	g.off += int64(fold.Scan(data, func(e fold.Entry) {
		counts := g.state.Apply(e)
		if e.Kind == fold.Value {
			g.entries++
		}
		if e.Nonce == nonce {
			found, g.counts = true, counts
		}
	}))
	if !found {
		return fmt.Errorf("%w: what a process appended is not there when it reads the file", store.ErrUnsafe)
	}
	return nil
}

// CheckAppendProbe tells what the given number of processes proved that have each
// called [AppendProbe] in dir with n, at the same time. Unless every entry is there,
// whole, and all processes agree on which of them counted, the error matches
// [store.ErrUnsafe].
func CheckAppendProbe(dir string, processes, n int) error {
	if err := checkAppendProbe(dir, processes, n); err != nil {
		return fmt.Errorf("probe %s: %w", dir, explain(err))
	}
	return nil
}

func checkAppendProbe(dir string, processes, n int) error {
	f, err := os.Open(filepath.Join(dir, probeFile))
	if err != nil {
		return err
	}
	defer f.Close()
	var g probeLog
	if err := g.read(f, ""); err != nil {
		return err
	}
	results, err := filepath.Glob(filepath.Join(dir, probeWon+"*"))
	if err != nil {
		return err
	}
	if len(results) != processes {
		return fmt.Errorf("%d of %d processes came to an end", len(results), processes)
	}
	total := uint64(0)
	for _, file := range results {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var won uint64
		if _, err := fmt.Sscan(string(text), &won); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		total += won
	}
	if g.entries != processes*n {
		return fmt.Errorf("%w: of %d appended entries %d are there and whole", store.ErrUnsafe, processes*n, g.entries)
	}
	if g.state.Number != total {
		return fmt.Errorf("%w: %d entries count, and the processes saw %d of theirs count", store.ErrUnsafe, g.state.Number, total)
	}
	return nil
}
