package sqldialect

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

// server answers SHOW VARIABLES and SHOW REPLICA STATUS, and has no tables: a driver.Connector.
type server struct {
	variables map[string]string
	replica   []string // name and value of a column
	refuses   error    // the answer to SHOW REPLICA STATUS
}

func (s *server) Connect(context.Context) (driver.Conn, error) { return connection{s}, nil }
func (s *server) Driver() driver.Driver                        { return nil }

type connection struct{ s *server }

func (c connection) Prepare(string) (driver.Stmt, error) { return nil, errors.New("not here") }
func (c connection) Close() error                        { return nil }
func (c connection) Begin() (driver.Tx, error)           { return nil, errors.New("not here") }

func (c connection) QueryContext(_ context.Context, text string, _ []driver.NamedValue) (driver.Rows, error) {
	switch {
	case strings.HasPrefix(text, "SHOW VARIABLES"):
		r := &result{names: []string{"Variable_name", "Value"}}
		for name, value := range c.s.variables {
			if strings.Contains(text, "'"+name+"'") {
				r.rows = append(r.rows, []driver.Value{name, value})
			}
		}
		return r, nil
	case text != "SHOW REPLICA STATUS":
		return nil, errors.New("Error 1146 (42S02): Table 'app.holdfast' doesn't exist")
	case c.s.refuses != nil:
		return nil, c.s.refuses
	case c.s.replica != nil:
		return &result{names: c.s.replica[:1], rows: [][]driver.Value{{c.s.replica[1]}}}, nil
	}
	return &result{names: []string{"x"}}, nil
}

type result struct {
	names []string
	rows  [][]driver.Value
}

func (r *result) Columns() []string { return r.names }
func (r *result) Close() error      { return nil }
func (r *result) Next(to []driver.Value) error {
	if len(r.rows) == 0 {
		return io.EOF
	}
	copy(to, r.rows[0])
	r.rows = r.rows[1:]
	return nil
}

// TestMySQLSettings: the settings of servers that the tests do not have: MySQL 8, clusters, replicas.
func TestMySQLSettings(t *testing.T) {
	good := map[string]string{
		"autocommit": "ON", "sql_mode": "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES", "read_only": "OFF", "super_read_only": "OFF", "innodb_read_only": "OFF",
		"transaction_read_only": "OFF", "innodb_flush_log_at_trx_commit": "1", "innodb_flush_method": "fsync", "log_bin": "ON", "sync_binlog": "1", "transaction_isolation": "REPEATABLE-READ",
	}
	denied := errors.New("Error 1227 (42000): Access denied; you need (at least one of) the SUPER, REPLICATION CLIENT privilege(s) for this operation")
	for _, tt := range []struct {
		set   string // name=value, separated by spaces
		s     server
		want  error
		words string
	}{
		{"", server{}, nil, ""},
		{"", server{refuses: denied}, nil, ""},
		{"", server{refuses: errors.New("Error 1064 (42000): You have an error in your SQL syntax")}, nil, ""},
		{"", server{refuses: errors.New("invalid connection")}, store.ErrUnavailable, ""},
		{"", server{replica: []string{"Replica_SQL_Running", "Yes"}}, store.ErrMisconfigured, "replica"},
		{"", server{replica: []string{"Slave_SQL_Running", "Yes"}}, store.ErrMisconfigured, "replica"},
		{"", server{replica: []string{"Replica_SQL_Running", "No"}}, nil, ""},
		{"super_read_only=ON", server{}, store.ErrMisconfigured, "super_read_only"},
		{"innodb_read_only=ON", server{}, store.ErrMisconfigured, "innodb_read_only"},
		{"read_only=NO_LOCK_NO_ADMIN", server{}, store.ErrMisconfigured, "read_only"},
		{"transaction_read_only=ON", server{}, store.ErrMisconfigured, "transaction_read_only"},
		{"transaction_isolation=READ-UNCOMMITTED", server{}, store.ErrMisconfigured, "READ-UNCOMMITTED"},
		{"innodb_flush_log_at_trx_commit=3", server{}, nil, ""},
		{"innodb_flush_log_at_trx_commit=2", server{}, store.ErrUnsafe, "power"},
		{"innodb_flush_log_at_trx_commit=0", server{}, store.ErrUnsafe, "crash"},
		{"innodb_flush_log_at_trx_commit=", server{}, store.ErrUnsafe, ""},
		{"innodb_flush_method=nosync", server{}, store.ErrUnsafe, "nosync"},
		{"debug_no_sync=ON", server{}, store.ErrUnsafe, "debug_no_sync"},
		{"sync_binlog=0", server{}, store.ErrUnsafe, "sync_binlog"},
		{"sync_binlog=0 log_bin=OFF", server{}, nil, ""},
		{"wsrep_on=ON wsrep_sync_wait=0", server{}, store.ErrUnsafe, "wsrep_sync_wait"},
		{"wsrep_on=ON wsrep_sync_wait=6", server{}, store.ErrUnsafe, "wsrep_sync_wait"},
		{"wsrep_on=ON wsrep_sync_wait=7", server{}, nil, ""},
		{"wsrep_on=OFF wsrep_sync_wait=0", server{}, nil, ""},
		{"autocommit=OFF", server{}, store.ErrMisconfigured, "autocommit"},
		{"sql_mode=ANSI_QUOTES", server{}, store.ErrMisconfigured, "STRICT_TRANS_TABLES"},
	} {
		tt.s.variables = maps.Clone(good)
		for setting := range strings.FieldsSeq(tt.set) {
			name, value, _ := strings.Cut(setting, "=")
			tt.s.variables[name] = value
		}
		db := sql.OpenDB(&tt.s)
		rules, _ := Of("mysql")
		err := rules.Explain(rules.Check(t.Context(), db, "holdfast"), "hint")
		if !errors.Is(err, tt.want) || err == nil != (tt.want == nil) || tt.want != nil && !strings.Contains(err.Error(), tt.words) {
			t.Errorf("%s %v: got %v, want %v with %q", tt.set, tt.s.replica, err, tt.want, tt.words)
		}
		db.Close()
	}
}

// TestMySQLErrors: what the number of an error proves. Only the beginning of a text is a number.
func TestMySQLErrors(t *testing.T) {
	rules, _ := Of("mysql")
	kinds := []error{ErrBusy, store.ErrConflict, store.ErrCredentials, store.ErrDenied, store.ErrTooLarge, store.ErrInvalid, store.ErrMisconfigured}
	for text, want := range map[string]error{
		"Error 1205 (HY000): Lock wait timeout exceeded; try restarting transaction":             ErrBusy,
		"Error 1213 (40001): Deadlock found when trying to get lock; try restarting transaction": ErrBusy,
		"Error 1213: Deadlock found":                                                            ErrBusy,
		"Error 1040 (08004): Too many connections":                                              ErrBusy,
		"Error 1203 (42000): User x already has more than 'max_user_connections'":               ErrBusy,
		"Error 1062 (23000): Duplicate entry 'a' for key 'PRIMARY'":                             store.ErrConflict,
		"Error 1045 (28000): Access denied for user 'x'@'y' (using password: YES)":              store.ErrCredentials,
		"Error 1044 (42000): Access denied for user 'x'@'y' to database 'z'":                    store.ErrDenied,
		"Error 1142 (42000): UPDATE command denied to user 'x'@'y' for table 'z'":               store.ErrDenied,
		"Error 1153 (08S01): Got a packet bigger than 'max_allowed_packet' bytes":               store.ErrTooLarge,
		"Error 1406 (22001): Data too long for column 'record' at row 1":                        store.ErrInvalid,
		"Error 1644 (45000): a trigger refuses this":                                            store.ErrInvalid,
		"Error 1290 (HY000): The MariaDB server is running with the --read-only option":         store.ErrMisconfigured,
		"Error 1836 (HY000): Running in read-only mode":                                         store.ErrMisconfigured,
		"Error 1146 (42S02): Table 'app.holdfast' doesn't exist":                                store.ErrMisconfigured,
		"Error 1049 (42000): Unknown database 'none'":                                           store.ErrMisconfigured,
		"Error 1317 (70100): Query execution was interrupted":                                   nil,
		"Error 3024 (HY000): Query execution was interrupted, maximum statement execution time": nil,
		"Error 1969 (70100): Query execution was interrupted (max_statement_time exceeded)":     nil,
		"Error 1053 (08S01): Server shutdown in progress":                                       nil,
		"Error 1927 (70100): Connection was killed":                                             nil,
		"Error 1180 (HY000): Got error 149 during COMMIT":                                       nil,
		"Error 1105 (HY000): Unknown error; Error 1213 (40001): Deadlock found":                 nil,
		"Error 12130 (40001): no such number":                                                   nil,
		"Error 1213":                                                                            nil,
		"Error : 1213":                                                                          nil,
		"invalid connection":                                                                    nil,
		"driver: bad connection":                                                                nil,
		"read tcp 127.0.0.1:1->127.0.0.1:2: Error 1213 (40001): connection reset by peer":       nil,
	} {
		for _, err := range []error{errors.New(text), fmt.Errorf("wrapped: %w", errors.New(text)), short{errors.New(text), "(hidden)"}} {
			got := rules.Classify(err)
			if i := slices.Index(kinds, want); got != want || i < 0 != (want == nil) {
				t.Errorf("%v: got %v, want %v", err, got, want)
			}
		}
	}
}
