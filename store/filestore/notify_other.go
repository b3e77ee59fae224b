//go:build !linux && !windows

package filestore

// On these systems waiters poll.

func (n *notify) log(dir, name string) (waiter, bool) { return waiter{}, false }

func (n *notify) alive(path string) (waiter, bool) { return waiter{}, false }

func (n *notify) opened(path string, signal func()) (stop func(), err error) { return nil, noWake() }

func (n *notify) close() {}
