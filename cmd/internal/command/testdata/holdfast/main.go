// Command holdfast is the program of that name for tests: root's state is in the directory of the program,
// so that each test with a program of its own has a state of its own.
package main

import (
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast/cmd/internal/command"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
)

func main() {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	stores.RootState = filepath.Join(filepath.Dir(self), "root-state")
	command.Main(stores.Drivers{"file": stores.FileDriver()}, nil)
}
