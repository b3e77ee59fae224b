package cmdline

import (
	"strings"
	"testing"
)

// TestArgumentsOf: what a usage line says.
func TestArgumentsOf(t *testing.T) {
	for use, want := range map[string]string{
		"put SOURCE URL":                "SOURCE URL 2",
		"get URL [FILE]":                "URL FILE 1",
		"ls [PREFIX]":                   "PREFIX 0",
		"break NAME --token N [--now]":  "NAME 1",
		"x [--flag VALUE] A --flag V B": "A B 2",
		"init":                          "0",
	} {
		names, needed := ArgumentsOf(use)
		if got := strings.Join(append(names, string(rune('0'+needed))), " "); got != want {
			t.Errorf("%s: %s, want %s", use, got, want)
		}
	}
}
