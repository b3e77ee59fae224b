package certstore

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/store"
)

const (
	// dir begins the keys of all registers, and the names of all locks.
	dir = "certmagic"

	// maxPlain is the longest key, in bytes, whose register has the same name. Together with a hash, dir and the prefix
	// of the locks, it is shorter than [store.MaxKey].
	maxPlain = 400
)

// cleaned returns a key as a file system understands it. The root is empty.
func cleaned(key string) string { return strings.TrimPrefix(path.Clean("/"+key), "/") }

// nameOf returns the name of the register of a clean key. If the key has more than maxPlain bytes, so has the name:
// the two kinds of names never collide.
func nameOf(key string) (string, error) {
	if key == "" || !utf8.ValidString(key) {
		return "", fmt.Errorf("%w: %w: it is empty or not UTF-8", fs.ErrInvalid, store.ErrKey)
	}
	if len(key) <= maxPlain {
		return key, nil
	}
	end := maxPlain
	for !utf8.RuneStart(key[end]) {
		end--
	}
	return fmt.Sprintf("%s%x", key[:end], sha256.Sum256([]byte(key))), nil
}

// listedDir returns a directory whose listing contains the registers of all keys below a clean key.
func listedDir(key string) string {
	for len(key) > maxPlain-utf8.UTFMax {
		if key = path.Dir(key); key == "." {
			return ""
		}
	}
	return key
}
