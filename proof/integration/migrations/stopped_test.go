//go:build unix

package migrations_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/golang-migrate/migrate/v4"
)

// A process is stopped past its lease, at some step. Another continues, or finds that it must not. Then the first
// process continues.
func testStopped(t *testing.T, newTarget targetFunc) {
	kind := newTarget(t).Kind
	for name, c := range map[string]struct {
		tool, pause string
		nextIsDirty bool
		says        string // what the stopped process says
		applied     string
		version     uint // of migrate, at the end
		dirty       bool
	}{
		"migrate between migrations":   {tool: withMigrate, pause: "after set 2 false", says: "the lease is lost", applied: eachOnce, version: 5},
		"migrate in a Run":             {tool: withMigrate, pause: "after run 2", nextIsDirty: true, says: "the lease is lost", applied: "1:1 2:1 ", version: 2, dirty: true},
		"migrate before a late write":  {tool: withMigrate, pause: "before set 3 true", says: "the lease is lost", applied: eachOnce, version: 3, dirty: true}, // as the documents say
		"goose":                        {tool: withGoose, pause: "before run 3", says: "the lease is lost", applied: eachOnce},
		"goose, without the context":   {tool: gooseNoContext, pause: "after run 3", says: "the lease is lost", applied: eachOnce},
		"control: goose, locker alone": {tool: gooseLockerOnly, pause: "before run 3", says: "the lease is lost", applied: "1:1 2:1 3:2 4:2 5:2 "},
		"control: goose, own locker":   {tool: gooseOwnTable, pause: "before run 3", says: "not held by this instance", applied: "1:1 2:1 3:2 4:2 5:2 "},
	} {
		// A stopped process with goose keeps the one write lock of SQLite, so no other process continues. The table
		// locker of goose is for PostgreSQL.
		if kind == "sqlite" && c.version == 0 || kind != "pgx" && c.tool == gooseOwnTable {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := newTarget(t)
			p := start(t, job{Target: at, Tool: c.tool, Pause: c.pause})
			p.expect(t, "paused")
			signal(t, p, syscall.SIGSTOP)
			err := job{Target: at, Tool: c.tool}.run(t.Context(), func(string) {})
			if isDirty := errors.As(err, &migrate.ErrDirty{}); isDirty != c.nextIsDirty || !isDirty && err != nil {
				t.Fatalf("the next holder got %v", err)
			}
			signal(t, p, syscall.SIGCONT)
			p.resume()
			p.expect(t, c.says)
			if got := at.applied(t); got != c.applied {
				t.Errorf("applied %s, want %s", got, c.applied)
			}
			if c.version == 0 {
				return
			}
			m, err := newMigrate(t.Context(), at, at.mustOpen(t), at.mustClient(t), true, func(string) {})
			if err != nil {
				t.Fatal(err)
			}
			if version, dirty, err := m.Version(); version != c.version || dirty != c.dirty || err != nil {
				t.Errorf("got version %d, dirty %t, %v, want version %d, dirty %t", version, dirty, err, c.version, c.dirty)
			}
		})
	}
}

func signal(t *testing.T, p *process, s syscall.Signal) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}
