package main

import "os"

// tryLock reports true: here nothing keeps two commands from using one handle at once.
// The one that is slower is told that its handle is out of date.
func tryLock(*os.File) bool { return true }
