//go:build !unix

package serving

import "os"

func openSecret(path string) (*os.File, error) { return os.Open(path) }
