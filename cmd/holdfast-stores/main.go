// Command holdfast-stores is the command holdfast with the libraries of all stores. The program holdfast
// hands a command line over to it if the store is not a directory.
package main

import (
	"github.com/holdfast-go/holdfast/cmd/internal/allstores"
	"github.com/holdfast-go/holdfast/cmd/internal/command"
	"github.com/holdfast-go/holdfast/cmd/internal/webpage"
)

func main() {
	command.Main(allstores.Drivers(), webpage.Servers())
}
