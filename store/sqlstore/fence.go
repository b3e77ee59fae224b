package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// FenceTable is the table of [Fence].
const FenceTable = "holdfast_fence"

const createFence = `CREATE TABLE IF NOT EXISTS ` + FenceTable + ` (name text PRIMARY KEY NOT NULL, token bigint NOT NULL)`

// ErrFenced: a higher fencing token has been here. What the transaction has done must
// be rolled back.
var ErrFenced error = fenced{}

type fenced struct{}

func (fenced) Error() string          { return "fenced by a higher token" }
func (fenced) Outcome() store.Outcome { return store.NotApplied }

// Execer is a transaction: a [*sql.Tx], or a [*sql.Conn] in one.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Fence refuses the holder of a lock that is over inside the caller's own transaction:
// if a higher token than token has been announced for the lock name, the error matches
// [ErrFenced], and the caller rolls back. Otherwise the token is announced, and every
// lower one is refused once the transaction has committed.
//
// Call it first in each transaction that the lock guards: the row that it writes makes
// transactions of two holders wait for each other, so that what a new holder reads
// after it is what an earlier one has left for good. It needs the table that
// [CreateTables] makes, one row for each name, in the database of the transaction, which
// need not be that of the lock.
func Fence(ctx context.Context, tx Execer, name string, token uint64) error {
	if err := store.CheckKey(name); err != nil {
		return err
	}
	if token == 0 || token > math.MaxInt64 {
		return fmt.Errorf("fence %q: %d is no token: a number from 1 to 2^63-1", name, token)
	}
	// Without parameters, which each database writes in its own way: the name consists
	// of harmless characters.
	result, err := tx.ExecContext(ctx, fmt.Sprintf(`INSERT INTO %[1]s (name, token) VALUES ('%[2]s', %[3]d)
		ON CONFLICT (name) DO UPDATE SET token = excluded.token WHERE %[1]s.token <= excluded.token`, FenceTable, plain(name), token))
	if err != nil {
		return fmt.Errorf("fence %q: %w", name, err)
	}
	n, err := result.RowsAffected()
	if err != nil {
		return fmt.Errorf("fence %q: %w", name, err)
	}
	if n == 0 {
		return fmt.Errorf("fence %q: %w: %d is lower", name, ErrFenced, token)
	}
	return nil
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
