package holding

import "os"

// tryLock reports true: on Windows two commands can use one handle at once. The slower
// command gets an error that says that its handle is out of date.
func tryLock(*os.File) bool { return true }
