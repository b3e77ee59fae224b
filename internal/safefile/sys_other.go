//go:build !unix

package safefile

import (
	"errors"
	"io/fs"
)

// This system has no such flags.
const (
	noWait   = 0
	NoFollow = 0
)

// ErrNotDirectory says that a file has the name of a directory. It is not ENOTDIR, because on Windows
// ENOTDIR also says that a name does not exist.
var ErrNotDirectory = errors.New("not a directory")

// OwnerOf returns -1: this system has no owners in its file modes.
func OwnerOf(fs.FileInfo) int { return -1 }

// GroupOf returns -1.
func GroupOf(fs.FileInfo) int { return -1 }

func canWrite(string) bool { return false }
