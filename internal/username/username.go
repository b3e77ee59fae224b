//go:build !linux

// Package username returns the name of the user of this process, for messages.
package username

import "os/user"

// Current returns the name of the user of this process. It is empty if the system does not tell it.
func Current() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}
