// Package safefile opens, makes and replaces files and directories in places where other users can
// put something else. It follows no symbolic link that it was not allowed to follow, waits for no
// pipe, and judges what it has opened, not what the name stands for. So an exchange in between
// changes nothing.
//
// # What is shared
//
// A program trusts its own (effective) user and root. If a directory is writable for its
// group, and this user is in that group, the directory was made to be shared: its members
// are trusted with what is in it. Everything else is a risk:
//
//   - "link": the name is a symbolic link, whose owner decides where it leads.
//   - "owner": the directory belongs to another user, and is not shared with a group of
//     this one. That user could lead root to files that only root may change, and decides
//     what all others read: that a lock is held, that a job has run. A program that only
//     shows what is there may read it, if it may not write there and is not root.
//   - "writable": every user may write to the directory.
//
// A risk is refused unless the caller accepts it by its name. Where the system knows no
// owners (Windows), there is no risk of the last two kinds.
//
// The directories above are not checked: their owners can put another directory in the
// place of this one, which is then judged by its own owner and mode.
//
// # What is private
//
// A program may trust only private files with what it keeps between its runs, and with the handles
// that it gets: files that only its own user can have written and read. A file is private if it is a
// regular file, not a symbolic link, belongs to the effective user, and gives no rights to its group
// or to others. A directory is private in the same way. The directories above are not checked: a user
// who can write there can only put another private file or directory of the same user in the place.
// On Windows owners and rights are not checked.
package safefile

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// The risks that a caller can accept.
const (
	Link     = "link"
	Owner    = "owner"
	Writable = "writable"
)

// CheckNames reports a name that is not the name of a risk.
func CheckNames(accepted []string) error {
	for _, name := range accepted {
		if !slices.Contains([]string{Link, Owner, Writable}, name) {
			return fmt.Errorf("unsafe: %.40q is unknown (known: %s, %s, %s)", name, Link, Owner, Writable)
		}
	}
	return nil
}

// RiskError says that other users could change a directory. It matches [store.ErrUnsafe].
type RiskError struct {
	What   string   // who could do what
	Name   string   // of the risk: [Link], [Owner] or [Writable]
	Advice []string // what the user can do, other than to accept the risk
}

func (e *RiskError) Error() string {
	return fmt.Sprintf("%v: %s; %s, or accept the risk (unsafe=%s)", store.ErrUnsafe, e.What, strings.Join(e.Advice, ", "), e.Name)
}

func (e *RiskError) Unwrap() error { return store.ErrUnsafe }

// Directory reports the risk of a directory that was opened, unless it is accepted. reading
// says that the program only shows what is there. Its errors match [store.ErrUnsafe].
func Directory(path string, info fs.FileInfo, reading bool, accepted []string) error {
	owner := OwnerOf(info)
	me := os.Geteuid()
	foreign := owner >= 0 && owner != 0 && owner != me
	switch {
	case owner < 0:
	case foreign && me == 0 && !slices.Contains(accepted, Owner):
		return &RiskError{fmt.Sprintf("%s belongs to user %d, who could redirect the writes of root to other files", path, owner), Owner,
			[]string{fmt.Sprintf("run this program as that user (sudo -u '#%d' ..., or in that user's crontab)", owner)}}
	case foreign && me != 0 && !sharedWith(info) && !(reading && !canWrite(path)) && !slices.Contains(accepted, Owner):
		return &RiskError{fmt.Sprintf("%s belongs to user %d, and no group of the current user may write to it", path, owner), Owner,
			[]string{"use a directory that belongs to you", "or share the directory with a group (chgrp GROUP, chmod 2770)"}}
	case info.Mode()&0o002 != 0 && !slices.Contains(accepted, Writable):
		return &RiskError{fmt.Sprintf("every user may write to %s (%v), and so can take, free or damage the locks and data in it", path, info.Mode()), Writable,
			[]string{"use a subdirectory that belongs to you", "or share the directory with a group (chgrp GROUP, chmod 2770)"}}
	}
	return nil
}

// sharedWith reports whether a directory is writable for a group that this user is in.
func sharedWith(info fs.FileInfo) bool {
	if info.Mode()&0o020 == 0 {
		return false
	}
	group := GroupOf(info)
	if group == os.Getegid() {
		return true
	}
	groups, err := os.Getgroups()
	return err == nil && slices.Contains(groups, group)
}

// ForeignLink is [SymbolicLink] for links that are followed if this user or root has made
// them.
func ForeignLink(path string, info fs.FileInfo, accepted []string) error {
	if owner := OwnerOf(info); owner <= 0 || owner == os.Geteuid() {
		return nil
	}
	return SymbolicLink(path, accepted)
}

// SymbolicLink reports the risk of following a symbolic link, unless it is accepted.
func SymbolicLink(path string, accepted []string) error {
	if slices.Contains(accepted, Link) {
		return nil
	}
	target, _ := os.Readlink(path) // for people only
	return &RiskError{fmt.Sprintf("%s is a symbolic link (to %.200q)", path, target), Link, []string{"name the directory itself"}}
}
