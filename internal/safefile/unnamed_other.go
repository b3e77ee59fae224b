//go:build !linux

package safefile

import (
	"errors"
	"io/fs"
	"os"
)

func createUnnamed(*os.Root, fs.FileMode) (*os.File, error) { return nil, errors.ErrUnsupported }

func linkUnnamed(*os.File, *os.Root, string) error { return errors.ErrUnsupported }
