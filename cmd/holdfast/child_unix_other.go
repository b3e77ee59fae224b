//go:build unix && !linux

package main

import "syscall"

// dieWithParent does nothing: this system has no such means.
func dieWithParent(*syscall.SysProcAttr) {}
