package integration_test

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/sqlstore"
)

// TestGrants applies policies/postgres/grants.sql to a server, in its three parts: roles, the
// rights of locks, and those of sweep. After each part the owner of the schema makes the table,
// and the role of jobs can do what the part promises, and no more.
func TestGrants(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../policies/postgres/grants.sql")
	if err != nil {
		t.Fatal(err)
	}
	rights := regexp.MustCompile(`(?m)^ALTER DEFAULT`).FindAllIndex(text, -1)
	if len(rights) != 2 {
		t.Fatalf("grants.sql has %d parts with rights, want 2", len(rights))
	}
	server := servers.NewPostgres(t)
	as := func(user string) database {
		return database{sqlstore.PostgreSQL, "pgx", strings.Replace(server.URL(""), "postgres@", user+"@", 1) + "&search_path=locks"}
	}
	admin, err := pgx.Connect(t.Context(), server.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(t.Context())
	apply := func(sql []byte) {
		t.Helper()
		if _, err := admin.PgConn().Exec(t.Context(), string(sql)).ReadAll(); err != nil {
			t.Fatal(err)
		}
	}
	checkGrants(t, [][]byte{text[:rights[0][0]], text[rights[0][0]:rights[1][0]], text[rights[1][0]:]}, apply, as)
}

// TestMySQLGrants is TestGrants for policies/mysql/grants.sql.
func TestMySQLGrants(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../policies/mysql/grants.sql")
	if err != nil {
		t.Fatal(err)
	}
	rights := regexp.MustCompile(`(?m)^GRANT .* TO jobs`).FindAllIndex(text, -1)
	if len(rights) != 2 {
		t.Fatalf("grants.sql has %d parts with rights, want 2", len(rights))
	}
	server := servers.NewMariaDB(t)
	admin := database{sqlstore.MySQL, "mysql", server.DSN("", "mysql")}
	apply := func(text []byte) {
		t.Helper()
		for statement := range strings.SplitSeq(string(text), ";") {
			if sql := regexp.MustCompile(`(?m)^--.*$`).ReplaceAllString(statement, ""); strings.TrimSpace(sql) != "" {
				admin.with(t, sql)
			}
		}
	}
	checkGrants(t, [][]byte{text[:rights[0][0]], text[rights[0][0]:rights[1][0]], text[rights[1][0]:]}, apply, func(user string) database {
		password := map[string]string{"jobs": "PASSWORD OF THE JOBS", "locks_owner": "PASSWORD OF THE OWNER"}[user]
		return database{sqlstore.MySQL, "mysql", strings.Replace(server.DSN("", "locks"), "root@", user+":"+password+"@", 1)}
	})
}

// checkGrants applies the parts of a file of grants, and checks after each what the role of jobs can do.
func checkGrants(t *testing.T, parts [][]byte, apply func([]byte), as func(user string) database) {
	t.Helper()
	for i, part := range parts {
		writes, removes := i > 0, i > 1
		apply(part)
		apply([]byte("DROP TABLE IF EXISTS locks.holdfast"))
		job, owner := as("jobs"), as("locks_owner")
		if err := sqlstore.CreateTables(t.Context(), job.open(t), job.dialect, nil); err == nil {
			t.Error("a job has made the table")
		}
		owner.create(t)
		st := job.store(t, true).(inDatabase).Store.(*sqlstore.Store)
		v, err := st.Put(t.Context(), "lock/job", "", []byte("1"))
		if !writes {
			if !errors.Is(err, store.ErrDenied) {
				t.Errorf("a job without rights has written: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if v, err = st.Put(t.Context(), "lock/job", v, []byte("2")); err != nil {
			t.Errorf("replace: %v", err)
		}
		if value, _, err := st.Get(t.Context(), "lock/job"); string(value) != "2" || err != nil {
			t.Errorf("read: %q, %v", value, err)
		}
		for key, err := range st.List(t.Context(), "lock") {
			if key != "lock/job" || err != nil {
				t.Errorf("list: %q, %v", key, err)
			}
		}
		if err := st.Delete(t.Context(), "lock/job", v); err != nil {
			t.Errorf("delete: %v", err)
		}
		if err := st.Erase(t.Context(), "lock/job"); errors.Is(err, store.ErrDenied) == removes || removes && err != nil {
			t.Errorf("remove a row, with part %d of the grants: %v", i, err)
		}
	}
}
