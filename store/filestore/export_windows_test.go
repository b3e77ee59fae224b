package filestore

import "path/filepath"

// MaxReports is how many waiters get reports.
const MaxReports = maxReports

// Reports is how many waiters get reports now.
func Reports() int { return int(reports.Load()) }

// WatchLog waits for reports of the log of a key.
func WatchLog(dir, key string) (woken <-chan struct{}, stop func()) {
	return of((&notify{}).log(dir, encodeKey(key)))
}

// WatchProcess waits for the report of the end of a process.
func WatchProcess(dir, name string) (woken <-chan struct{}, stop func()) {
	return of((&notify{}).alive(filepath.Join(dir, aliveDir, name)))
}

// of returns nil for a waiter that gets no reports.
func of(w waiter, reported bool) (woken <-chan struct{}, stop func()) {
	if !reported {
		return nil, func() {}
	}
	return w.wake, w.stop
}
