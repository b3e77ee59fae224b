// Command holdfast gives programs locks, commits and checkpoints on the storage
// they already have. Run "holdfast help" for what it does.
//
// The libraries of the other stores would make each start slower, so holdfast opens directories alone. It
// hands a command line with another store over to the program holdfast-stores, which it finds in
// its own directory or in PATH.
package main

import (
	"github.com/holdfast-go/holdfast/cmd/internal/command"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
)

func main() {
	command.Main(stores.Drivers{"file": stores.FileDriver()}, nil)
}
