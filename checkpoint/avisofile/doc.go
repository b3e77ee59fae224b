// Package avisofile keeps checkpoints in one JSON file, in the format of the state file of aviso,
// ECMWF's client for event notifications. Running aviso programs can use the same file at the
// same time: the format and the lock are theirs.
//
// # Use
//
//	s, err := avisofile.Open("/var/lib/shop/aviso.json", nil)
//	defer s.Close(ctx)
//	_, err = s.Advance(ctx, key, checkpoint.Position{Sequence: 17}, nil)
//
// A [Store] is a [checkpoint.Store], so package checkpoint describes its methods, and
// checkpoint.Run works on it. If the file is damaged, Open returns a [*LoadError]; [Restore]
// restores the last good copy.
//
// # Keys and positions
//
// A key is 64 hexadecimal digits, of either case; the store writes lower case. Package resumekey
// computes such keys. The file has a place for sequence and event id only. A position with Data
// is an error that matches [errors.ErrUnsupported]: keep such checkpoints on a register.
//
// # Next to programs that do not use this package
//
// A program that follows the format but does not use this package, such as aviso, merges its
// memory into the file at each write. Of a key that is in both, the higher sequence stays. A key
// that only its memory has is restored. So while such a program runs:
//
//   - Advance is safe for both: no key goes back, and no commit of either is lost.
//   - The promises of Reset and Delete hold only among the stores of this package. The other
//     program can write its remembered state back: stop it first.
//   - Fencing tokens and epochs bind only the stores of this package. The other program's writes
//     are not fenced. If it moves a key back or deletes it, no new epoch begins; a Store that
//     has shown a higher sequence then answers RolledBack.
//   - The other program replaces a symbolic link by a plain file. The file that the link led to,
//     with its fence file, is then no longer used. An open Store warns of that
//     (Options.Logger); a Store that is opened later cannot know.
//   - The other program follows a link in the place of FILE.lock. This package refuses such a
//     link with [store.ErrUnsafe].
//   - The other program gives the file its own owner, and a mode by its umask.
//   - Both programs drop fields that they do not know.
//   - If the other program is killed it may leave a directory of temporary files. This package
//     does not remove it, since its name does not identify its owner.
//
// # Files
//
// In the directory of the state file FILE there are
//
//   - FILE.lock: the lock of the format, an exclusive flock(2) around each read-change-write. It
//     is never truncated or removed. Readers do not take it.
//   - FILE.fence: fencing tokens and epochs, for which the format has no place; see below.
//   - FILE.good: the state before the last change of this package, the last good copy for
//     [Restore].
//   - FILE.bad: the file that the last Restore replaced.
//   - .FILE.holdfast-*.tmp: a file that is being written. The next process that writes removes,
//     under the lock, the temporary files of a killed process.
//
// A state file has at most 256 MiB, and a fence file 64 MiB: some 500,000 keys.
//
// New files are for their owner only (0600). Replaced files keep owner, group and mode, but not
// access lists and other extended attributes. If a user may not keep the owner of another user's
// file, the file becomes one of that user. The other user must be able to read and replace it: as
// any user, or as a member of the directory's group, which then gets the owner's rights.
// Otherwise the change is refused with [store.ErrDenied].
//
// If the path is a symbolic link, the link stays, and the file that it leads to is replaced. The
// store then takes the lock of every name on the way. So it also excludes programs that know the
// file by another name.
//
// # What is promised
//
// The store makes every change on the current content of the file, under its lock. It
// acknowledges the change after it has synced file, name and directory: the change survives a
// power cut on a local file system that honours flushes. It also syncs the file before an answer
// without a write (Unchanged, Behind, ...) and before a Get that is not answered from memory,
// whichever program wrote the file. An error before that leaves the old file in place, with one
// exception: if the sync of the directory fails after the rename, the outcome is unknown. The
// store then reads the file again, and the next change rewrites it.
//
// Concurrent calls share one lock, one rewrite and one sync (group commit). They wait for the
// lock in the kernel, together with other programs. A context bounds its own call. If it ends
// while the call waits for the lock, nothing is written for that call. If it ends during the
// write, the write continues without its caller.
//
// Before the store replaces the state file, it checks that the lock file was not replaced, which
// the format forbids. It checks again afterwards; if the lock file was replaced by then, the
// outcome is unknown. Between the two checks nothing can be promised.
//
// File systems that are not known to be local are refused; see [Options]. Linux is tested; macOS
// and Windows build, and are not tested.
//
// # The fence file
//
// FILE.fence is a JSON object: "holdfast" (the version of this format, 1), "kind"
// ("checkpoint-fence") and "keys", an object from keys as above to objects with "epoch" (an
// integer from 1 on), "token" (the highest fencing token; missing: none) and "pending" (true
// while a Reset or Delete writes its epoch before the state; missing otherwise). A key that is
// missing has epoch 1 and no token. Unknown fields are kept; a higher version is refused. The
// file is written and synced before the state that it guards, under the same lock.
//
// If the fence file is removed, or restored from an older copy, old tokens and epochs are valid
// again.
package avisofile
