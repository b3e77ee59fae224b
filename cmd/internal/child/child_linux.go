package child

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithParent makes the system kill the child when this process dies. The system does not
// kill the processes that the child has started. They inherit the descriptor that shows the
// holder as present, and keep it open unless they close descriptors that they do not know.
// Until they end, or the TTL is over, no other holder takes the lock.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// stopThread sends a stop signal to the calling thread. The thread then stops in this call,
// and not a little later.
func stopThread(sig syscall.Signal) { _ = unix.Tgkill(unix.Getpid(), unix.Gettid(), sig) }
