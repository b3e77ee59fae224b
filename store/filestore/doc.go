// Package filestore is a store in a directory, for the programs of one machine. It needs no
// server, and is the default of the command holdfast.
//
// # Use
//
//	s, err := filestore.Open("/var/lib/jobs", nil)
//	defer s.Close()
//	client, err := lease.New(s, nil)
//
// [Open] makes the directory if it does not exist. Any number of processes may open it.
//
//   - A [Store] knows which processes are alive. A waiter gets the lock of a dead process at
//     once, not after its TTL.
//   - [Options].ReadOnly opens the store of another user to show it.
//   - [Store.SweepDeleted] removes the files of keys that were deleted long ago.
//   - [Store.Repair] moves the damaged file of a key away.
//
// # What it promises where
//
// The store needs a file system whose appends, hard links and renames are atomic: ext2 to ext4,
// XFS, btrfs, bcachefs, JFS, tmpfs, overlay, F2FS, ZFS, APFS, HFS+, NTFS. It refuses others
// unless [Options].AllowNetwork is set. Linux is tested; macOS and Windows build and are not
// tested. On Windows the store does not know whether a process is alive, so the lock of a dead
// process is free only after its TTL.
//
// If the directory is removed, moved or unmounted while it is in use, all calls fail until it is
// opened again. Their error matches [store.ErrUnavailable] and [store.ErrMisconfigured], so that
// no caller waits for a lock that cannot come. If a person removes the log of a single key, that
// register is absent for all processes within a second.
//
// # Durability
//
// A Put or a Delete that returned nil survives the loss of power, on a local ext4 or XFS whose
// disk honours flushes; tests that cut off loop devices show it. If a sync fails, the outcome
// of that write is unknown. After a failed sync the system can report the next sync as a
// success although data is lost. So the store refuses further writes to this log until it is
// opened again. The next durable write makes a [Store.PutUnsynced] durable.
//
// # Who may read and write
//
// The store makes everything for its own user only: directories with mode 0700, files with 0600.
// If its directory is writable for the group at Open, the store belongs to the group: new files
// and directories get the directory's mode and group. A user with the right to read can read all
// registers. Processes lock some files: those of a presence, and the floor. A user who may only
// read the store gets no right to read those: a user who can open a file can lock it, and so make
// a dead process look alive.
//
// Root, the owner of the directory and the members of such a group are trusted with the store:
// they can take, free and damage its locks, and no more than that. [Open] refuses a directory
// that others could change or exchange, and that of another user who has not shared it with a
// group of this one; [Options].Unsafe lists these risks and accepts them. A process of root
// refuses the directory of another user: run it as that user. A program that only shows the
// content opens the store with [Options].ReadOnly.
//
// The store refuses symbolic links in the place of its own files and directories. It changes
// nothing outside its directory, and its temporary files have names that cannot be guessed. It
// changes the owner, group or mode only of files and directories that it has just made, in a
// directory that only this user can enter. A sweep opens a file before it checks it. It removes
// files that look like the store's own, and empty directories.
//
// # Bounds
//
// Every user who is trusted with a store can write to it, so the store bounds what it reads. Of a
// log it reads at most 256 MiB, in pieces of 256 KiB, and ignores lines of more than 128 KiB. Of
// the directory of a log it reads 10,000 names, and of a presence file 4 KiB. A larger one is an
// error that matches [store.ErrCorrupt], for that key alone. A listing holds 65,536 names at a
// time, whatever the number of keys.
//
// # How it works
//
// Each key is an append-only log, and its value is the fold of that log (package internal/fold):
// an entry counts if and only if it names the state before it. A local file system orders the
// appends. So a write is one append and one read of what was appended, without any lock. A full
// log is sealed and continues in a new file; two files are kept. Package internal/model checks the
// rules. The files store/DECISIONS.md and docs/safety.md of this module have the reasons and
// the evidence.
//
// The files are text, and can be read with cat:
//
//	DIR/k/<key>/000000000001   the log of a key
//	DIR/alive/<random>         one for each process that announced itself
//	DIR/tmp/                   files on their way to their names
//	DIR/floor                  new logs start above it; see [Store.SweepDeleted]
//
// # Goroutines
//
// A store starts no goroutine for reading and writing. While a call waits for a change
// ([Store.Watch], [Store.WaitLiveness]) one goroutine for the whole process reads the inotify
// events of Linux. It ends a second after the last wait, or when the store is closed.
package filestore
