package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// files compares locks between processes of one machine, in a directory.
func files(_ context.Context, w io.Writer, r *run) error {
	d := r.each
	dir, err := os.MkdirTemp(r.dir, "holdfast-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Fprintf(w, "### On one machine (%s)\n\n", fileSystem(dir))

	pairs, err := pairs(dir, d)
	if err != nil {
		return err
	}
	t := table{head: []string{"lock", "what it gives", "acquire + release", "ratio to two appends + fdatasync",
		"8 processes, one key", "8 processes, 8 keys", "hand-over, median (99 %)", "takeover after kill -9, median"}}
	t.row("two raw appends + fdatasync", "nothing", short(pairs[""].median()), "1", "", "", "", "")
	for _, kind := range kinds() {
		one, err := crowd(kind, dir, d, false)
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		many, err := crowd(kind, dir, d, true)
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		handover, err := relay(kind, dir, d)
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		takeover, err := takeovers(kind, dir)
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		over := short(takeover.median())
		if takeover == nil {
			over = "the TTL"
		}
		t.row(kind, what(kind), short(pairs[kind].median()), ratio(pairs[kind].median(), pairs[""].median()), one, many,
			fmt.Sprintf("%s (%s)", short(handover.median()), short(handover.at(0.99))), over)
	}
	t.print(w)
	return nil
}

// pairs measures an uncontended acquire + release of each kind. In turns with each it
// measures two raw appends with fdatasync, under "", so that all use the same disk.
func pairs(dir string, d time.Duration) (map[string]samples, error) {
	ctx := context.Background()
	got := map[string]samples{}
	log, err := os.OpenFile(filepath.Join(dir, "raw"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	record := []byte(strings.Repeat(rand.Text(), 20)) // about as long as a lease's record
	cycles := map[string]func() error{"": func() error {
		for range 2 {
			if _, err := log.Write(record); err != nil {
				return err
			}
			if err := unix.Fdatasync(int(log.Fd())); err != nil {
				return err
			}
		}
		return nil
	}}
	for _, kind := range kinds() {
		l, err := openLocks(kind, dir)
		if err != nil {
			return nil, err
		}
		cycles[kind] = func() error {
			unlock, err := l.lock(ctx, "pair")
			if err != nil {
				return err
			}
			return unlock()
		}
	}
	for end := time.Now().Add(4 * d); time.Now().Before(end); {
		for _, kind := range append(kinds(), "") {
			took, err := timed(cycles[kind])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", kind, err)
			}
			got[kind] = append(got[kind], took)
		}
	}
	return got, nil
}

// crowd lets eight processes take and free one key, or one key each, and returns
// the cycles per second of all, the least and the most of one process, and the processor time of a cycle.
func crowd(kind, dir string, d time.Duration, many bool) (string, error) {
	const processes = 8
	var workers []*process
	defer func() {
		for _, w := range workers {
			w.kill()
		}
	}()
	for i := range processes {
		name := "crowd"
		if many {
			name = fmt.Sprint("crowd", i)
		}
		w, err := startWorker(task{Kind: kind, Dir: dir, Name: name, Cycles: d})
		if err != nil {
			return "", err
		}
		workers = append(workers, w)
	}
	for _, w := range workers {
		if err := w.begin(); err != nil {
			return "", err
		}
	}
	var counts []int
	sum, used := 0, time.Duration(0)
	for _, w := range workers {
		l, err := w.next("done")
		if err != nil {
			return "", err
		}
		counts = append(counts, l.N)
		sum += l.N
		used += l.Used
	}
	per := func(n int) float64 { return float64(n) / d.Seconds() }
	return fmt.Sprintf("%.0f/s (each %.0f–%.0f), %s of processor time", per(sum), per(slices.Min(counts)), per(slices.Max(counts)), short(used/time.Duration(max(sum, 1)))), nil
}

// relay lets two processes pass the lock to and fro, and returns the times from the
// one's release (its call) to the other's hold.
func relay(kind, dir string, d time.Duration) (samples, error) {
	var workers []*process
	for range 2 {
		w, err := startWorker(task{Kind: kind, Dir: dir, Name: "relay", Relay: 20 * time.Millisecond})
		if err != nil {
			return nil, err
		}
		workers = append(workers, w)
		if err := w.begin(); err != nil {
			return nil, err
		}
	}
	time.Sleep(3 * d)
	type mark struct {
		line
		who int
	}
	var marks []mark
	for i, w := range workers {
		_ = w.cmd.Process.Kill()
		for {
			var l line
			if w.out.Decode(&l) != nil {
				break // the end, or a line that the kill has cut
			}
			marks = append(marks, mark{l, i})
		}
		w.kill()
	}
	slices.SortFunc(marks, func(a, b mark) int { return cmp.Compare(a.At, b.At) })
	var got samples
	for i := 1; i < len(marks); i++ {
		if a, b := marks[i-1], marks[i]; a.What == "freed" && b.What == "held" && a.who != b.who {
			got = append(got, time.Duration(b.At-a.At))
		}
	}
	return got, nil
}

// takeovers kills a holder while another process waits, and returns the times to the
// other's hold; nil if only the TTL shows that a holder is dead.
func takeovers(kind, dir string) (samples, error) {
	if kind == kindRename || kind == kindSQLite {
		return nil, nil
	}
	var got samples
	for i := range 11 {
		one, err := takeover(task{Kind: kind, Dir: dir, Name: fmt.Sprint("takeover", i, "-"), Locks: 1}, 100*time.Millisecond)
		if err != nil {
			return nil, err
		}
		got = append(got, one...)
	}
	return got, nil
}

// fileSystem names the file system of a directory.
func fileSystem(dir string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "unknown file system"
	}
	names := map[uint32]string{
		unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "XFS", unix.BTRFS_SUPER_MAGIC: "btrfs",
		unix.TMPFS_MAGIC: "tmpfs: nothing here is durable", unix.OVERLAYFS_SUPER_MAGIC: "overlayfs",
	}
	return cmp.Or(names[uint32(st.Type)], fmt.Sprintf("file system %#x", uint32(st.Type)))
}
