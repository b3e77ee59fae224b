//go:build !unix

package migrations_test

import "testing"

func testStopped(t *testing.T, _ targetFunc) { t.Skip("there is no SIGSTOP") }
