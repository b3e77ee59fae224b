package filestore

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/internal/fold"
	"github.com/holdfast-go/holdfast/store"
)

// maxChain is the largest segment that is read to settle a write, in bytes. All entries
// that count in one segment fit.
const maxChain = 4 << 20

// Resolve implements [store.Resolver]. It reads the log from the place where the write would be.
// The store keeps the two newest files of a log. If other writers have filled two files after the
// write, the resolution is unknown. A write that Resolve reports as applied is durable.
func (s *Store) Resolve(ctx context.Context, key string, prev store.Version, writes ...store.Version) (store.ResolveResult, error) {
	found, err := bound(ctx, s, key, func() (store.ResolveResult, error) { return s.resolve(ctx, key, prev, writes) })
	if err != nil {
		return store.ResolveResult{}, s.opError(store.OpResolve, key, err)
	}
	return found, nil
}

func (s *Store) resolve(ctx context.Context, key string, prev store.Version, writes []store.Version) (store.ResolveResult, error) {
	found := store.ResolveResult{Current: store.Entry{Key: key}}
	var sync position
	err := s.withLog(ctx, key, func(l *log) error {
		if err := s.current(ctx, l, true); err != nil {
			return explain(err)
		}
		found.Current.Value, found.Current.Version = l.value()
		if err := s.resolveAll(l, prev, writes, &found); err != nil {
			return err
		}
		if found.Write != "" {
			l.seg.retain()
			sync = position{l.seg, l.seg.off}
		}
		return nil
	})
	if sync.seg != nil {
		err = s.makeDurable(ctx, sync)
	}
	return found, err
}

func (s *Store) resolveAll(l *log, prev store.Version, writes []store.Version, found *store.ResolveResult) error {
	found.Resolution = store.ResolutionNotApplied
	for _, write := range writes {
		resolution := store.ResolutionUnknown
		if write != "" {
			number, nonce, err := parseVersion(write)
			if err != nil {
				return err
			}
			resolution = s.resolutionOf(l, prev, number, nonce)
		}
		switch resolution {
		case store.ResolutionApplied, store.ResolutionSuperseded:
			found.Resolution, found.Write = resolution, write
			return nil
		case store.ResolutionUnknown:
			found.Resolution = resolution
		}
	}
	// A create whose version is not known may have been applied, and its register
	// deleted.
	if now := l.version(); now == prev && (now != "" || found.Resolution == store.ResolutionNotApplied) {
		found.Resolution = store.ResolutionPending
	}
	return nil
}

// resolutionOf returns the resolution of the entry with this number and nonce, which was written to
// follow prev.
func (s *Store) resolutionOf(l *log, prev store.Version, number uint64, nonce string) store.Resolution {
	var last uint64
	if l.seg != nil {
		last = l.seg.state.Number
	} else {
		// The log may have been removed, with numbers up to the floor.
		floor, err := s.currentFloor()
		if err != nil || number <= floor {
			return store.ResolutionUnknown
		}
		last = floor
	}
	switch {
	case number == last+1 && l.version() == prev:
		return store.ResolutionPending
	case number > last:
		return store.ResolutionUnknown // the log is older than the write: it was restored
	case l.seg.state.Nonce == nonce:
		return store.ResolutionApplied
	}
	// The segment before the newest one is kept as well.
	for segment := l.seg.number; segment > 0 && segment+1 >= l.seg.number; segment-- {
		first, nonces, err := s.chain(l, segment)
		switch {
		case err != nil || len(nonces) == 0:
			return store.ResolutionUnknown
		case number < first:
			continue
		case number-first < uint64(len(nonces)) && nonces[number-first] == nonce:
			return store.ResolutionSuperseded
		case number-first < uint64(len(nonces)):
			return store.ResolutionNotApplied
		}
	}
	return store.ResolutionUnknown
}

// chain returns the nonces of the entries of a segment that count, in their order, and
// the number of the first.
func (s *Store) chain(l *log, number uint64) (first uint64, nonces []string, err error) {
	dir, err := s.openDir(l)
	if err != nil {
		return 0, nil, err
	}
	defer dir.Close()
	g, err := openSegment(dir, l, number)
	if err != nil {
		return 0, nil, err
	}
	defer g.release()
	if g.off > maxChain {
		return 0, nil, nil
	}
	data, err := io.ReadAll(io.NewSectionReader(g.file, 0, g.off))
	if err != nil {
		return 0, nil, err
	}
	again := segmentOf(l, number)
	fold.Scan(data, func(e fold.Entry) {
		if again.apply(e) && e.Kind != fold.Seal {
			if nonces == nil {
				first = e.Number
			}
			nonces = append(nonces, e.Nonce)
		}
	})
	return first, nonces, nil
}

// parseVersion is the inverse of versionOf.
func parseVersion(v store.Version) (number uint64, nonce string, err error) {
	text, nonce, _ := strings.Cut(string(v), ".")
	number, err = strconv.ParseUint(text, 10, 64)
	if err != nil || number == 0 || nonce == "" || versionOf(number, nonce) != v {
		return 0, "", fmt.Errorf("%w: %.80q is not a version of a file store", store.ErrVersion, v)
	}
	return number, nonce, nil
}
