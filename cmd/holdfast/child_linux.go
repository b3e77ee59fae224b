package main

import "syscall"

// dieWithParent makes the system kill the child when this process dies. It reaches
// the child itself and not what the child started: those keep the presence of the
// lock's holder alive, so that nobody takes the lock before they end or its TTL.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
