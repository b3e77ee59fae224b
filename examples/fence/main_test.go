//go:build unix

package main

import (
	"os"
	"testing"
	"time"
)

// The test binary is also the worker.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "--worker" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestStoppedHolder: a holder is stopped until another worker has its lock. When it
// continues, the fence refuses it. Without the fence each such holder removes a committed
// line.
func TestStoppedHolder(t *testing.T) {
	for _, want := range []result{
		{fenced: false, committed: 4, lost: 2},
		{fenced: true, committed: 2, refused: 2},
	} {
		got, err := play(t.Context(), 2, 500*time.Millisecond, want.fenced)
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}
}
