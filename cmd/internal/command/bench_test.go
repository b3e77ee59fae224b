package command

import (
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/trial"
	"github.com/holdfast-go/holdfast/store/filestore"
	"github.com/holdfast-go/holdfast/store/sqlstore"
)

// bench and doctor leave nothing in a bucket or a directory. sweep removes what a killed bench
// has left, and nothing of a bench that runs.
func TestMeasurementsLeaveNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	bucket, stand := serveS3(t, nil)
	p.must(t, bucket, "run", "job", "--", "true")
	p.must(t, bucket, "bench", "--rounds", "3")
	p.must(t, bucket, "doctor")
	if keys := stand.Keys("bucket"); len(keys) != 1 {
		t.Errorf("in the bucket are %q", keys)
	}
	dir := filepath.Join(p.dir, "store")
	p.must(t, "file:"+dir, "run", "job", "--", "true")
	picture := filepath.Join(p.dir, "latencies.svg")
	p.must(t, "file:"+dir, "bench", "--rounds", "3", "--svg", picture)
	if svg, err := os.ReadFile(picture); err != nil || !strings.Contains(string(svg), ">acquire an existing lock<") {
		t.Errorf("the picture is %.200q (%v)", svg, err)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "k"))
	if err != nil || len(entries) != 1 {
		t.Errorf("in the directory are %v (%v)", entries, err)
	}

	st, err := filestore.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	old, young := trial.Name(time.Now().Add(-48*time.Hour)), trial.Name(time.Now())
	keys := []string{"bench/" + old + "/raw", "bench/" + old + "/lock/new-1", "bench/" + young + "/raw", ".holdfast/doctor/" + old + "/x", ".holdfast/doctor/" + young + "/x"}
	for _, key := range keys {
		if _, err := st.Put(t.Context(), key, "", []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	st.Close()
	if _, stderr, status := p.run(t, "file:"+dir, "sweep", "--older-than", "24h", "--dry-run"); status != 0 || !strings.Contains(stderr, "3 records of a killed bench or doctor are on ") {
		t.Errorf("dry run: status %d, %s", status, stderr)
	}
	st, err = filestore.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"lock/deleted long ago", "lock/deleted"} {
		v, err := st.Put(t.Context(), key, "", []byte("x"))
		if err == nil {
			err = st.Delete(t.Context(), key, v)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	st.Close()
	tombstone := filepath.Join(dir, "k", "lock+deleted%20long%20ago")
	long := time.Now().Add(-25 * time.Hour)
	if err := os.Chtimes(filepath.Join(tombstone, "000000000001"), long, long); err != nil {
		t.Fatal(err)
	}
	killDoctor(t, dir, old)
	for round, want := range []int{2, 2} {
		p.must(t, "file:"+dir, "sweep", "--older-than", "24h")
		if _, err := os.Stat(tombstone); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("what is left of a lock that was removed long ago: %v", err)
		}
		if _, err := os.Stat(filepath.Join(dir, "k", "lock+deleted")); err != nil {
			t.Error(err)
		}
		left, err := filepath.Glob(filepath.Join(dir, "k", "*bench*"))
		if of, err2 := filepath.Glob(filepath.Join(dir, "*", "*doctor*")); err2 == nil {
			left = append(left, of...)
		}
		if of, err2 := filepath.Glob(filepath.Join(dir, ".holdfast-doctor-*")); err2 == nil {
			left = append(left, of...)
		}
		if err != nil || len(left) != want {
			t.Errorf("round %d: %q are left (%v)", round, left, err)
		}
	}
}

// bench and doctor leave nothing in a database, tombstones neither, and sweep removes the
// tombstones that a killed one has left.
func TestMeasurementsLeaveNoTombstones(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	database := filepath.Join(p.dir, "locks.db")
	for _, args := range [][]string{{"init"}, {"run", "job", "--", "true"}, {"bench", "--rounds", "1"}, {"doctor"}} {
		p.must(t, "sqlite:"+database, args...)
	}
	db, err := sql.Open("sqlite", database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	left := func(want ...string) {
		t.Helper()
		rows, err := db.Query("SELECT key FROM holdfast ORDER BY key")
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		var keys []string
		for rows.Next() {
			var key string
			if err := rows.Scan(&key); err != nil {
				t.Fatal(err)
			}
			keys = append(keys, key)
		}
		if rows.Err() != nil || !slices.Equal(keys, want) {
			t.Errorf("in the database are %q (%v), want %q", keys, rows.Err(), want)
		}
	}
	left("lock/job")

	st, err := sqlstore.New(db, sqlstore.SQLite, nil)
	if err != nil {
		t.Fatal(err)
	}
	old, young := trial.Name(time.Now().Add(-48*time.Hour)), trial.Name(time.Now())
	keys := []string{".holdfast/doctor/" + old + "/x", ".holdfast/doctor/" + young + "/x", "deleted"}
	for _, key := range keys {
		v, err := st.Put(t.Context(), key, "", []byte("x"))
		if err == nil {
			err = st.Delete(t.Context(), key, v)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	p.must(t, "sqlite:"+database, "sweep", "--older-than", "24h")
	left(keys[1], "deleted", "lock/job")
}

// killDoctor kills a doctor in the middle of its work, and gives what it leaves a name of
// another time.
func killDoctor(t *testing.T, dir, name string) {
	t.Helper()
	cmd := exec.Command(holdfastBinary(t), "--store", "file:"+dir, "doctor")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var made []string
	for range 1000 {
		made, _ = filepath.Glob(filepath.Join(dir, ".holdfast-doctor-*", "store", "k", "*"))
		if len(made) > 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if len(made) == 0 {
		t.Fatal("doctor has made nothing")
	}
	left, _, _ := strings.Cut(made[0], "/store/k/")
	if err := os.Rename(left, filepath.Join(dir, ".holdfast-doctor-"+name)); err != nil {
		t.Fatal(err)
	}
}
