//go:build !unix

package main

import (
	"errors"
	"os/exec"
)

var errNoStop = errors.New("this system cannot stop a process; run the example on Linux or macOS")

func stopMyself() error                        { return errNoStop }
func startAndWaitUntilStopped(*exec.Cmd) error { return errNoStop }
func resume(*exec.Cmd) error                   { return errNoStop }
