// Package avisofile keeps checkpoints in one JSON file, in the format of the state
// file of aviso (ECMWF's client for event notifications), and can share that file
// with running aviso programs: same bytes, same lock.
//
// # Files
//
// Beside the state file FILE there are
//
//   - FILE.lock: the lock of the format, an exclusive flock(2) around each
//     read-change-write. It is never truncated or removed. Readers do not take it.
//   - FILE.fence: fencing tokens and epochs, for which the format has no place; see
//     below.
//   - FILE.good: the state before the last change of this package, the last good copy for
//     [Restore].
//   - FILE.bad: what the last Restore replaced.
//   - .FILE.holdfast-*.tmp: a file that is being made. The next process that writes
//     removes, under the lock, what a killed process left.
//
// New files are for their owner alone (0600); files that are replaced keep owner, group
// and mode, but not access lists and other extended attributes. A user who cannot keep the
// owner of another user's file makes it a file of its own, if the other user can read and
// replace that one: as any user, or as a member of the directory's group, which then gets
// the owner's rights. Otherwise the change is refused with [store.ErrDenied]. Where the path is a
// symbolic link, the link stays and the file that it leads to is replaced. The store then
// takes the lock beside every name on the way, and so also excludes programs that know
// the file by another name.
//
// # Keys and positions
//
// A key is 64 hexadecimal digits, of either case; lower case is written. The file has
// a place for sequence and event id. A position with Data is refused with an error
// that matches [errors.ErrUnsupported]: keep such checkpoints on a register.
//
// # What is promised
//
// The store makes every change on the current content of the file, under its lock. It
// acknowledges the change when file, name and directory are synced: the change survives a
// power cut on a local file system that honours flushes. Before an answer without a write
// (Unchanged, Behind, ...), and before a fresh Get, it syncs the file likewise, whichever
// program wrote it. An error before that leaves the old file in place, with one
// exception: if the sync of the directory fails after the rename, the outcome is unknown,
// the store reads the file anew, and the next change rewrites it.
//
// Concurrent calls share one lock, one rewrite and one sync (group commit). They wait for
// the lock in the kernel, in line with other programs. A context bounds its own call. If it
// ends while the call waits for the lock, nothing is written for that call. If it ends
// during the write, the write continues without its caller.
//
// The store checks before it replaces the state file that the lock file was not replaced
// (which the format forbids), and checks again afterwards. In the second case the outcome
// is unknown. Between the two checks nothing can be promised.
//
// File systems that are not known to be local are refused; see [Options]. Linux is
// tested; macOS and Windows build, and are not tested.
//
// # Beside other programs that follow the format
//
// A program that follows the format but does not use this package, such as aviso, merges
// its memory into the file at each write. Of a key that is in both, the higher sequence
// stays; a key that only its memory has comes back. So while such a program runs:
//
//   - Advance is safe, both ways: no key goes back, no commit of either is lost.
//   - Reset and Delete are promised among the stores of this package only. The other
//     program can write back what it remembers: stop it first.
//   - Fencing tokens and epochs bind the stores of this package only. The other program's
//     writes are not fenced. If it moves a key back or deletes it, no new epoch begins; a
//     Store that has shown a higher sequence then answers RolledBack.
//   - It replaces a symbolic link by a plain file. The file that the link led to, with
//     its fence file, is then no longer used. A Store that is open warns of that
//     (Options.Logger); one that is opened later cannot know.
//   - It follows a link in the place of FILE.lock. This package refuses it with
//     [store.ErrUnsafe].
//   - It gives the file its own owner, and a mode by its umask.
//   - It drops fields that it does not know; so does this package.
//   - If it is killed it may leave a directory of temporary files. This package does not
//     remove it, since its name does not identify its owner.
//
// # The fence file
//
// FILE.fence is a JSON object: "holdfast" (the version of this format, 1), "kind"
// ("checkpoint-fence") and "keys", an object from keys as above to objects with
// "epoch" (an integer from 1 on), "token" (the highest fencing token; missing: none)
// and "pending" (true while a Reset or Delete writes its epoch before the state;
// missing otherwise). A key that is not there has epoch 1 and no token. Fields that
// are unknown are kept; a higher version is refused. It is written and synced before
// the state that it guards, under the same lock.
//
// If the fence file is removed, or restored from an older copy, old tokens and epochs
// come back.
package avisofile
