// Package avisofile keeps checkpoints in one JSON file, in the format of the state
// file of aviso (ECMWF's client for event notifications), and can share that file
// with running aviso programs: same bytes, same lock.
//
// # Files
//
// Beside the state file FILE lie
//
//   - FILE.lock: the lock of the format, an exclusive flock(2) around each
//     read-change-write. It is never truncated or removed. Readers do not take it.
//   - FILE.fence: what the format has no place for, fencing tokens and epochs, below.
//   - FILE.good: the state before the last change, the last good copy for [Restore].
//   - FILE.bad: what the last Restore replaced.
//   - .FILE.holdfast-*.tmp: a file in the making. What a killed process leaves is
//     swept by the next one that writes, under the lock.
//
// New files are for their owner alone (0600); files that are replaced keep owner,
// group and mode, but not access lists and other extended attributes. Where the
// path is a symbolic link the link stays and the file that it leads to is replaced;
// the lock is then taken beside every name on the way, so that programs that know
// the file by another name are excluded too.
//
// # Keys and positions
//
// A key is 64 hexadecimal digits, of either case; lower case is written. The file has
// a place for sequence and event id. A position with Data is refused with an error
// that matches [errors.ErrUnsupported]: keep such checkpoints on a register.
//
// # What is promised
//
// Every change is made on what the file holds at that moment, under its lock. It is
// acknowledged when file, name and directory are synced: it survives a power cut on
// a local file system that honours flush. An answer that wrote nothing (Unchanged,
// Behind, ...), and every fresh Get, rests on a file that was synced likewise, by
// whomever it was written. An error on the way there leaves the old file in place,
// except for a sync of the directory that fails after the rename: then the outcome is
// unknown, the memory is dropped, and the next change rewrites the file.
//
// Calls that meet share one lock, one rewrite and one sync (group commit). A context
// bounds its own call: one that still waits for the lock is taken back, one that is
// being written goes on without its caller, and memory follows the disk.
//
// A lock file that was replaced (which the format forbids) is noticed before the
// state file is replaced, and again after it, when the outcome is then said to be
// unknown. Between these two looks nothing can be promised.
//
// File systems that are not known to be local are refused; see [Options]. Linux is
// tested; macOS and Windows build, and are not tested.
//
// # Beside a program of the other kind
//
// A program that follows the format, but is not of this package, merges its memory
// into the file at each of its writes: of a key that both know the higher sequence
// stays, and a key that only it knows comes back. So beside such a program, while it
// runs:
//
//   - Advance is safe, both ways: no key goes back, no commit of either is lost.
//   - Reset and Delete are promised among the stores of this package only. The other
//     program can bring back what it remembers: stop it first.
//   - Fencing tokens and epochs bind the stores of this package only. What the other
//     program writes is not fenced, and a key that it moves back or deletes begins
//     no epoch; a Store that has shown a higher sequence answers RolledBack.
//   - It replaces a symbolic link by a plain file. The file that the link led to,
//     with its fence, then is another file.
//   - It drops fields that it does not know; so does this package.
//   - A directory of temporary files that it leaves behind when it is killed is not
//     removed here: its name does not tell whose it is.
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
// A file that was removed, or restored from an older copy, brings old tokens and
// epochs back.
package avisofile
