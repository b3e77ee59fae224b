package command

import (
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestSQLiteLargeRow: what another program has put into a row costs a command no memory,
// neither one that passes the row nor one that reads it.
func TestSQLiteLargeRow(t *testing.T) {
	if file := os.Getenv(fillVariable); file != "" {
		makeLargeRows(t, file)
		return
	}
	bin, dir := holdfastBinary(t), t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "db")
	env := append(os.Environ(), "HOLDFAST_STORE=sqlite:"+file, "HOLDFAST_TABLE=sqlite:"+file, "HOLDFAST_BUCKET=file:"+filepath.Join(dir, "bucket"))
	run := func(want string, args ...string) (peak int64) {
		t.Helper()
		cmd := exec.Command(bin, args...)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		if (err != nil) != (want != "") || !strings.Contains(string(out), want) {
			t.Errorf("holdfast %q: %v\n%.1000s", args, err, out)
		}
		return cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss >> 10
	}
	run("", "init")
	run("", "item", "init")
	run("", "item", "put", "small", "--set", `{"n":1}`)
	least := run("", "run", "job", "--", "true")
	fill := exec.Command(os.Args[0], "-test.run=^TestSQLiteLargeRow$") // a child begins with the peak of its parent
	fill.Env = append(env, fillVariable+"="+file)
	if out, err := fill.CombinedOutput(); err != nil {
		t.Fatalf("the rows could not be made: %v\n%s", err, out)
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"", []string{"ls"}},
		{"", []string{"run", "job", "--", "true"}},
		{"", []string{"run", "a", "--", "true"}},
		{"record", []string{"run", "-n", "big", "--", "true"}},
		{"", []string{"item", "get", "small"}},
		{"bytes", []string{"item", "get", "big"}},
		{`"big"`, []string{"item", "ls"}},
	} {
		if peak := run(c.want, c.args...); peak > least+30 {
			t.Errorf("holdfast %q: %d MiB, %d without such a row", c.args, peak, least)
		}
	}
}

// fillVariable makes the test only fill the database that it names.
const fillVariable = "TEST_LARGE_ROWS"

func makeLargeRows(t *testing.T, file string) {
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range []string{
		"UPDATE holdfast SET key = replace(key, 'job', 'big'), record = hex(zeroblob(40000000)), version = hex(zeroblob(10000000)) WHERE key LIKE '%job'",
		"INSERT INTO items VALUES ('big', hex(zeroblob(50000000)))",
	} {
		if result, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		} else if n, _ := result.RowsAffected(); n != 1 {
			t.Fatalf("%d rows were changed: %s", n, statement)
		}
	}
}
