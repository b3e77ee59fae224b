// Package safefile opens, creates and replaces files in directories where other users can replace them.
// It follows no symbolic link without permission, and waits for no pipe. It judges the file that it has
// opened, not the name. So it does not matter if another user replaces the file between the two steps.
//
// # What is shared
//
// A program trusts its own (effective) user and root. If a directory is writable for a group, and this
// user is in this group, the directory was made to be shared. Then this user trusts the members of the
// group with its contents. Everything else is a risk:
//
//   - "link": the name is a symbolic link, whose owner decides where it leads.
//   - "owner": the directory belongs to another user, and is not shared with a group of this user. The
//     owner could make root write to files that only root may change. The owner also decides what all
//     others read: for example, that a lock is held, or that a job has run. A program that only shows the
//     contents may read such a directory, if it may not write there and does not run as root.
//   - "writable": every user may write to the directory.
//
// The package refuses a risk unless the caller accepts it by its name. If the system has no owners of
// files (Windows), the last two risks do not exist.
//
// The package does not check the directories above. Their owners can replace this directory, but the
// package then judges the owner and mode of the new directory.
//
// # What is private
//
// A program keeps some files between its runs, or gets handles in files. It may trust such files only if
// they are private: only its own user can write and read them. A file is private if it is a regular file,
// not a symbolic link, belongs to the effective user, and gives no rights to its group or to others. A
// directory is private in the same way. The package does not check the directories above. A user who can
// write there can only put another private file or directory of the same user in the place. On Windows,
// the package checks no owners and no rights.
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

// CheckNames returns an error if one of the names is not the name of a risk.
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
	What   string   // who could do what in the directory
	Name   string   // name of the risk: [Link], [Owner] or [Writable]
	Advice []string // what the user can do instead of accepting the risk
}

func (e *RiskError) Error() string {
	return fmt.Sprintf("%v: %s; %s, or accept the risk (unsafe=%s)", store.ErrUnsafe, e.What, strings.Join(e.Advice, ", "), e.Name)
}

func (e *RiskError) Unwrap() error { return store.ErrUnsafe }

// Directory reports the risk of an open directory, unless the caller accepts it. The parameter reading
// says that the program only shows the contents. Its errors match [store.ErrUnsafe].
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

// ForeignLink is [SymbolicLink], but allows links that this user or root has made.
func ForeignLink(path string, info fs.FileInfo, accepted []string) error {
	if owner := OwnerOf(info); owner <= 0 || owner == os.Geteuid() {
		return nil
	}
	return SymbolicLink(path, accepted)
}

// SymbolicLink reports the risk of following a symbolic link, unless the caller accepts this risk.
func SymbolicLink(path string, accepted []string) error {
	if slices.Contains(accepted, Link) {
		return nil
	}
	target, _ := os.Readlink(path) // for people only
	return &RiskError{fmt.Sprintf("%s is a symbolic link (to %.200q)", path, target), Link, []string{"name the directory itself"}}
}
