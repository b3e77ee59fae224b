// Package avisofile stores checkpoints in one JSON file. The file has the format of the state file
// of aviso, ECMWF's client for event notifications. The package uses the same lock file as aviso,
// so programs with aviso can use the state file at the same time.
//
// # Use
//
//	s, err := avisofile.Open("/var/lib/shop/aviso.json", nil)
//	defer s.Close(ctx)
//	_, err = s.Advance(ctx, key, checkpoint.Position{Sequence: 17}, nil)
//
// A [Store] implements [checkpoint.Store]: package checkpoint describes its methods, and
// checkpoint.Run can use it. If the file is damaged, Open returns a [*LoadError], and [Restore]
// restores the last good copy.
//
// # Keys and positions
//
// A key has 64 hexadecimal digits in either case; the store writes lower case. Package resumekey
// computes such keys. The file can store only a sequence and an event id. For a position with Data
// the error matches [errors.ErrUnsupported]. Store such checkpoints in a register.
//
// # Together with aviso
//
// In this section, "the other program" is aviso, or another program that uses the format without
// this package. At each write, the other program merges the keys in its memory into the file. If a
// key is in its memory and in the file, the higher sequence remains. If a key is only in its
// memory, the other program adds the key to the file. So while such a program runs:
//
//   - Advance is safe for both programs: no key moves back, and no commit is lost.
//   - The other program can undo a Reset or a Delete, because it can write its old state back.
//     Stop the other program first.
//   - Only this package checks fencing tokens and epochs. If the other program moves a key back or
//     deletes it, no new epoch begins. If a Store has already returned a higher sequence, it then
//     answers an Advance with RolledBack.
//   - The other program replaces a symbolic link by a plain file. Then no program uses the target
//     of the link and its fence file any more. An open Store logs a warning (Options.Logger). A
//     Store that is opened later cannot detect this.
//   - The other program follows a symbolic link with the name FILE.lock. This package refuses
//     such a link with [store.ErrUnsafe].
//   - The other program changes the owner of the file to its own user, and the mode by its umask.
//   - Each of the two programs removes fields that it does not know.
//   - If the other program is killed, it may leave a directory of temporary files. This package
//     does not remove the directory, because the name of the directory does not show which program
//     owns it.
//
// # Files
//
// The directory of the state file FILE contains:
//
//   - FILE.lock: the lock file. A writer locks it with an exclusive flock(2) while it reads,
//     changes and writes the state file. No program truncates or removes the lock file. Readers do
//     not lock it.
//   - FILE.fence: fencing tokens and epochs, because the format has no fields for them; see below.
//   - FILE.good: the state before the last change by this package. [Restore] uses this copy.
//   - FILE.bad: the file that the last Restore replaced.
//   - .FILE.holdfast-*.tmp: a temporary file. If a process was killed and left such a file, the
//     next writer removes it while it has the lock.
//
// A state file has at most 256 MiB. A fence file has at most 64 MiB, which is about 500,000 keys.
//
// Only the owner can read and write a new file (mode 0600). A replaced file keeps its owner, group
// and mode, but not its access lists and other extended attributes. There is an exception: if a
// user other than root replaces the file of another user, the new file belongs to the first user.
// If the file and the directory have the same group, and this group may write to the directory, the
// group gets the owner's rights to the new file. If the former owner could not read or replace the
// new file, the store refuses the change with [store.ErrDenied].
//
// If the path is a symbolic link, the store replaces the target and keeps the link. It takes the
// lock of every link on the way to the target. So the lock also excludes programs that use the file
// by another name.
//
// # What is promised
//
// For every change, the store takes the lock and reads the present content of the file. It
// acknowledges a change after it has synced the file and the directory. An acknowledged change
// survives a power cut, on a local file system that honours flushes. The store also syncs the file
// before an answer that needs no write (Unchanged, Behind, ...), and before a Get that reads the
// file. It syncs the file even if another program wrote it.
//
// If a change returns an error, the old state file remains, with one exception: if the sync of the
// directory fails after the rename, the outcome is unknown. The store then reads the file again,
// and the next change rewrites the file. If a change raises a token or an epoch and then cannot write
// the state file, the new token or epoch stays, so the outcome is unknown too.
//
// Concurrent calls share one lock, one rewrite and one sync (group commit). The calls wait for the
// lock by flock(2), like other programs. The context of a call bounds only that call. If the
// context ends while the call waits for the lock, the store writes nothing for that call. If the
// context ends during the write, the call returns, and the write continues.
//
// In this format, no program may replace the lock file. Before and after the store replaces the
// state file, it checks that the lock file is still the same file. If the second check fails, the
// outcome is unknown. If a program replaces the lock file between the two checks, the promises
// above do not hold.
//
// The store refuses file systems that are not known to be local; see [Options]. Only Linux is
// tested. The package also builds on macOS and Windows.
//
// # The fence file
//
// FILE.fence is a JSON object with these fields:
//
//   - "holdfast": the version of this format, 1. The store refuses a higher version.
//   - "kind": "checkpoint-fence".
//   - "keys": an object from keys to objects with "epoch", "token" and "pending".
//   - "epoch": an integer, at least 1. A key without an entry has epoch 1 and no token.
//   - "token": the highest fencing token; absent if there is none.
//   - "pending": true if a Reset or Delete has written the new epoch but has not yet written the
//     state file; otherwise absent.
//
// The store keeps unknown fields. It writes and syncs the fence file before the state file, under
// the same lock. If the fence file is removed or restored from an older copy, old tokens and
// epochs are valid again.
package avisofile
