package allstores

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/internal/localfs"
	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/sqlstore"
)

// sqlite parses sqlite:PATH. It demands a file that only this user and root can change.
// SQLite obeys the files next to the database: if another user had put a journal there,
// SQLite would remove any file of this user that the journal names.
func (d *database) sqlite(u *url.URL, query url.Values, create bool) error {
	network, accepted, err := stores.Insisted(query, "table, prefix, ")
	if err != nil {
		return err
	}
	path, _ := stores.PathOf(u) // a wrong one is empty
	if path == "" || u.Host != "" || strings.HasPrefix(path, "~") {
		return exit.Usagef("the store's URL does not name a file: write sqlite:/PATH or sqlite:PATH")
	}
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	named := path
	if path, err = safefile.ExclusiveFile(path, []string{"-journal", "-wal", "-shm"}, accepted); errors.Is(err, fs.ErrNotExist) {
		return exit.With(exit.NotFound, fmt.Errorf("the directory %s does not exist: create it first", filepath.Dir(named)))
	} else if err != nil {
		return err
	}
	kind, local, err := localfs.Check(filepath.Dir(path))
	switch {
	case err != nil:
		return err
	case !local && !network:
		return fmt.Errorf("%w: %s is on %s, and the locks of SQLite may not work there; to accept this risk, add network=allow to the store's URL", store.ErrUnsafe, path, kind)
	}
	d.dialect, d.opts.Name = sqlstore.SQLite, "sqlite:"+path
	if create {
		// Make the file here: SQLite would make it readable for other users.
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			err = f.Close()
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	} else if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return exit.With(exit.NotFound, noDatabase{path, "init"})
	}
	if how := otherName(path); how != "" {
		return fmt.Errorf("%w: %s %s. SQLite keeps a part of the data in files next to the name that a program opens: programs that open other names do not see this part, and all of them could get one lock. Use one name only: remove the other hard links, or mount the directory", store.ErrUnsafe, path, how)
	}
	// To open a file here, and close it, would end the locks that SQLite has on it in this process.
	for _, file := range []string{path, path + "-wal", path + "-shm"} {
		if !canRead(file) {
			return fmt.Errorf("%s: %w: this user may not read %s", d.opts.Name, store.ErrDenied, file)
		}
	}
	source := &url.URL{Scheme: "file", Path: path, RawQuery: url.Values{
		"mode":    {"rw"},
		"_pragma": {"busy_timeout(5000)", "trusted_schema(OFF)", "journal_mode(WAL)", "synchronous(FULL)"},
		"_txlock": {"immediate"},
	}.Encode()}
	d.db, err = sql.Open("sqlite", source.String())
	return err
}

// noDatabase is the error for a file of SQLite that does not exist.
type noDatabase struct{ path, madeBy string }

func (e noDatabase) Error() string {
	return fmt.Sprintf("there is no database %s: create it with holdfast %s", e.path, e.madeBy)
}
