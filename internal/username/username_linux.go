// Package username returns the name of the user of this process, for messages.
package username

import (
	"cmp"
	"os"
	"strconv"
	"strings"
)

// Current returns the name of the user of this process in /etc/passwd, or else the variable USER. It is
// empty if both are missing.
//
// This is what os/user does without cgo. With cgo, os/user asks the name service of the C library. Then a
// program needs the C library, starts later, and makes 20 system calls for each question.
func Current() string {
	b, _ := os.ReadFile("/etc/passwd") // without it, USER counts
	return cmp.Or(nameOf(strconv.Itoa(os.Getuid()), string(b)), os.Getenv("USER"))
}

// nameOf returns the name of a user in the text of a passwd file. It is empty if the file does not have
// this user.
func nameOf(id, passwd string) string {
	for line := range strings.Lines(passwd) {
		if f := strings.SplitN(line, ":", 4); len(f) == 4 && f[2] == id && f[0] != "" && !strings.Contains("#+-", f[0][:1]) {
			return f[0]
		}
	}
	return ""
}
