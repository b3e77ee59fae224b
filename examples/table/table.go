// Package table keeps a small table in a bucket, as the table formats of data lakes do:
// many programs write to it, readers see snapshots, and nothing runs but these programs.
//
// Rows lie in data files, which are written once and never changed. A log says which files
// make up the table: each entry of it is a commit, and adds files or replaces them. So the
// table is what its log says, from the last entry that lists all files on.
//
//	PREFIX/log/...    the commits; see object.Log
//	PREFIX/data/...   the data files
//
// # Writers
//
// A writer puts its rows into a new file and appends an entry that adds the file. Until
// then no reader sees it, and a writer that dies leaves a file that belongs to no table.
// If another writer was faster, it reads that one's entry and tries again: its file is
// there already.
//
// # The compactor
//
// Many small files are slow to read. The compactor makes one of them (of all, since this
// table is small), and appends an entry that lists all files of the table, so that what
// precedes it in the log can be removed. One compactor works at a time: it holds a lease.
//
// A compactor can be stopped past its lease, and wake up when another one has replaced the
// files that it has read. It must not commit. So each begins with an entry that has nothing
// but its fencing token, before it reads: the fence. From there on no compactor with a
// lower token commits.
//
// # Files that no entry names
//
// They are left by writers that died, and by each compaction. To remove one is dangerous,
// since its writer may be slow and about to commit it, and a delete cannot be taken back.
// Clocks do not help: either of the two can be stopped for a day. So the name of a file
// begins with the number of the entry that its writer had read last, and the compactor
// commits a horizon, which is a number like that. An entry must not add a file from before
// the horizon: its writer uploads the rows again, under a new name. So a file from before
// the horizon that is not in the table when the horizon is committed will never be in it.
// Any program can remove it at any time.
package table

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// Table is a table in a bucket. It is for one goroutine; open one for each.
type Table struct {
	client *object.Client
	log    *object.Log
	leases *lease.Client
	prefix string
	state  state // as of the last entry read
}

// state is the table as of an entry of the log.
type state struct {
	Entry   uint64   `json:"-"`
	Files   []string `json:"files"`   // in the order in which they were committed
	Horizon uint64   `json:"horizon"` // no entry adds a file from before it
	Fence   uint64   `json:"fence"`   // no compactor with a lower token commits

	listed uint64 // the last entry that lists all files
}

// commit is the body of an entry of the log.
type commit struct {
	Add   string `json:"add,omitempty"`   // a file, at the end
	Fence uint64 `json:"fence,omitempty"` // the token of a compactor that begins
	All   *state `json:"all,omitempty"`   // the whole table
}

const (
	maxFile     = 64 << 20 // bytes that a reader reads of a file
	compactLock = "table/compactor"
)

// Open returns the table below a prefix of a bucket. The leases are on any store that all
// programs share, which may be a part of the same bucket.
func Open(client *object.Client, leases *lease.Client, prefix string) (*Table, error) {
	log, err := object.OpenLog(client, prefix+"/log", &object.LogOptions{ContentType: "application/json"})
	if err != nil {
		return nil, err
	}
	return &Table{client: client, log: log, leases: leases, prefix: prefix}, nil
}

// Insert adds rows, each a line of text, all of them or none: 64 MiB at most. A nil error says that they
// are in the table, once. Otherwise [store.OutcomeOf] says whether they may be in the
// table.
func (t *Table) Insert(ctx context.Context, rows ...string) error {
	if err := t.refresh(ctx); err != nil {
		return store.MarkNotApplied(err)
	}
	file, err := t.upload(ctx, rows)
	if err != nil {
		return store.MarkNotApplied(err)
	}
	return t.commit(ctx, func() (commit, error) {
		if number(file) < t.state.Horizon {
			// A compactor may be removing the file: this writer was too slow.
			if file, err = t.upload(ctx, rows); err != nil {
				return commit{}, err
			}
		}
		return commit{Add: file}, nil
	})
}

// Rows returns the rows of the table as of one moment during the call.
func (t *Table) Rows(ctx context.Context) (rows []string, err error) {
	for {
		if err := t.refresh(ctx); err != nil {
			return nil, err
		}
		files := t.state.Files
		rows, err = t.read(ctx, files)
		if !errors.Is(err, store.ErrNotFound) {
			return rows, err
		}
		// The files have been compacted and removed meanwhile. Otherwise the table is damaged.
		if lost := t.refresh(ctx); lost != nil || t.state.Files[0] == files[0] {
			return nil, errors.Join(err, lost)
		}
	}
}

// Compact makes one file of all, and removes what is no longer needed. It waits for the
// lease of the compactor. It can be stopped at any point, and be run again. A table of more
// than 64 MiB does not fit into one file, and keeps its files.
func (t *Table) Compact(ctx context.Context) error {
	return t.leases.Do(ctx, compactLock, func(ctx context.Context, guard *lease.Guard) error {
		return t.compact(ctx, guard.Token())
	}, nil)
}

// errFenced says that a compactor with a higher token has begun.
var errFenced = errors.New("another compactor has taken over")

func (t *Table) compact(ctx context.Context, token uint64) error {
	if err := t.refresh(ctx); err != nil {
		return err
	}
	err := t.commit(ctx, func() (commit, error) {
		if t.state.Fence > token {
			return commit{}, errFenced
		}
		return commit{Fence: token}, nil
	})
	if err != nil {
		return err
	}
	old := t.state
	rows, err := t.read(ctx, old.Files)
	if err != nil {
		return err
	}
	file, err := t.upload(ctx, rows)
	if err != nil {
		return err
	}
	err = t.commit(ctx, func() (commit, error) {
		if t.state.Fence > token {
			return commit{}, errFenced
		}
		// Only compactors remove files from the table: the files added since then follow
		// the compacted ones. The horizon is the compaction before this one, so that
		// writers that began after that one need not upload again, and readers find its
		// files.
		added := t.state.Files[len(old.Files):]
		return commit{All: &state{Files: append([]string{file}, added...), Horizon: old.listed, Fence: token}}, nil
	})
	if err != nil {
		return err
	}
	if err := t.log.Trim(ctx, t.state.Entry); err != nil {
		return err
	}
	return t.sweep(ctx, t.state)
}

// sweep removes the files before the horizon of s that are not in the table. s is what an
// entry of the log says, and it does not matter how long ago that was.
func (t *Table) sweep(ctx context.Context, s state) error {
	for info, err := range t.client.List(ctx, t.prefix+"/data/", nil) {
		if err != nil {
			return err
		}
		file := strings.TrimPrefix(info.Key, t.prefix+"/data/")
		if number(file) >= s.Horizon || slices.Contains(s.Files, file) {
			continue
		}
		if err := t.client.Delete(ctx, info.Key, nil); err != nil {
			return err
		}
	}
	return nil
}

// Check returns the files that the table names and that are missing, which never
// happens, and those that no entry of the log names.
func (t *Table) Check(ctx context.Context) (missing, unnamed []string, err error) {
	if err := t.refresh(ctx); err != nil {
		return nil, nil, err
	}
	there := map[string]bool{}
	for info, err := range t.client.List(ctx, t.prefix+"/data/", nil) {
		if err != nil {
			return nil, nil, err
		}
		file := strings.TrimPrefix(info.Key, t.prefix+"/data/")
		there[file] = true
		if !slices.Contains(t.state.Files, file) {
			unnamed = append(unnamed, file)
		}
	}
	for _, file := range t.state.Files {
		if !there[file] {
			missing = append(missing, file)
		}
	}
	return missing, unnamed, nil
}

// commit appends what next returns for the present state, and asks it again after each
// commit of others that was faster.
func (t *Table) commit(ctx context.Context, next func() (commit, error)) error {
	for {
		c, err := next()
		if err != nil {
			return store.MarkNotApplied(err)
		}
		body, err := json.Marshal(c)
		if err != nil {
			return store.MarkNotApplied(err)
		}
		e, err := t.log.Append(ctx, t.state.Entry, body)
		if err == nil {
			return t.state.apply(e)
		}
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
		if err := t.refresh(ctx); err != nil {
			return store.MarkNotApplied(err)
		}
	}
}

// refresh reads the log from where it was left.
func (t *Table) refresh(ctx context.Context) error {
	for e, err := range t.log.Read(ctx, t.state.Entry+1) {
		var cleaned *object.TrimmedError
		if errors.As(err, &cleaned) {
			// The entry at which the log begins now lists the whole table.
			t.state = state{Entry: cleaned.First - 1}
			return t.refresh(ctx)
		}
		if err == nil {
			err = t.state.apply(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// apply makes the state that of the next entry.
func (s *state) apply(e object.LogEntry) error {
	var c commit
	if err := json.Unmarshal(e.Body, &c); err != nil {
		return fmt.Errorf("entry %d: %w", e.Number, err)
	}
	switch {
	case c.All != nil:
		*s = *c.All
		s.listed = e.Number
	case c.Add != "":
		s.Files = append(slices.Clip(s.Files), c.Add)
	case c.Fence > 0:
		s.Fence = c.Fence
	default:
		return fmt.Errorf("entry %d: this program does not know what it says: %.80q", e.Number, e.Body)
	}
	s.Entry = e.Number
	return nil
}

// upload puts rows into a new file.
func (t *Table) upload(ctx context.Context, rows []string) (file string, err error) {
	var body bytes.Buffer
	for _, row := range rows {
		if strings.Contains(row, "\n") {
			return "", fmt.Errorf("a row has more than one line: %.80q", row)
		}
		body.WriteString(row + "\n")
	}
	if body.Len() > maxFile {
		return "", fmt.Errorf("rows of %d bytes, at most %d fit into a file", body.Len(), maxFile)
	}
	file = fmt.Sprintf("%020d-%s", t.state.Entry, rand.Text())
	_, err = t.client.Put(ctx, t.key(file), bytes.NewReader(body.Bytes()), &object.WriteOptions{IfAbsent: true})
	return file, err
}

// read returns the rows of some files.
func (t *Table) read(ctx context.Context, files []string) (rows []string, err error) {
	for _, file := range files {
		body, _, err := t.client.ReadAll(ctx, t.key(file), maxFile, nil)
		if err != nil {
			return nil, err
		}
		for row := range strings.Lines(string(body)) {
			rows = append(rows, strings.TrimSuffix(row, "\n"))
		}
	}
	return rows, nil
}

func (t *Table) key(file string) string { return t.prefix + "/data/" + file }

// number is that of the entry which the writer of a file had read last.
func number(file string) (n uint64) {
	_, _ = fmt.Sscanf(file, "%d-", &n)
	return n
}
