// Command holdfast gives programs locks, commits and checkpoints on the storage
// they already have. Run "holdfast help" for what it does.
package main

import "os"

func main() {
	os.Exit(execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
