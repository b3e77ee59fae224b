package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// FenceTable is the name of the table of [Fence].
const FenceTable = "holdfast_fence"

const createFence = `CREATE TABLE IF NOT EXISTS ` + FenceTable + ` (name text PRIMARY KEY NOT NULL, token bigint NOT NULL)`

// ErrFenced: a call of [Fence] has announced a higher fencing token. The caller must
// roll the transaction back.
var ErrFenced error = fenced{}

type fenced struct{}

func (fenced) Error() string          { return "fenced by a higher token" }
func (fenced) Outcome() store.Outcome { return store.NotApplied }

// Execer is a transaction: a [*sql.Tx], or a [*sql.Conn] with an open transaction.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Fence refuses an earlier holder of a lock inside the caller's own transaction. The arguments are
// the name of the lock and the token of the caller. If a higher token was announced for this lock,
// the error matches [ErrFenced], and the caller must roll back. Otherwise Fence announces the
// caller's token. Once the transaction has committed, every lower token is refused.
//
// Call Fence first in each transaction that the lock guards. Fence writes a row, so of two
// transactions for the same lock, the second waits until the first has ended. So after Fence a new
// holder reads the final state that the earlier holder has written. Fence needs the table that
// [CreateTables] creates, in the database of the transaction. The table has one row for each lock.
// The record of the lock can be in a different database.
//
// Fence is for PostgreSQL and SQLite. For MySQL, call [Dialect.Fence].
func Fence(ctx context.Context, tx Execer, name string, token uint64) error {
	return PostgreSQL.Fence(ctx, tx, name, token)
}

// Fence is the function [Fence] for a database of the dialect d. On MySQL, call it before the
// transaction reads anything: the first read decides which state all reads of the transaction see.
func (d Dialect) Fence(ctx context.Context, tx Execer, name string, token uint64) error {
	if err := store.CheckKey(name); err != nil {
		return err
	}
	if token == 0 || token > math.MaxInt64 {
		return fmt.Errorf("fence %q: the token is %d; it must be a number from 1 to 2^63-1", name, token)
	}
	announce := fenceByConflict
	if d == MySQL {
		announce = fenceMySQL
	}
	// No parameters, since databases differ in how they write them. The name contains
	// only harmless characters, see plain.
	announced, err := announce(ctx, tx, plain(name), token)
	if err != nil {
		return fmt.Errorf("fence %q: %w", name, err)
	}
	if announced {
		return nil
	}
	found := "a higher one"
	if q, ok := tx.(interface {
		QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	}); ok {
		var higher uint64
		if q.QueryRowContext(ctx, fmt.Sprintf("SELECT token FROM %s WHERE name = '%s'", FenceTable, plain(name))).Scan(&higher) == nil {
			found = fmt.Sprint(higher)
		}
	}
	return fmt.Errorf("fence %q: %w: this token is %[4]d, but another holder has announced %[3]s", name, ErrFenced, found, token)
}

// fenceByConflict reports whether no higher token was announced, on PostgreSQL and SQLite.
func fenceByConflict(ctx context.Context, tx Execer, name string, token uint64) (bool, error) {
	return changed(tx.ExecContext(ctx, fmt.Sprintf(`INSERT INTO %[1]s (name, token) VALUES ('%[2]s', %[3]d)
		ON CONFLICT (name) DO UPDATE SET token = excluded.token WHERE %[1]s.token <= excluded.token`, FenceTable, name, token)))
}

// plain writes every byte that is not a letter, a digit or one of ./_- as an exclamation
// mark and two hexadecimal digits.
func plain(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("./_-", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "!%02x", c)
		}
	}
	return b.String()
}
