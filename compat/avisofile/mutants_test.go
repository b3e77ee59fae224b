//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package avisofile_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutanttest"
)

func TestMutants(t *testing.T) {
	mutanttest.Run(t, []mutanttest.Mutant{
		{"no lock is taken", "lock.go", "		ok, err := lock(f, false)\n", "		ok, err := true, error(nil)\n", "TestReplacedLock"},
		{"a waiter polls", "wait.go", "	case waits <- struct{}{}:\n	default:\n", "	default:\n", "TestWaiterGetsItsTurn"},
		{"a lock that comes too late is kept", "wait.go", "		if w.left {\n			back = w.take()", "		if false {\n			back = w.take()", "TestGivenUpWaitsAreBounded"},
		{"a wait is not resumed", "wait.go", "	if l.wait != nil && !l.wait.resume() { // it was left\n", "	if l.wait != nil {\n", "TestGivenUpWaitsAreBounded"},
		{"a replaced lock is not noticed while it is waited for", "wait.go", "isNamed(w.file, w.name+lockSuffix)", "true", "TestReplacedLock"},
		{"a replaced lock is not noticed", "lock.go", "err == nil && os.SameFile(mine, now)", "err == nil && (os.SameFile(mine, now) || f != nil)", "TestLockReplacedDuringAWrite"},
		{"only the file's own name is locked", "path.go", "		p.names = append(p.names, name)\n", "		p.names = []string{name}\n", "TestLinkModeAndOwnerAreKept"},
		{"links in the lock's place are followed", "../../internal/safefile/sys_unix.go", "NoFollow = noWait | syscall.O_NOFOLLOW", "NoFollow = noWait", "TestBadPlaces"},
		{"a change is made on what is in memory", "commit.go", "	v, p, err := s.fresh(nil)\n", "	v, p, err := s.memory(), h.path, error(nil)\n	if v == nil {\n		v, p, err = s.fresh(nil)\n	}\n", "TestStaleHandleBringsNothingBack"},
		{"the file is not synced", "write.go", "	if err := f.Sync(); err != nil {\n		return nil, err\n	}\n", "", "TestFaults"},
		{"the directory is not synced", "write.go", "if err := safefile.SyncDir(filepath.Dir(path)); err != nil {", "if err := error(nil); err != nil {", "TestFaults"},
		{"a failed sync of the directory is said to be no write", "write.go", "return store.MarkUnknown(fmt.Errorf(\"the new content of %s is written, but", "return store.MarkNotApplied(fmt.Errorf(\"%s was replaced, but", "TestDoubt"},
		{"a failed sync leaves no doubt", "commit.go", "if doubt || store.OutcomeOf(err) == store.Unknown {", "if doubt {", "TestDoubt"},
		{"what another wrote is taken for durable", "view.go", "	if v.durable.Load() {\n		return nil\n	}\n", "	if true {\n		return nil\n	}\n", "TestAnswersRestOnDurableFiles"},
		{"the state is written before the fences", "commit.go", "	if len(w.guards) > 0 || doubt", "	if w.written {\n		if err := s.writeState(h, next, v.state.with(w.entries), c); err != nil {\n			return err\n		}\n	}\n	if len(w.guards) > 0 || doubt", "TestFaults"},
		{"a reset in the middle can be seen", "apply.go", "g.pending = v.Next.Epoch != now.Epoch", "g.pending = false", "TestResetIsMarked"},
		{"a reset in the middle is not waited for", "store.go", "if v.fences.guard(key).pending {", "if false {", "TestPendingReset"},
		{"what went back behind our back is not noticed", "../../checkpoint/change.go", "(!now.Exists || now.Sequence < s.Sequence)", "false", "TestRolledBackBehindOurBack"},
		{"a delete does not yield", "../../checkpoint/change.go", "s.Exists && now.Sequence > s.Sequence", "false", "TestExpected"},
		{"a token is not kept", "apply.go", "v.Next.Token != now.Token || v.Next.Epoch", "v.Next.Epoch", "TestFencing"},
		{"the holder is not asked again", "apply.go", "(c.tokenAtCheck == nil || *c.tokenAtCheck != now.Token)", "c.tokenAtCheck == nil", "TestHeldBy"},
		{"a caller that leaves learns that nothing was written", "../../internal/group/group.go", "	if t.Sent {", "	if false {", "TestGivenUpHalfway"},
		{"calls are written whose callers have left", "../../internal/group/group.go", "		if c.GroupWaiter().Abandoned {\n", "		if false {\n", "TestGivenUpHalfway"},
		{"each caller writes alone", "queue.go", "	batch := s.queue.Take(nil)\n", "	batch := s.queue.Take(func(_, _ *op) bool { return false })\n", "TestGroupCommit"},
		{"left-overs are not swept", "write.go", "ok := strings.CutPrefix(name, base)", "ok := strings.CutPrefix(name, base+base)", "TestLeftOversAreSwept"},
		{"the owner is not kept", "sys_unix.go", "	chown := f.Chown(int(was.Uid), int(was.Gid))\n", "	chown := error(nil)\n", "TestLinkModeAndOwnerAreKept"},
		{"a file of another user is made unreadable for that user", "sys_unix.go", "	if mode&0o004 == 0 && !(shared", "	if false && !(shared", "TestFileIsNotTakenAway"},
		{"the group of another user's file gets no rights", "sys_unix.go", "	if shared {\n", "	if false {\n", "TestWithAnotherUser"},
		{"the log does not mention another user", "write.go", "		if changed != \"\" {", "		if false {", "TestWithAnotherUser"},
		{"the log does not mention fences that went back", "view.go", "lost > 0", "lost > 9", "TestLostFencesAreReported"},
		{"the mode is not kept", "sys_unix.go", "	mode := old.Mode().Perm()\n", "	mode := fs.FileMode(0o600)\n", "TestLinkModeAndOwnerAreKept"},
		{"a link is replaced", "path.go", "if info.Mode()&fs.ModeSymlink == 0 {", "if info.Mode()&fs.ModeSymlink == 0 || true {", "TestLinkModeAndOwnerAreKept"},
		{"no good copy is kept", "write.go", "	return h.keepAs(good)\n", "	return nil\n", "TestGoodCopyIsTheStateBefore"},
		{"a restore begins no epoch", "restore.go", "		g.epoch++\n", "", "TestRestore"},
		{"keys are not sorted", "decode.go", "	slices.SortStableFunc(all, order)\n", "	slices.SortStableFunc(all[:0], order)\n", "TestGolden"},
		{"files are not closed", "view.go", "	if v.stateSnapshot != nil && (other == nil", "	if false && (other == nil", "TestDescriptors"},
		{"network file systems are allowed", "path.go", "if !local && !network {", "if !local && !network && kind == \"\" {", "TestNetworkFileSystemsAreRefused"},
	})
}
