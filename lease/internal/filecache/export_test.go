package filecache

import "github.com/holdfast-go/holdfast/internal/safefile"

// Sweep removes what a cache has not needed for long.
func Sweep(dir string) {
	d, err := safefile.OpenPrivateDir(dir)
	if err != nil {
		panic(err)
	}
	defer d.Close()
	sweep(d)
}
