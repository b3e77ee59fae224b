//go:build linux

package filestore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// A fight is many processes that create, count in and delete the same registers, and sweep
// what was deleted. Each value names the one before it, back to the create, so that the last
// values, those that were deleted, and the diaries of all processes tell the whole history.
type fightValue struct {
	N    uint64 `json:"n"`
	ID   string `json:"id"`
	Prev string `json:"prev"`
}

// floors is memory that all processes of a fight share: for each register, the number of
// the newest version that was acknowledged or read. The second half has, for each register,
// the newest version that a process tried to delete.
type floors []atomic.Uint64

func mapFloors(file string, n int) (floors, error) {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(int64(8 * n)); err != nil {
		return nil, err
	}
	b, err := syscall.Mmap(int(f.Fd()), 0, 8*n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*atomic.Uint64)(unsafe.Pointer(&b[0])), n), nil
}

func (f floors) raise(key int, n uint64) {
	for {
		old := f[key].Load()
		if old >= n || f[key].CompareAndSwap(old, n) {
			return
		}
	}
}

// fighter is one process of a fight.
type fighter struct {
	s      *filestore.Store
	name   string
	keys   int
	floors floors
	diary  *os.File
	seen   map[store.Version]string // values by version
	writes int
}

// fight works until it is killed, or meets an error. Its arguments: the directory of
// the fight, that of the store, its name, the number of keys, and "tiny" or "plain".
func fight(args []string) error {
	dir, name := args[0], args[2]
	keys, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	var opts *filestore.Options
	if args[4] == "tiny" {
		opts = filestore.Tiny()
	}
	f := &fighter{name: name, keys: keys, seen: make(map[store.Version]string)}
	if f.floors, err = mapFloors(filepath.Join(dir, "floors"), 2*keys); err != nil {
		return err
	}
	if f.diary, err = os.OpenFile(filepath.Join(dir, "diary-"+name), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600); err != nil {
		return err
	}
	if f.s, err = filestore.Open(args[1], opts); err != nil {
		f.write("x %v", err)
		return nil
	}
	for {
		key := rand.IntN(keys)
		if err := f.round(key); err != nil {
			f.write("e %v", err) // fails the test
			return nil
		}
	}
}

// write adds a line to the diary. It is there even when the process is killed next. A process that is killed
// meanwhile can leave a part of the line, up to the end of a page of memory.
func (f *fighter) write(format string, args ...any) {
	if _, err := fmt.Fprintf(f.diary, format+"\n", args...); err != nil {
		panic(err)
	}
}

// round reads a register, and changes it most of the time.
func (f *fighter) round(key int) error {
	ctx, name := testContext(), fmt.Sprintf("fight/%d", key)
	if rand.IntN(15) == 0 {
		n, err := f.s.SweepDeleted(ctx, 0)
		f.end(err)
		f.write("s %d", n)
	}
	floor := f.floors[key].Load()
	value, v, err := f.s.Get(ctx, name)
	if !errors.Is(err, store.ErrNotFound) {
		f.end(err)
	}
	var old fightValue
	var number uint64
	if v == "" {
		if deleted := f.floors[f.keys+key].Load(); deleted < floor {
			return fmt.Errorf("%s is absent: version %d was known before, and versions up to %d were deleted", name, floor, deleted)
		}
	} else if err := json.Unmarshal(value, &old); err != nil {
		return fmt.Errorf("%s: torn read: %q: %w", name, value, err)
	} else if number = numberOf(v); number < floor {
		return fmt.Errorf("%s: stale read: version %d, and %d was known before", name, number, floor)
	}
	if was, ok := f.seen[v]; ok && v != "" && was != string(value) {
		return fmt.Errorf("%s: version %s returned: %s and %s", name, v, was, value)
	}
	f.seen[v] = string(value)
	f.floors.raise(key, number)
	if rand.IntN(3) == 0 {
		return nil
	}
	if v != "" && rand.IntN(8) == 0 {
		f.write("r %d %s", key, old.ID)
		f.floors.raise(f.keys+key, number)
		err := f.s.Delete(ctx, name, v)
		if errors.Is(err, store.ErrConflict) {
			return nil
		}
		f.end(err)
		f.write("d %d %s %d", key, old.ID, number+1)
		return nil
	}
	f.writes++
	id := fmt.Sprintf("%s.%d", f.name, f.writes)
	next, err := json.Marshal(fightValue{old.N + 1, id, old.ID})
	if err != nil {
		return err
	}
	f.write("i %d %s %s %d", key, id, cmpDash(old.ID), old.N+1)
	put, ack := f.s.Put, "a"
	if rand.IntN(2) == 0 {
		put, ack = f.s.PutUnsynced, "v"
	}
	v, err = put(ctx, name, v, next)
	if errors.Is(err, store.ErrConflict) {
		f.write("f %d %s", key, id)
		return nil
	}
	f.end(err)
	if number = numberOf(v); number <= floor {
		return fmt.Errorf("%s: a write made version %d, and %d was known before", name, number, floor)
	}
	f.write("%s %d %s %d", ack, key, id, number)
	f.floors.raise(key, number)
	return nil
}

// end notes an error of the store, and ends the process.
func (f *fighter) end(err error) {
	if err != nil {
		f.write("x %v", err)
		os.Exit(0)
	}
}

// numberOf returns the number in a version.
func numberOf(v store.Version) uint64 {
	text, _, _ := strings.Cut(string(v), ".")
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func cmpDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// history is what the diaries of a fight say about one register.
type history struct {
	prev    map[string]string // of each value that any process tried to write
	number  map[string]uint64
	acked   []string
	weak    []string // acknowledged, but need not survive a power cut
	failed  []string
	removed []string // values that a process tried to delete
	deleted []string // values whose deletion was acknowledged
	top     uint64   // the newest version that was acknowledged and is durable
}

// tally counts what happened in a fight.
type tally struct{ tried, acked, deleted, swept int }

// readDiaries reads what the processes of a fight wrote down. Errors of the store
// are allowed where there are faults.
func readDiaries(t *testing.T, dir string, keys int, faults bool) (all []history, swept int) {
	t.Helper()
	all = make([]history, keys)
	for i := range all {
		all[i] = history{prev: make(map[string]string), number: make(map[string]uint64)}
	}
	files, err := filepath.Glob(filepath.Join(dir, "diary-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			if !strings.HasSuffix(line, "\n") {
				continue // the process was killed while it wrote the line
			}
			field := strings.Fields(line)
			if field[0] == "e" || (field[0] == "x" && !faults) {
				t.Errorf("%s: %s", filepath.Base(file), line[2:])
			}
			if field[0] == "e" || field[0] == "x" {
				continue
			}
			key, err := strconv.Atoi(field[1])
			if err != nil {
				t.Fatal(err)
			}
			if field[0] == "s" {
				swept += key
				continue
			}
			h := &all[key]
			switch id := field[2]; field[0] {
			case "i":
				h.prev[id] = strings.TrimPrefix(field[3], "-")
				n, err := strconv.ParseUint(field[4], 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				h.number[id] = n
			case "a", "d":
				n, err := strconv.ParseUint(field[3], 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				h.top = max(h.top, n)
				if field[0] == "d" {
					h.deleted = append(h.deleted, id)
				} else {
					h.acked = append(h.acked, id)
				}
			case "r":
				h.removed = append(h.removed, id)
			case "v":
				h.weak = append(h.weak, id)
			case "f":
				h.failed = append(h.failed, id)
			}
		}
	}
	return all, swept
}

// check compares the diaries with the last value. All values that were acknowledged led to it,
// or to a value that a process tried to delete; those that were refused did not. One value at
// the most follows another, and none follows a value that was deleted.
func (h *history) check(t *testing.T, name string, last fightValue) {
	t.Helper()
	if n := h.number[last.ID]; n != last.N {
		t.Fatalf("%s: value %s has number %d, want %d", name, last.ID, last.N, n)
	}
	led := make(map[string]bool)       // to the last value, or to one that was to be deleted
	certain := make(map[string]string) // the value that follows, where that is known
	for _, id := range h.deleted {
		certain[id] = "its deletion"
	}
	for i, id := range slices.Concat([]string{last.ID}, h.deleted, h.removed) {
		for id != "" && !led[id] {
			prev, wrote := h.prev[id]
			if !wrote || (prev == "") != (h.number[id] == 1) || prev != "" && h.number[prev] != h.number[id]-1 {
				t.Fatalf("%s: value %s with number %d follows %q", name, id, h.number[id], prev)
			}
			if i == 0 && certain[id] == "its deletion" {
				t.Errorf("%s: value %s is there, and was deleted", name, id)
			}
			led[id] = true
			if prev != "" && i <= len(h.deleted) {
				if next := certain[prev]; next != "" {
					t.Errorf("%s: %s and %s follow %s", name, next, id, prev)
				}
				certain[prev] = id
			}
			id = prev
		}
	}
	for _, id := range h.acked {
		if !led[id] {
			t.Errorf("%s: the acknowledged value %s (number %d) is lost", name, id, h.number[id])
		}
	}
	for _, id := range h.failed {
		if led[id] {
			t.Errorf("%s: the refused value %s (number %d) took effect", name, id, h.number[id])
		}
	}
}

// TestFight lets processes create, count in and delete the same registers, and sweep, while they
// are killed and stopped at random moments.
func TestFight(t *testing.T) {
	tests := []struct {
		name  string
		keys  int
		mode  string
		dir   func(testing.TB) string
		kills int
	}{
		{"one key, rotating", 1, "tiny", memoryDir, 12},
		{"many keys, rotating", 12, "tiny", memoryDir, 8},
		{"one key on disk", 1, "plain", func(t testing.TB) string { return t.TempDir() }, 8},
	}
	swept := 0
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			kills := test.kills
			if torture {
				kills = 3334
			}
			swept += runFight(t, test.dir(t), test.keys, test.mode, kills)
		})
	}
	if swept == 0 {
		t.Error("nothing was swept")
	}
}

// TestDiaryOfAKilledProcess: the part of a line that a killed process left is no value that was acknowledged.
func TestDiaryOfAKilledProcess(t *testing.T) {
	dir := t.TempDir()
	diary := "i 0 w1.1 - 1\na 0 w1.1 1\ni 0 w1.23 w1.1 2\nv 0 w1."
	if err := os.WriteFile(filepath.Join(dir, "diary-w1"), []byte(diary), 0o600); err != nil {
		t.Fatal(err)
	}
	all, _ := readDiaries(t, dir, 1, false)
	if h := all[0]; len(h.acked) != 1 || len(h.weak) != 0 || len(h.number) != 2 {
		t.Errorf("the diary says %+v", h)
	}
}

// startFighter starts a process.
func startFighter(t *testing.T, dir, storeDir string, n, keys int, mode string) *exec.Cmd {
	t.Helper()
	cmd := worker(t, "fight", dir, storeDir, fmt.Sprintf("w%d", n), strconv.Itoa(keys), mode)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// awaitWrites waits until a process of a fight has written something durably.
func awaitWrites(t *testing.T, dir string, name string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		data, err := os.ReadFile(filepath.Join(dir, "diary-"+name))
		if err == nil && strings.Contains("\n"+string(data), "\na ") {
			return
		}
	}
	readDiaries(t, dir, 1000, false) // says why
	t.Fatal("a process does not get to write anything")
}

// lastValues reads the registers of a fight, and compares them with the diaries.
func lastValues(t *testing.T, s *filestore.Store, dir string, keys int, faults bool) (sum tally) {
	t.Helper()
	histories, swept := readDiaries(t, dir, keys, faults)
	sum.swept = swept
	for key, h := range histories {
		name := fmt.Sprintf("fight/%d", key)
		var last fightValue
		if value, _, err := s.Get(t.Context(), name); err == nil {
			if err := json.Unmarshal(value, &last); err != nil {
				t.Fatal(err)
			}
		} else if !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
		if !faults {
			h.acked = append(h.acked, h.weak...)
		}
		h.check(t, name, last)
		sum.tried += len(h.prev)
		sum.acked += len(h.acked)
		sum.deleted += len(h.deleted)
	}
	return sum
}

// runFight starts processes, and kills and stops them. It returns how many logs they swept.
func runFight(t *testing.T, dir string, keys int, mode string, kills int) (swept int) {
	const procs = 4
	storeDir := filepath.Join(dir, "store")
	born := 0
	start := func() *exec.Cmd {
		born++
		return startFighter(t, dir, storeDir, born, keys, mode)
	}
	var running []*exec.Cmd
	for range procs {
		running = append(running, start())
	}
	for range kills {
		time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
		i := rand.IntN(procs)
		if rand.IntN(3) == 0 {
			_ = running[i].Process.Signal(syscall.SIGSTOP) // it may have ended
			time.Sleep(time.Duration(rand.IntN(120)) * time.Millisecond)
			_ = running[i].Process.Signal(syscall.SIGCONT)
		}
		kill(running[i])
		running[i] = start()
	}
	awaitWrites(t, dir, fmt.Sprintf("w%d", born))
	for _, cmd := range running {
		kill(cmd)
	}
	sum := lastValues(t, open(t, storeDir, nil), dir, keys, false)
	t.Logf("%d processes, %d kills: %+v", born, kills, sum)
	if sum.acked == 0 {
		t.Error("nothing was written")
	}
	return sum.swept
}
