//go:build !unix

package safefile

import "io/fs"

// This system has no such flags.
const (
	noWait   = 0
	NoFollow = 0
)

// OwnerOf returns -1: this system has no owners in its file modes.
func OwnerOf(fs.FileInfo) int { return -1 }

// GroupOf returns -1.
func GroupOf(fs.FileInfo) int { return -1 }

func canWrite(string) bool { return false }
