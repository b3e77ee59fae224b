// Package filestore is a store in a directory: the embedded default, for the
// programs of one machine.
//
// # How it works
//
// Each key is an append-only log, and its value is the fold of that log (package
// internal/fold): an entry counts if and only if it names the state before it. A
// local file system puts appends into one order, so a write is one append and one
// look at what came out, without any lock. A log that is full is sealed and goes on
// in a new file; two files are kept. Package internal/model
// checks the rules, and DESIGN.md of this repository says what was measured and proved.
//
// The files are text, and can be read with cat:
//
//	DIR/k/<key>/000000000001   the log of a key
//	DIR/alive/<random>         one for each process that announced itself
//	DIR/tmp/                   files on their way to their names
//
// # Who may read and write
//
// All is made for this user alone: directories with mode 0700, files with 0600. A
// directory that its group may write, when the store is opened, was made for the
// group: what is made in it has its mode and its group. Who may only read can read
// everything.
//
// Root, the owner of the directory and the members of such a group are trusted with the
// store: they can take, free and damage its locks, and no more than that. [Open] refuses
// a directory that others could change or exchange; [Options.Unsafe] says which, and
// insists. Root refuses the directory of another user: it should run as that user there.
//
// Symbolic links in the place of what the store makes are refused, nothing outside it is
// touched, and temporaries have names that nobody can guess. What the store gives away
// (an owner, a group, a mode) it has made itself, in a directory that only this user
// could enter; what was there before is never given away. A sweep removes files that
// look like the store's own after they were opened, and empty directories.
//
// # Bounds
//
// What lies in a store may have been made by anybody who is trusted with it. So nothing
// is read whole that can be large: of a log at most 256 MiB, in pieces of 256 KiB, and
// lines of more than 128 KiB are void; of the directory of a log 10,000 names; of a
// presence file 4 KiB; of a listing 1,048,576 names. What is larger is an error that
// matches [store.ErrCorrupt] or, for a listing, [store.ErrTooLarge], of that key alone.
//
// # Durability
//
// A Put or a Delete that returned nil survives the loss of power, on a local ext4 or
// XFS whose disk honours flushes; that is tested by cutting loop devices off. When a
// sync fails, the outcome of that write is unknown, and further writes to the same
// log are refused until the store is opened anew: after a failed sync the system can
// call the next one a success although data is gone. A [Store.PutVolatile] is made
// durable by the next durable write.
//
// # What it promises where
//
// It needs a file system whose appends are atomic and whose hard links and renames
// are: ext2 to ext4, XFS, btrfs, bcachefs, JFS, tmpfs, overlay, F2FS, ZFS, APFS, HFS+,
// NTFS. Others are refused unless [Options.AllowNetwork] is set. Linux is tested; macOS and
// Windows build and are not tested. On Windows nothing is known of processes, so a
// lock of a dead process is free only after its TTL.
//
// A directory that is removed, moved or unmounted while it is in use makes all calls
// fail until it is opened again, with an error that matches [store.ErrUnavailable] and
// [store.ErrMisconfigured]: nobody waits there for a lock that cannot come. The log of a
// single key that is removed by hand is an absent register, for everybody within a
// second.
//
// # Goroutines
//
// A store starts none for reading and writing. While anybody waits for a change
// ([Store.Watch], [Store.Await]) one goroutine for the whole process reads what
// Linux tells; it ends a second after the last wait, or when the store is closed.
package filestore
