//go:build !linux

package filestore

import (
	"errors"
	"os"
)

// lockInheritable is not supported here: children get a duplicate of the process's own
// descriptor.
func lockInheritable(*os.File) error { return errors.ErrUnsupported }

func isInherited(*os.File) (bool, error) { return false, nil }

// lockHolder is not supported here.
func lockHolder(*os.File) (process string, stopped bool) { return "", false }

// startSync does nothing here.
func startSync(*os.File, int64) error { return nil }
