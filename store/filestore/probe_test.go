//go:build linux

package filestore_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// appendLines takes part in a probe. Its arguments: the directory, how many.
func appendLines(args []string) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	return filestore.AppendProbe(args[0], n)
}

func TestAppendProbe(t *testing.T) {
	const processes, n = 4, 250
	dir := t.TempDir()
	wait := make([]func() error, processes)
	for i := range wait {
		cmd := worker(t, "append", dir, strconv.Itoa(n))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		wait[i] = cmd.Wait
	}
	for _, wait := range wait {
		if err := wait(); err != nil {
			t.Error(err)
		}
	}
	if err := filestore.CheckAppendProbe(dir, processes, n); err != nil {
		t.Fatal(err)
	}
	// What a file system would leave that does not append atomically.
	file := filepath.Join(dir, "append-probe")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2]++
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := filestore.CheckAppendProbe(dir, processes, n); !errors.Is(err, store.ErrUnsafe) {
		t.Errorf("a torn entry: got %v", err)
	}
	if err := filestore.CheckAppendProbe(dir, processes+1, n); err == nil {
		t.Error("a process is missing: no error")
	}
}
