package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithParent makes the system kill the child when this process dies. It reaches
// the child itself and not what the child started: those keep the presence of the
// lock's holder alive, unless they close descriptors that they do not know, so that
// nobody takes the lock before they end or its TTL.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// stopThread sends a stop signal to the calling thread: it stops here, and not a
// little later.
func stopThread(sig syscall.Signal) { _ = unix.Tgkill(unix.Getpid(), unix.Gettid(), sig) }
