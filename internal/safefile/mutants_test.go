//go:build unix

package safefile_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutanttest"
)

// TestMutants: no check can be left out unnoticed.
func TestMutants(t *testing.T) {
	mutanttest.Run(t, []mutanttest.Mutant{
		{"root uses what belongs to another user", "safefile.go", "	case foreign && me == 0 && !slices.Contains(accepted, Owner):\n", "	case false:\n", "TestDirectory"},
		{"every user's directory is used", "safefile.go", "	foreign := owner >= 0 && owner != 0 && owner != me\n", "	foreign := false\n", "TestDirectory"},
		{"a directory that all may write is used", "safefile.go", "	case info.Mode()&0o002 != 0 && ", "	case info.Mode()&0o002 != 0 && false && ", "TestDirectory"},
		{"an accepted risk covers the others", "safefile.go", "	case info.Mode()&0o002 != 0 && !slices.Contains(accepted, Writable):\n", "	case info.Mode()&0o002 != 0 && len(accepted) == 0:\n", "TestDirectory"},
		{"a link is followed", "safefile.go", "	if slices.Contains(accepted, Link) {\n", "	if true {\n", "TestOpenDir"},
		{"the opened directory is not judged", "dirs.go", "	if err := Directory(path, info, reading, accepted); err != nil {\n", "	if err := error(nil); err != nil {\n", "TestOpenDirThatAllMayWrite"},
		{"a link is followed below a directory", "dirs.go", "	named, err := parent.Lstat(name)\n", "	named, err := parent.Stat(name)\n", "TestOpenDir"},
		{"a file is taken for a directory", "dirs.go", "	if !named.IsDir() {\n", "	if false {\n", "TestOpenDir"},
		{"an exchange of a directory is not noticed", "dirs.go", "	if err != nil || !os.SameFile(info, named) {\n", "	if err != nil {\n", "TestExchangedDirectory"},
		{"what others may enter is private", "private.go", "	case mode&0o077 != 0:\n", "	case false:\n", "TestPrivateDir"},
		{"what others may read is private", "private.go", "	case mode&0o077 != 0:\n", "	case mode&0o033 != 0:\n", "TestReadFile"},
		{"what others own is private", "private.go", "	case owner != os.Geteuid():\n", "	case false:\n", "TestPrivateDir"},
		{"a private directory is not judged after it was opened", "dirs.go", "	if notPrivate(name, info) != nil {\n", "	if notPrivate(name, info) == err {\n", "TestPrivateIsCheckedAfterItWasOpened"},
		{"a private directory may hold something", "dirs.go", "	if errors.Is(err, ErrTooMany) {\n", "	if errors.Is(err, ErrTooMany) {\n		return dir, nil\n", "TestMakePrivateIsEmpty"},
		{"a private directory may be a link", "private.go", "	named, err := os.Lstat(path)\n", "	named, err := os.Stat(path)\n", "TestPrivateDir"},
		{"a link in the place of a file is read", "files.go", "	named, err := dir.Lstat(name)\n", "	named, err := dir.Stat(name)\n", "TestOpenFile"},
		{"a device or a directory is opened", "files.go", "	if !named.Mode().IsRegular() {", "	if false {", "TestOpenFile"},
		{"an exchange of a file is not noticed", "files.go", "	if err == nil && !os.SameFile(info, named) {\n", "	if false {\n", "TestExchangedFile"},
		{"a private file is not judged after it was opened", "private.go", "		if err = notPrivate(path, info); err != nil {\n", "		if false {\n", "TestReadFile"},
		{"the size of a file is not checked", "private.go", "max(info.Size(), int64(len(b))) > limit", "false", "TestReadFile"},
		{"a new file replaces another", "private.go", "	switch err := root.Link(f.name, name); {\n", "	switch err := root.Rename(f.name, name); {\n", "TestInstall"},
		{"a leftover stays", "private.go", "	if f.name != \"\" && !f.unnamed {\n", "	if false {\n", "TestInstall"},
		{"a directory is given away before it is complete", "dirs.go", "		err = give(f)\n", "		_ = give(f)\n", "TestGiveDir"},
		{"names are read without end", "dirs.go", "			if count++; count > limit {\n", "			if count++; false {\n", "TestEachName"},
		{"a new directory is not made durable", "dirs.go", "	return sync(parent)\n", "	return nil\n", "TestMakeDirs"},
	})
}
