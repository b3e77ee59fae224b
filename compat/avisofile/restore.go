package avisofile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/store"
)

// RestoreOptions are the options of [Restore]. The zero value of each field means
// its default.
type RestoreOptions struct {
	// AllowNetwork allows a file system that is not known to be local; see [Options].
	AllowNetwork bool

	// Unsafe lists the risks of the directory that the caller accepts; see [Options].
	Unsafe []string

	// Logger receives the warnings that [Options] describe. Default: no log.
	Logger *slog.Logger

	// With DryRun, Restore changes nothing, and returns the result that it would have without
	// DryRun. It does not create or take the lock.
	DryRun bool
}

// RestoreResult describes what a [Restore] did or would do.
type RestoreResult struct {
	Backup BackupCopy // the copy that replaced the state file

	// ReplacedPath is the path of the file that was replaced; empty if there was none.
	ReplacedPath string

	// Changed is the time of the last change of the replaced file, by the clock of the machine.
	// Changed is zero if there was no file. All writes after Backup.Written and up to Changed are
	// lost.
	Changed time.Time

	// Compared is the number of keys that Restore could read in both files, the replaced file and
	// the copy. In a damaged file, Restore can read only the keys before the damage.
	Compared int

	// MovedBack lists the checkpoints that the Restore moves back, sorted by key. It lists only
	// keys that Restore could read in the replaced file.
	MovedBack []MovedBackKey
}

// MovedBackKey is a checkpoint that a [Restore] moves back.
type MovedBackKey struct {
	Key      string
	From, To uint64 // sequences
	Missing  bool   // the copy does not have this key, and To is 0
}

// Restore replaces a state file with its last good copy. The replaced file remains under the name
// [RestoreResult].ReplacedPath; Restore overwrites an older file with this name.
//
// The copy contains the state before the last change by this package. All later writes are lost,
// including the writes of other programs. The result lists the lost writes that Restore could read
// in the replaced file. A new epoch begins for every key that Restore finds in the copy, in the
// replaced file before the damage, or in the fence file. So if a worker began before the Restore, its
// next Advance of such a key gets RolledBack. Before you call Restore, stop other programs that write
// the file, because they do not use epochs.
//
// If there is no good copy, the error matches [fs.ErrNotExist]. If the file has a version that this
// program does not read, the error matches [checkpoint.ErrFormat]: use a newer program. The context
// bounds the wait for the lock.
func Restore(ctx context.Context, path string, opts *RestoreOptions) (RestoreResult, error) {
	r, err := restore(ctx, path, opts)
	if err != nil {
		return r, &store.OpError{Op: "checkpoint restore", Key: path, Err: denied(err)}
	}
	return r, nil
}

func restore(ctx context.Context, path string, opts *RestoreOptions) (RestoreResult, error) {
	opts = cmp.Or(opts, &RestoreOptions{})
	l, err := newLocker(path, opts.AllowNetwork, opts.Unsafe, opts.Logger)
	if err != nil {
		return RestoreResult{}, store.MarkNotApplied(err)
	}
	if opts.DryRun {
		p, err := resolve(l.path)
		if err != nil {
			return RestoreResult{}, store.MarkNotApplied(err)
		}
		plan, err := planRestore(p)
		plan.close()
		return plan.result, store.MarkNotApplied(err)
	}
	h, err := l.acquire(ctx.Done(), func() bool { return ctx.Err() == nil })
	if err != nil {
		return RestoreResult{}, store.MarkNotApplied(err)
	}
	if h == nil {
		giveBack(l.leave())
		return RestoreResult{}, store.MarkNotApplied(store.Cause(ctx))
	}
	defer h.release()
	plan, err := planRestore(h.path)
	defer plan.close()
	if err != nil {
		return plan.result, store.MarkNotApplied(err)
	}
	return plan.result, plan.carryOut(h)
}

// restoring is a restore that is possible, with the files that it needs.
type restoring struct {
	result RestoreResult
	good   state
	old    *snapshot // the state file to replace; it may be absent
	lost   state     // the content of old before the damage
	fence  *snapshot
	fences fences
}

func (r *restoring) close() {
	for _, m := range []*snapshot{r.old, r.fence} {
		if m != nil {
			m.close()
		}
	}
}

// planRestore reads the files and returns what a restore would do.
func planRestore(p filePath) (*restoring, error) {
	r := &restoring{}
	goodPath := p.file() + goodSuffix
	m, content, err := readSnapshot(goodPath, maxStateFile)
	if err != nil {
		return r, err
	}
	if m.info == nil {
		return r, &os.PathError{Op: "open", Path: goodPath, Err: fs.ErrNotExist}
	}
	defer m.close()
	if r.good, err = decode(content); err != nil {
		return r, fmt.Errorf("the copy %s is damaged too: %w", goodPath, err)
	}
	r.result.Backup = BackupCopy{Path: goodPath, Written: m.info.ModTime(), Keys: len(r.good)}

	var wrong *LoadError
	r.old, _, err = readState(p)
	r.compare(p)
	switch {
	case errors.As(err, &wrong) && !errors.Is(err, checkpoint.ErrFormat):
		r.result.ReplacedPath = p.file() + badSuffix
	case err != nil:
		return r, err
	case r.old.info != nil:
		r.result.ReplacedPath = p.file() + badSuffix
		return r, ErrReadable
	}

	fencePath := p.file() + fenceSuffix
	if r.fence, content, err = readSnapshot(fencePath, maxFenceFile); err != nil || r.fence.info == nil {
		return r, err
	}
	r.fences, err = decodeFences(fencePath, content)
	return r, err
}

// compare finds the keys that the restored state lacks or moves back, as far as the file to
// replace can be read.
func (r *restoring) compare(p filePath) {
	m, content, err := readSnapshot(p.file(), maxStateFile)
	if err != nil || m.info == nil {
		return
	}
	defer m.close()
	r.result.Changed = m.info.ModTime()
	r.lost = readDamaged(content)
	for _, e := range r.lost {
		to, ok := r.good.find(e.key)
		if ok {
			r.result.Compared++
		}
		if !ok || to.sequence < e.sequence {
			r.result.MovedBack = append(r.result.MovedBack, MovedBackKey{e.key.String(), e.sequence, to.sequence, !ok})
		}
	}
}

// carryOut replaces the state file: it writes the new epochs, then gives the old file its
// other name, then writes the state.
func (r *restoring) carryOut(h *hold) error {
	if err := h.sweep(); err != nil {
		return store.MarkNotApplied(err)
	}
	keys := slices.Collect(maps.Keys(r.fences.guards))
	for _, e := range slices.Concat(r.good, r.lost) {
		keys = append(keys, e.key)
	}
	guards := make(map[digest]guard)
	for _, key := range keys {
		g := r.fences.guard(key)
		g.epoch++
		g.pending = true
		guards[key] = g
	}
	fences := r.fences.with(guards)
	if err := r.writeFences(h, fences); err != nil {
		return err
	}
	if r.old.info != nil {
		if err := h.keepAs(r.result.ReplacedPath); err != nil {
			return store.MarkNotApplied(err)
		}
	}
	m, err := h.replace(h.path.file(), encode(r.good), nil)
	if err != nil {
		return err
	}
	m.close()
	if confirmed, pending := fences.confirmed(); pending {
		// If this fails, the next program that takes the lock finds the mark and removes
		// it.
		_ = r.writeFences(h, confirmed)
	}
	return nil
}

func (r *restoring) writeFences(h *hold, f fences) error {
	m, err := h.replaceFences(f)
	if err == nil {
		m.close()
	}
	return err
}
