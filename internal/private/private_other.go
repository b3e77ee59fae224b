//go:build !unix

package private

import "io/fs"

const openFlags = 0

func check(string, fs.FileInfo) error { return nil }
