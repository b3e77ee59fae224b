// Package filestore is a store in a directory: the embedded default, for the
// programs of one machine.
//
// # How it works
//
// Each key is an append-only log, and its value is the fold of that log (package
// internal/fold): an entry counts if and only if it names the state before it. A local
// file system puts appends into one order. So a write is one append and one read of what
// was appended, without any lock. A log that is full is sealed and continues in a new
// file; two files are kept. Package internal/model checks the rules, and the files
// docs/decisions.md and docs/safety.md of this module have the reasons and the evidence.
//
// The files are text, and can be read with cat:
//
//	DIR/k/<key>/000000000001   the log of a key
//	DIR/alive/<random>         one for each process that announced itself
//	DIR/tmp/                   files on their way to their names
//	DIR/floor                  new logs start above it; see [Store.SweepDeleted]
//
// # Who may read and write
//
// The store makes everything for its own user alone: directories with mode 0700, files
// with 0600. If its directory is writable for the group when the store is opened, it was
// made for the group: new files and directories get its mode and its group. A user with
// the right to read can read all registers. The files that processes lock (of a presence, of
// the floor) give no right to read without the right to write: a user who can open a file can
// lock it, and so make a dead process look alive.
//
// Root, the owner of the directory and the members of such a group are trusted with the
// store: they can take, free and damage its locks, and no more than that. [Open] refuses
// a directory that others could change or exchange, and that of another user who has not
// shared it with a group of this one; [Options.Unsafe] lists these risks and accepts them. A
// process of root refuses the directory of another user: run it as that user. A program that
// only shows what is there opens it with [Options.ReadOnly].
//
// The store refuses symbolic links in the place of its own files and directories, touches
// nothing outside its directory, and gives temporaries names that cannot be guessed. It
// changes the owner, group or mode only of files and directories that it has just made,
// in a directory that only this user can enter. A sweep opens a file before it judges it;
// it removes files that look like the store's own, and empty directories.
//
// # Bounds
//
// Any user who is trusted with a store may have made what is in it. So the store bounds
// what it reads. Of a log it reads at most 256 MiB, in pieces of 256 KiB, and ignores
// lines of more than 128 KiB. Of the directory of a log it reads 10,000 names, of a
// presence file 4 KiB. What is larger is an error that matches [store.ErrCorrupt], for that
// key alone. A listing holds 65,536 names at a time, whatever the number of keys.
//
// # Durability
//
// A Put or a Delete that returned nil survives the loss of power, on a local ext4 or XFS
// whose disk honours flushes; tests that cut off loop devices show it. When a sync fails,
// the outcome of that write is unknown, and the store refuses further writes to the same
// log until it is opened anew: after a failed sync the system can report the next one as
// a success although data is lost. A [Store.PutUnsynced] is made durable by the next
// durable write.
//
// # What it promises where
//
// It needs a file system whose appends, hard links and renames are atomic: ext2 to ext4,
// XFS, btrfs, bcachefs, JFS, tmpfs, overlay, F2FS, ZFS, APFS, HFS+, NTFS. Others are
// refused unless [Options.AllowNetwork] is set. Linux is tested; macOS and Windows build
// and are not tested. On Windows the store cannot tell whether a process is alive, so a
// lock of a dead process is free only after its TTL.
//
// If the directory is removed, moved or unmounted while it is in use, all calls fail
// until it is opened again. Their error matches [store.ErrUnavailable] and
// [store.ErrMisconfigured], so that no caller waits for a lock that cannot come. If a
// person removes the log of a single key, that register is absent for all processes
// within a second.
//
// # Goroutines
//
// A store starts none for reading and writing. While a call waits for a change
// ([Store.Watch], [Store.WaitLiveness]) one goroutine for the whole process reads the inotify
// events of Linux. It ends a second after the last wait, or when the store is closed.
package filestore
