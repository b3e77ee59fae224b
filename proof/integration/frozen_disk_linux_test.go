package integration_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/powercut"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/sqlstore"
)

// TestSQLiteFrozenDisk: SQLite waits for a disk that hangs, whatever the context of the statement.
// A register ends its calls nevertheless.
func TestSQLiteFrozenDisk(t *testing.T) {
	disk := powercut.New(t, "ext4")
	d := database{sqlstore.SQLite, "sqlite", "file:" + disk.Dir() + "/db.sqlite?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate"}
	d.create(t)
	db := d.open(t)
	st, err := sqlstore.New(db, d.dialect, nil)
	if err != nil {
		t.Fatal(err)
	}
	v, err := st.Put(t.Context(), "key", "", []byte("1"))
	if err != nil {
		t.Fatal(err)
	}
	disk.Freeze(true)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err = st.Put(ctx, "key", v, []byte("2"))
	took := time.Since(began)
	disk.Freeze(false)
	if store.OutcomeOf(err) != store.Unknown || took > 5*time.Second {
		t.Errorf("Put on a frozen disk returned %v after %v", err, took)
	}
	if err := db.Close(); err != nil { // it waits for the statement
		t.Error(err)
	}
}
