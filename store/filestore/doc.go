// Package filestore is a store in a directory, for the programs of one machine. It needs no
// server. It is the default store of the command holdfast.
//
// # Use
//
//	s, err := filestore.Open("/var/lib/jobs", nil)
//	defer s.Close()
//	client, err := lease.New(s, nil)
//
// [Open] creates the directory if it does not exist. Any number of processes may open it.
//
//   - A [Store] knows which processes live. So if a process dies, a waiter gets its lock at once,
//     not after the TTL.
//   - [Options].ReadOnly opens the store of another user to show its content.
//   - [Store.SweepDeleted] removes the files of keys that were deleted long ago.
//   - [Store.Repair] moves the damaged file of a key away.
//
// # File systems
//
// The store needs a file system whose appends, hard links and renames are atomic: ext2 to ext4,
// XFS, btrfs, bcachefs, JFS, tmpfs, overlay, F2FS, ZFS, APFS, HFS+, NTFS. It refuses other file
// systems unless [Options].AllowNetwork is set. Only Linux is tested. The package also builds on
// macOS and Windows. On Windows the store does not remove the files of deleted keys.
//
// If the directory is removed, moved or unmounted while a Store is open, all calls of the Store
// fail until the program opens the directory again. Their error matches [store.ErrUnavailable] and
// [store.ErrMisconfigured]. A waiting Acquire of package lease returns this error and stops. If a
// user removes the file of a single key, all processes see within a second that the register is
// absent. If another program makes a file shorter, for example because it writes a backup over the
// file, a Store that notices this returns errors that match [store.ErrCorrupt] for the key, until the
// program opens the directory again, or a user removes the file.
//
// # Durability
//
// A Put or a Delete that returned nil survives a loss of power, on a local ext4 or XFS file system
// whose disk honours flushes. Tests with loop devices check this. The next durable write makes a
// [Store.PutUnsynced] durable.
//
// If the sync of a write fails, the outcome of the write is unknown. After a failed sync, the
// operating system can report success for the next sync although data is lost. So the store then
// refuses further writes to this key, until the program opens the store again.
//
// # Who may read and write
//
// The store creates directories with mode 0700 and files with mode 0600. If the group of the
// directory may write to it when a program opens the store, new files and directories get the
// mode and the group of the directory. A user who may read the files can read all registers, but
// cannot open presence files and the file floor. Processes lock these files: a user who could
// open a presence file could lock it, and so make a dead process look alive.
//
// Three kinds of users are trusted with the store: root, the owner of the directory, and the
// members of a group that may write to the directory. They can take, free and damage the locks in
// the store, but cannot change files outside of it. [Open] refuses a directory that other users
// could change or exchange. It also refuses the directory of another user, unless a group of this
// user may write to the directory. A process of root refuses the directory of every other user:
// run the process as that user. [Options].Unsafe lists these risks and accepts them.
//
// If one of its own files or directories is a symbolic link, the store refuses it. The store
// changes nothing outside its directory. Its temporary files have random names. It changes owner,
// group or mode only of new files and directories, while they are in a directory that only this
// user can enter. A sweep removes only empty directories, and files that look like files of the
// store.
//
// # Bounds
//
// Every user who is trusted with a store can write to it. So the store reads only up to these
// bounds:
//
//   - log of a key: 256 MiB, in pieces of 256 KiB; the store ignores lines of more than 128 KiB
//   - directory of a log: 10,000 names
//   - presence file: 4 KiB
//   - listing: any number of keys, in pieces of 65,536 names
//
// If a log, a directory or a presence file is larger, the error matches [store.ErrCorrupt], for
// that key only.
//
// # How it works
//
// Each key has a log: a file to which writers only append. Each entry names the state that it
// replaces. A reader goes through the entries in order, and ignores each entry that does not name
// the state before it (package internal/fold). A local file system orders the appends. So a write
// is one append and one read of the appended part, without any lock. A full log continues in a new
// file. The store keeps the last two files of a log. Package proof/logmodel checks the rules.
// docs/safety.md and store/DECISIONS.md of this module have the reasons and the evidence.
//
// The files are text, and can be read with cat:
//
//	DIR/k/<key>/000000000001   the log of a key
//	DIR/alive/<random>         one for each process that announced itself
//	DIR/wake/<name>            one for each waiter that expects a wake-up; see [Store.ExpectWake]
//	DIR/tmp/                   temporary files
//	DIR/floor                  new logs start above it; see [Store.SweepDeleted]
//
// # Goroutines
//
// Reads and writes start no goroutine. While a call waits for a change ([Store.Watch],
// [Store.WaitLiveness], [Store.ExpectWake]), one goroutine for the whole process reads the inotify events of Linux.
// It ends a second after the last wait, or when the store is closed. On Windows, each of at most 64 waits of a
// process has a goroutine with a thread, which ends with the call.
package filestore
