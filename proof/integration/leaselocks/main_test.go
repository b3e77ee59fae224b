package leaselocks_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/compat/leaselocks"
	"github.com/holdfast-go/holdfast/lease/trylock"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
)

// holderVar makes the test binary a process that holds the lock "job" in this directory until it is killed.
const holderVar = "HOLDFAST_TEST_LEASELOCKS"

func TestMain(m *testing.M) {
	if dir := os.Getenv(holderVar); dir != "" {
		if err := hold(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	os.Exit(new(servers.Set).Main(m))
}

// startHolder starts a process that holds the lock. It sends what the process prints: its token, and why it ended.
func startHolder(t *testing.T, dir string) (*exec.Cmd, <-chan string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holderVar+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := make(chan string, 10)
	go func() {
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			lines <- scanner.Text()
		}
		close(lines)
	}()
	return cmd, lines
}

func hold(dir string) error {
	ctx := context.Background()
	db, err := sql.Open("sqlite", url(dir, 5000))
	if err != nil {
		return err
	}
	table, err := leaselocks.Open(ctx, db, nil)
	if err != nil {
		return err
	}
	h, err := trylock.New(table, "job", &trylock.Options{TTL: ttl})
	if err != nil {
		return err
	}
	guard, err := h.Acquire(ctx)
	if err != nil {
		return err
	}
	fmt.Println(guard.Token())
	<-guard.Context().Done()
	return guard.Err()
}

// ttl is the duration of our leases. It is long enough for a machine that runs other tests too.
const ttl = 3 * time.Second

// databaseName is the name of the database in its directory.
const databaseName = "matrix-sdk-media.sqlite3"

func url(dir string, busy int) string {
	return fmt.Sprintf("file:%s?_pragma=busy_timeout(%d)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)", filepath.Join(dir, databaseName), busy)
}

func open(t *testing.T, dir string, busy int) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", url(dir, busy))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func openTable(t *testing.T, dir string, o *leaselocks.Options) *leaselocks.Table {
	t.Helper()
	table, err := leaselocks.Open(t.Context(), open(t, dir, 5000), o)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func newHandle(t *testing.T, b trylock.Backend) *trylock.Handle {
	t.Helper()
	h, err := trylock.New(b, "job", &trylock.Options{TTL: ttl, MinPoll: 5 * time.Millisecond, MaxPoll: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// peer is another program that uses the table.
type peer interface {
	// try returns the generation, or 0 if another holder has the lock.
	try(key, holder string, d time.Duration) (generation uint64, err error)
}

// eachPeer runs a test with the statements of matrix-sdk-sqlite, and, if HOLDFAST_TORTURE is set, with the crate: its
// first build takes minutes. start starts another program on the database in dir.
func eachPeer(t *testing.T, f func(t *testing.T, start func(dir string) (peer, error))) {
	t.Run("statements", func(t *testing.T) {
		f(t, func(dir string) (peer, error) { return newStatements(t, dir) })
	})
	if os.Getenv("HOLDFAST_TORTURE") != "" {
		t.Run("crate", func(t *testing.T) {
			f(t, func(dir string) (peer, error) { return newCrate(t, dir) })
		})
	}
}

// mustStart starts another program.
func mustStart(t *testing.T, start func(dir string) (peer, error), dir string) peer {
	t.Helper()
	p, err := start(dir)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// statements sends the statements of matrix-sdk-sqlite 0.19.1.
type statements struct{ db *sql.DB }

// newStatements opens the database, and creates or upgrades its tables, as the crate does for its media store.
func newStatements(t *testing.T, dir string) (peer, error) {
	t.Helper()
	db := open(t, dir, 5000)
	version := []byte{0}
	_ = db.QueryRow(`SELECT value FROM kv WHERE key = 'version'`).Scan(&version)
	for n, migration := range []string{
		`CREATE TABLE "kv" ("key" TEXT PRIMARY KEY NOT NULL, "value" BLOB NOT NULL);
		CREATE TABLE "media" ("uri" BLOB NOT NULL, "format" BLOB NOT NULL, PRIMARY KEY ("uri", "format"));
		CREATE TABLE "lease_locks" ("key" TEXT PRIMARY KEY NOT NULL, "holder" TEXT NOT NULL, "expiration" REAL NOT NULL)`,
		`ALTER TABLE "lease_locks" ADD COLUMN "generation" INTEGER NOT NULL DEFAULT 1`,
	} {
		if int(version[0]) > n {
			continue
		}
		if _, err := db.Exec(migration); err != nil {
			return nil, err
		}
		if _, err := db.Exec(`INSERT INTO kv VALUES ('version', ?1) ON CONFLICT (key) DO UPDATE SET value = ?1`, []byte{byte(n + 1)}); err != nil {
			return nil, err
		}
	}
	return statements{db}, nil
}

const published = `INSERT INTO lease_locks (key, holder, expiration)
                    VALUES (?1, ?2, ?3)
                    ON CONFLICT (key)
                    DO
                        UPDATE SET
                            holder = excluded.holder,
                            expiration = excluded.expiration,
                            generation =
                                CASE holder
                                    WHEN excluded.holder THEN generation
                                    ELSE generation + 1
                                END
                        WHERE
                            holder = excluded.holder
                            OR expiration < ?4
                    RETURNING generation`

func (p statements) try(key, holder string, d time.Duration) (generation uint64, err error) {
	now := time.Now().UnixMilli()
	tx, err := p.db.Begin()
	if err != nil {
		return 0, err
	}
	defer tx.Rollback()
	err = tx.QueryRow(published, key, holder, now+d.Milliseconds(), now).Scan(&generation)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, err
	}
	return generation, tx.Commit()
}

// crate is a process with the crate.
type crate struct {
	cmd *exec.Cmd
	mu  sync.Mutex
	in  io.Writer
	out *bufio.Scanner
}

// newCrate starts the program. The error is that of the crate's open.
func newCrate(t *testing.T, dir string) (peer, error) {
	t.Helper()
	root := filepath.Join("..", "testdata", "leaselocks")
	cmd := exec.Command(servers.CargoBinary(t, root, root, "leaselocks"), dir)
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	p := &crate{cmd: cmd, in: in, out: bufio.NewScanner(out)}
	if p.out.Scan(); p.out.Text() != "open" {
		return nil, errors.New(p.out.Text())
	}
	return p, nil
}

func (p *crate) try(key, holder string, d time.Duration) (uint64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := fmt.Fprintln(p.in, "try", key, holder, d.Milliseconds()); err != nil {
		return 0, err
	}
	if !p.out.Scan() {
		return 0, errors.New("the program has ended")
	}
	switch answer := p.out.Text(); {
	case answer == "held":
		return 0, nil
	case strings.HasPrefix(answer, "error"):
		return 0, errors.New(answer)
	default:
		return strconv.ParseUint(answer, 10, 64)
	}
}
