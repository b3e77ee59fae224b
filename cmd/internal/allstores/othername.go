package allstores

import (
	"fmt"
	"os"
	"strings"
)

// otherName says how a file has another name in another directory; empty if it has none, or the system does not tell.
// The path is complete, and has no symbolic links.
func otherName(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	if n := links(info); n > 1 {
		return fmt.Sprintf("has %d hard links", n)
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo") // only Linux mounts single files
	written := strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`).Replace(path)
	for line := range strings.Lines(string(mounts)) {
		if field := strings.Fields(line); len(field) > 4 && field[4] == written {
			return "is mounted without its directory"
		}
	}
	return ""
}
