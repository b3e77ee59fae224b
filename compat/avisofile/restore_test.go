//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package avisofile_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/compat/avisofile"
	"github.com/holdfast-go/holdfast/store"
)

func TestRestore(t *testing.T) {
	path := statePath(t)
	s := open(t, path, nil)
	ctx := t.Context()
	if _, err := avisofile.Restore(ctx, path, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a copy: got %v", err)
	}
	advance(t, s, keyA, at(1), checkpoint.Advanced)
	advance(t, s, keyB, at(7), checkpoint.Advanced)
	advance(t, s, keyA, at(2), checkpoint.Advanced)

	if r, err := avisofile.Restore(ctx, path, nil); !errors.Is(err, avisofile.ErrReadable) || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("of a file that can be read: got %+v, %v", r, err)
	}
	whole, err := os.ReadFile(path)
	do(t, err)
	cut := whole[:len(whole)/2]
	do(t, os.WriteFile(path, cut, 0o600))

	// The error says what is wrong and what can be done.
	_, err = avisofile.Open(path, nil)
	var load *avisofile.LoadError
	if !errors.As(err, &load) || load.Backup.Keys != 2 || load.Backup.Path != path+".good" || load.Backup.Written.IsZero() {
		t.Fatalf("got %v", err)
	}
	for _, part := range []string{path, "ends too early, after", "nothing was overwritten", "with 2 keys", path + ".good", "restore"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}

	r, err := avisofile.Restore(ctx, path, &avisofile.RestoreOptions{DryRun: true})
	if err != nil || r.Backup != load.Backup || r.ReplacedPath != path+".bad" {
		t.Errorf("dry run: got %+v, %v", r, err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != string(cut) {
		t.Errorf("the dry run left %q, %v", b, err)
	}

	unlock := lockFile(t, path)
	short, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
	defer cancel()
	if _, err := avisofile.Restore(short, path, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while it is locked: got %v", err)
	}
	unlock()
	r, err = avisofile.Restore(ctx, path, nil)
	if err != nil || r.Backup != load.Backup || r.ReplacedPath != path+".bad" {
		t.Fatalf("got %+v, %v", r, err)
	}
	if b, err := os.ReadFile(r.ReplacedPath); err != nil || string(b) != string(cut) {
		t.Errorf("kept: got %q, %v", b, err)
	}
	// Work that began before is not taken for work on what was restored.
	advance(t, s, keyA, at(3), checkpoint.RolledBack)
	advance(t, s, keyB, at(8), checkpoint.RolledBack)
	if c := get(t, s, keyA); c.Sequence != 1 || c.Epoch != 2 {
		t.Errorf("got %+v", c)
	}
	advance(t, s, keyA, at(2), checkpoint.Advanced)
	wantAt(t, open(t, path, nil), keyB, 7)

	// A file that was removed comes back, too. So a user replaces a file that can be read by moving it away first.
	advance(t, s, keyA, at(5), checkpoint.Advanced)
	do(t, os.Remove(path))
	if r, err := avisofile.Restore(ctx, path, nil); err != nil || r.ReplacedPath != "" || r.Backup.Keys != 2 {
		t.Fatalf("got %+v, %v", r, err)
	}
	wantAt(t, s, keyA, 2)

	// A copy that is no good is not put in place.
	do(t, os.WriteFile(path, cut, 0o600))
	do(t, os.WriteFile(path+".good", cut, 0o600))
	if _, err := avisofile.Restore(ctx, path, nil); !errors.Is(err, avisofile.ErrMalformed) || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("got %v", err)
	}
	if _, err := avisofile.Open(path, nil); err == nil || !strings.Contains(err.Error(), "no good copy") {
		t.Errorf("got %v", err)
	}
	assertNoLeftOvers(t, path)
}

// TestGoodCopyIsTheStateBefore: the copy is another file than the state, so that
// what cuts the one off leaves the other whole.
func TestGoodCopyIsTheStateBefore(t *testing.T) {
	path := statePath(t)
	s := open(t, path, nil)
	advance(t, s, keyA, at(1), checkpoint.Advanced)
	if _, err := os.Stat(path + ".good"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a copy of nothing: %v", err)
	}
	for i := range uint64(5) {
		before, err := os.ReadFile(path)
		do(t, err)
		advance(t, s, keyA, at(2+i), checkpoint.Advanced)
		good, err := os.ReadFile(path + ".good")
		do(t, err)
		if string(good) != string(before) {
			t.Errorf("got %s, want %s", good, before)
		}
	}
	assertNoLeftOvers(t, path)
}

// TestRestoreReportsTheDistance: other programs wrote for long after the last change of ours.
// Restore reports the part of it that the damaged file still shows.
func TestRestoreReportsTheDistance(t *testing.T) {
	path := statePath(t)
	s := open(t, path, nil)
	keys := []string{resumeKey("0"), resumeKey("1"), resumeKey("2"), resumeKey("3")}
	slices.Sort(keys)
	for _, key := range keys[:3] {
		advance(t, s, key, at(41), checkpoint.Advanced)
	}
	advance(t, s, keys[0], at(42), checkpoint.Advanced)
	p := mustPeer(t, path)
	for n := uint64(43); n <= 100; n++ {
		do(t, p.put(keys[0], mark{Sequence: n}))
	}
	do(t, p.put(keys[3], mark{Sequence: 5}))
	whole, err := loadPeer(path)
	do(t, err)
	one := func(i int) string {
		return fmt.Sprintf(`"%s":{"last_committed_sequence":%d}`, keys[i], whole[keys[i]].Sequence)
	}
	begin := `{"version":1,"key_format_version":1,"checkpoints":{`
	first := avisofile.MovedBackKey{Key: keys[0], From: 100, To: 41}
	last := avisofile.MovedBackKey{Key: keys[3], From: 5, Missing: true}
	for name, tt := range map[string]struct {
		damaged  string
		compared int
		back     []avisofile.MovedBackKey
		err      error
	}{
		"cut in the last":    {begin + one(3) + "," + one(0) + "," + one(1) + "," + one(2)[:90], 2, []avisofile.MovedBackKey{first, last}, nil},
		"cut in the first":   {begin + one(0)[:90], 0, nil, nil},
		"of another version": {strings.Replace(begin, "1", "2", 1) + one(0) + "," + one(1) + "," + one(2) + "}}", 3, []avisofile.MovedBackKey{first}, checkpoint.ErrFormat},
		"empty":              {"", 0, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			do(t, os.WriteFile(path, []byte(tt.damaged), 0o600))
			changed := time.Now().Add(-time.Hour).Truncate(time.Second)
			do(t, os.Chtimes(path, changed, changed))
			for _, dry := range []bool{true, false} {
				r, err := avisofile.Restore(t.Context(), path, &avisofile.RestoreOptions{DryRun: dry})
				if !errors.Is(err, tt.err) || r.Compared != tt.compared || !slices.Equal(r.MovedBack, tt.back) || !r.Changed.Equal(changed) {
					t.Errorf("got %+v, %v, want %d compared, back %+v, changed %v", r, err, tt.compared, tt.back, changed)
				}
				if b, err := os.ReadFile(path); tt.err != nil && string(b) != tt.damaged {
					t.Errorf("the refused restore left %q, %v", b, err)
				}
			}
		})
	}
}

// TestRestoreBeginsEpochs: an Advance that began before a restore gets RolledBack, also for a key that only the
// damaged file or only the fence file shows.
func TestRestoreBeginsEpochs(t *testing.T) {
	path := statePath(t)
	s := open(t, path, nil)
	ctx := t.Context()
	copied, read, fenced := strings.Repeat("0", 64), strings.Repeat("1", 64), strings.Repeat("f", 64)
	advance(t, s, copied, at(1), checkpoint.Advanced)
	good, err := os.ReadFile(path)
	do(t, err)
	advance(t, s, read, at(2), checkpoint.Advanced)
	if r, err := s.Advance(ctx, fenced, at(3), &checkpoint.AdvanceOptions{Token: 5}); err != nil || r.Status != checkpoint.Advanced {
		t.Fatalf("got %+v, %v", r, err)
	}
	do(t, s.Close(ctx))
	whole, err := os.ReadFile(path)
	do(t, err)
	do(t, os.WriteFile(path, whole[:strings.Index(string(whole), fenced)], 0o600))
	do(t, os.WriteFile(path+".good", good, 0o600))
	if r, err := avisofile.Restore(ctx, path, nil); err != nil || r.Compared != 1 || len(r.MovedBack) != 1 {
		t.Fatalf("got %+v, %v", r, err)
	}
	s = open(t, path, nil)
	for key, token := range map[string]uint64{copied: 0, read: 0, fenced: 5} {
		r, err := s.Advance(ctx, key, at(9), &checkpoint.AdvanceOptions{Epoch: 1, Token: token})
		if r.Status != checkpoint.RolledBack {
			t.Errorf("%.4s: got %+v, %v, want %v", key, r, err, checkpoint.RolledBack)
		}
	}
}
