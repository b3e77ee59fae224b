package s3verstore

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/drivers/versionlog"
)

// ObjectName and KeyOf are what the names of objects are made by.
var (
	ObjectName = objectName
	KeyOf      = keyOf
)

// Written is a write as an entry, for golden bodies.
func Written(key, nonce, prev string, number uint64, snapshotID string, snapshotN, mark uint64, life time.Duration, value []byte) ([]byte, error) {
	e := &entry{
		nonce: nonce, number: number, key: key, snapshot: versionlog.Snapshot{ID: snapshotID, Number: snapshotN}, highest: mark, life: life,
		write: true, prev: prev, value: value, deleted: value == nil,
	}
	return e.encode()
}

// Confirmed is a confirmation as an entry.
func Confirmed(key, nonce string, snapshotID string, snapshotN, mark uint64, life time.Duration) ([]byte, error) {
	e := &entry{nonce: nonce, number: snapshotN, key: key, snapshot: versionlog.Snapshot{ID: snapshotID, Number: snapshotN}, highest: mark, life: life}
	return e.encode()
}

// Recode decodes a body and encodes it again.
func Recode(body []byte) ([]byte, error) {
	e, err := decode(body)
	if err != nil {
		return nil, err
	}
	return e.encode()
}
