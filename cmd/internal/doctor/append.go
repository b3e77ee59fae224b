package doctor

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// The test that appends are atomic: this many processes append this often each.
const (
	appenders   = 8
	appendCount = 1000
)

// Help is the work of a helper process that an examination starts. The arguments are "append FILE ID
// COUNT" or "presence DIR". The helper process prints a line when it is ready. An append then waits for
// the end of stdin; presence waits until doctor kills the process.
func Help(args []string, stdin io.Reader, stdout io.Writer) error {
	switch {
	case len(args) == 4 && args[0] == "append":
		count, err := strconv.Atoi(args[3])
		if err != nil {
			return err
		}
		return appendAll(args[1], args[2], count, stdin, stdout)
	case len(args) == 2 && args[0] == "presence":
		return announce(args[1], stdin, stdout)
	}
	return errors.New("only holdfast doctor calls this command")
}

// announce announces this process, prints the announcement, and waits to be killed.
func announce(dir string, stdin io.Reader, stdout io.Writer) error {
	st, err := filestore.Open(dir, nil)
	if err != nil {
		return err
	}
	defer st.Close()
	text, err := st.Announce(context.Background())
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, text)
	_, err = io.Copy(io.Discard, stdin)
	return err
}

// entry returns the content of one append. It is as long as a record of a lock, and now and
// then longer than a page.
func entry(id string, i int) []byte {
	size := 60 + i*37%400
	if i%50 == 0 {
		size = 9000
	}
	text := fmt.Sprintf("%s %d %s", id, i, strings.Repeat("x", size))
	return fmt.Appendf(nil, "%s %08x\n", text, crc32.ChecksumIEEE([]byte(text)))
}

// appendAll appends entries, each in one write. After each it reads what the processes have
// added since, which must contain its own entry. At the end it prints how far it has read,
// and a hash of all that: bytes in the file must never change.
func appendAll(path, id string, count int, stdin io.Reader, stdout io.Writer) error {
	f, err := openOurs(path)
	if err != nil {
		return err
	}
	defer f.Close()
	fmt.Fprintln(stdout, "ready")
	if _, err := io.Copy(io.Discard, stdin); err != nil {
		return err
	}
	offset, sum, buf := int64(0), sha256.New(), make([]byte, 64<<10)
	for i := range count {
		e := entry(id, i)
		if n, err := f.Write(e); err != nil || n != len(e) {
			return fmt.Errorf("a short write: %d of %d: %w", n, len(e), err)
		}
		var news bytes.Buffer
		n, err := io.CopyBuffer(io.MultiWriter(&news, sum), io.NewSectionReader(f, offset, math.MaxInt64-offset), buf)
		if err != nil {
			return err
		}
		offset += n
		if !bytes.Contains(news.Bytes(), e) {
			fmt.Fprintf(stdout, "unseen %d\n", i)
			return nil
		}
	}
	fmt.Fprintf(stdout, "%d %s\n", offset, hex.EncodeToString(sum.Sum(nil)))
	return nil
}

// openOurs opens the file of [directory.appending]. Other users may have replaced the
// directory of the file. But they have no directory that belongs to this user and holds a
// file of this name.
func openOurs(path string) (*os.File, error) {
	above, err := os.OpenRoot(filepath.Dir(filepath.Dir(path)))
	if err != nil {
		return nil, err
	}
	defer above.Close()
	dir, err := safefile.OpenPrivate(above, filepath.Base(filepath.Dir(path)))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.OpenFile(filepath.Base(path), os.O_RDWR|os.O_APPEND, 0)
}

// appending proves by doing that every append is one entry, in one order that all
// processes see.
func (p *directory) appending(ctx context.Context) []Check {
	c := Finding("append", fmt.Sprintf("%d processes that append %d times each", appenders, p.count), true)
	if p.o.Helper == nil {
		return c.As(NotTested, "doctor cannot start helper processes here", "")
	}
	name := "append-" + rand.Text() // the helpers need a name that no other user can guess
	if err := p.own.WriteFile(name, nil, 0o600); err != nil {
		return p.e.Failed(c, err)
	}
	said, err := p.fight(ctx, p.path(name))
	if room := p.room(); err != nil && room != nil {
		err = room // a helper's error is a text
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return p.e.Failed(c, err)
	}
	body, err := p.own.ReadFile(name)
	if err != nil {
		return p.e.Failed(c, err)
	}
	if fault := checkAppends(body, said, p.count); fault != "" {
		return c.Unsafe(fault, "two programs could hold one lock at the same time; use a directory on a local disk")
	}
	return c.OK("%d entries, none torn, lost or out of order", appenders*p.count)
}

// fight runs the appending processes at the same time, and returns what each printed at the
// end.
func (p *directory) fight(ctx context.Context, path string) ([]string, error) {
	said := make([]string, appenders)
	errs := make([]error, appenders)
	start := make(chan struct{})
	var ready, done sync.WaitGroup
	for i := range said {
		ready.Add(1)
		done.Go(func() {
			var once sync.Once
			isReady := func() { once.Do(ready.Done) }
			defer isReady()
			said[i], errs[i] = p.talk(ctx, isReady, start, "append", path, strconv.Itoa(i), strconv.Itoa(p.count))
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
	return said, errors.Join(errs...)
}

// talk runs one helper: the helper says that it is ready, gets the signal to start, and
// prints a result.
func (p *directory) talk(ctx context.Context, ready func(), start <-chan struct{}, args ...string) (string, error) {
	var complaint bytes.Buffer
	cmd, stdin, lines, err := p.start(ctx, &complaint, args...)
	if err != nil {
		return "", err
	}
	lines.Scan()
	ready()
	<-start
	stdin.Close()
	lines.Scan()
	text := lines.Text()
	if err := cmd.Wait(); err != nil {
		return "", fmt.Errorf("a helper process: %w: %s", err, strings.TrimSpace(complaint.String()))
	}
	return text, nil
}

// start starts a helper. It returns the lines that the helper prints, and the stdin that the helper reads.
func (p *directory) start(ctx context.Context, stderr io.Writer, args ...string) (cmd *exec.Cmd, stdin io.Closer, lines *bufio.Scanner, err error) {
	cmd = p.o.Helper(ctx, args...)
	cmd.Stderr = stderr
	if stdin, err = cmd.StdinPipe(); err != nil {
		return nil, nil, nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	return cmd, stdin, bufio.NewScanner(stdout), err
}

// checkAppends returns what is wrong with the entries that the processes wrote and read.
func checkAppends(body []byte, said []string, count int) string {
	for id, text := range said {
		if strings.HasPrefix(text, "unseen ") {
			return "a process did not see its own append"
		}
		var offset int
		var sum string
		if n, _ := fmt.Sscan(text, &offset, &sum); n != 2 || offset > len(body) {
			return fmt.Sprintf("process %d saw an entry that does not exist", id)
		}
		if now := sha256.Sum256(body[:offset]); hex.EncodeToString(now[:]) != sum {
			return "a process saw another content or order than the file has now"
		}
	}
	next := make(map[string]int)
	for line := range bytes.Lines(body) {
		id, rest, _ := strings.Cut(string(line), " ")
		number, _, _ := strings.Cut(rest, " ")
		i, err := strconv.Atoi(number)
		if err != nil || !bytes.Equal(line, entry(id, i)) {
			return "an append was torn or overwritten"
		}
		if i != next[id] {
			return "an append is lost or out of order"
		}
		next[id]++
	}
	for id := range said {
		if next[strconv.Itoa(id)] != count {
			return "an append is lost"
		}
	}
	return ""
}

// room returns why doctor cannot write, on a full disk say. The appends then prove nothing.
func (p *directory) room() error {
	f, err := os.CreateTemp(p.dir, "room-")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 4096))
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// presence tests that a living process is seen to be alive, and a killed one to be dead.
func (p *directory) presence(ctx context.Context) []Check {
	c := Finding("presence", "recognition of dead processes", false)
	const instead = "the lock of a dead holder is free after the TTL, not at once"
	if p.o.Helper == nil {
		return c.As(NotTested, "doctor cannot start helper processes here", "")
	}
	cmd, stdin, lines, err := p.start(ctx, nil, "presence", p.path("store"))
	if err != nil {
		return p.e.Failed(c, err)
	}
	defer stdin.Close()
	lines.Scan()
	text := lines.Text()
	before := p.stores[0].Liveness(ctx, text)
	_ = cmd.Process.Kill() // it may have ended by itself
	_ = cmd.Wait()
	if text == "" {
		if err := p.room(); err != nil {
			return p.e.Failed(c, err)
		}
		return c.Warn("Holdfast cannot distinguish living and dead processes here", instead)
	}
	switch after := p.stores[0].Liveness(ctx, text); {
	case before == store.Dead:
		return c.Unsafe("a living process was judged dead", "other clients would take the lock of a living holder")
	case before == store.Alive && after == store.Dead:
		return c.OK("a living process is seen as alive, a killed process as dead")
	default:
		return c.Warn(fmt.Sprintf("a living process is seen as %v, a killed process as %v", before, after), instead)
	}
}
