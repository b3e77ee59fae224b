package object

import (
	"fmt"
	"time"
)

// LogKnows returns in words what a log remembers.
func LogKnows(l *Log) string {
	return fmt.Sprint(l.id, l.last.Number, l.last.ID, l.last.before, l.floor)
}

// LogLearn makes a log remember what another one does, as if it had looked just now.
func LogLearn(l, from *Log) {
	l.id, l.last, l.floor, l.floorReadAt = from.id, from.last, from.floor, time.Now()
}

const (
	MaxDir      = maxDir
	MaxPrevious = maxPrevious
)

// Fast returns options with short pauses, for tests with many faults. A write is sent so many
// times at most; 0 means the usual number.
func Fast(o Options, tries int) *Options {
	o.pause, o.tries = time.Microsecond, tries
	return &o
}

// InRanges returns options of a download in ranges of size bytes.
func InRanges(o DownloadOptions, size int64) *DownloadOptions {
	o.rangeSize = size
	return &o
}
